//! What systemd, shells, daemons and commands of a node write when processes, files, disks or memory have
//! run out.

use causes::Cause::*;
use causes::finding::Confidence::*;

use super::{Sign, sign};
use crate::kind::Writer::Systemd;

/// The same error of limits: of watches, control groups, semaphores, shared memory and threads.
const NO_DISK: &[&str] = &[
    "cpuset",
    "inotify",
    "watch",
    "cgroup",
    "sem",
    // A volume of a database.
    "pg_wal",
    "shm",
    "pthread_create",
    // A unit's control group.
    "unable to start unit ",
    // The pseudoterminals and namespaces that there may be.
    "allocate pty",
    "unshare",
];

pub(super) const SIGNS: &[Sign] = &[
    // A shell's and supervisord's words for EAGAIN of fork(2).
    sign(
        "fork: retry: Resource temporarily unavailable",
        Systemd,
        PidsExhausted,
        Medium,
    ),
    sign(
        "fork: retry: No child processes",
        Systemd,
        PidsExhausted,
        Medium,
    ),
    sign(
        "Too many processes in process table",
        Systemd,
        PidsExhausted,
        Medium,
    ),
    sign(
        "Failed to load environment files: Too many open files",
        Systemd,
        FdOrInotifyExhausted,
        Medium,
    ),
    sign(
        "Failed to allocate directory watch: Too many open files",
        Systemd,
        FdOrInotifyExhausted,
        High,
    ),
    sign(
        "inotify object: Too many open files",
        Systemd,
        FdOrInotifyExhausted,
        High,
    ),
    sign(
        "to create inotify: Too many open files",
        Systemd,
        FdOrInotifyExhausted,
        High,
    ),
    // What tail, fluentd and others say once no watch is left.
    sign(
        "total number of inotify watches was reached",
        Systemd,
        FdOrInotifyExhausted,
        Medium,
    ),
    sign(
        "inotify cannot be used, reverting to polling",
        Systemd,
        FdOrInotifyExhausted,
        Medium,
    ),
    // The words of the C library, which journald, shells and most programs use.
    sign("No space left on device", Systemd, DiskFull, Medium).without(NO_DISK),
    // Once in a while journald says so on any busy node.
    sign("Under memory pressure", Systemd, MemoryThrash, Low).lines(20),
    sign(
        "not enough space available on /run/systemd",
        Systemd,
        DiskFull,
        High,
    ),
    sign(
        "Failed to add control inotify watch descriptor",
        Systemd,
        FdOrInotifyExhausted,
        High,
    )
    .with(&["No space left on device"]),
    // Git's words.
    sign("cannot fork() for ", Systemd, PidsExhausted, Medium)
        .with(&["Resource temporarily unavailable"]),
    sign(
        "Failed to fork: Resource temporarily unavailable",
        Systemd,
        PidsExhausted,
        High,
    ),
    // earlyoom and systemd-oomd.
    sign("low memory! at or below SIG", Systemd, MemoryThrash, Medium),
    sign("due to memory used", Systemd, MemoryThrash, Medium).with(&["Killed /"]),
    sign("due to memory pressure", Systemd, MemoryThrash, Medium).with(&["Killed /"]),
];
