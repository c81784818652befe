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
    // Bash says so and tries again; these do not.
    sign(
        "fork: Resource temporarily unavailable",
        Systemd,
        PidsExhausted,
        Medium,
    )
    .without(&["retry"]),
    // Nothing can be read from the disk that holds the programs.
    sign("nput/output error", Systemd, StorageUnresponsive, Medium)
        .with(&[
            "bash: /",
            "cannot execute",
            "ls: ",
            "Failed to write entry",
            "Failed to rotate /",
            "Failed at step EXEC",
            "df: ",
        ])
        .without(&["/dev/pts", "/dev/tty", "/sys/", "/proc/"]),
    // The C library's words; of programs that a node needs.
    sign("Too many open files", Systemd, FdOrInotifyExhausted, Medium).with(&[
        "systemd[1]",
        "dbus",
        "sshd[",
        "systemd-journald",
        "udevd",
        "conmon",
        "crun",
        "Failed to get journal",
    ]),
    // Old kernels say so when no process number is left.
    sign("fork: Cannot allocate memory", Systemd, PidsExhausted, Low),
    sign(
        "= -1 EAGAIN (Resource temporarily unavailable)",
        Systemd,
        PidsExhausted,
        High,
    )
    .with(&["clone(", "clone3(", "fork()"]),
    // Go says so behind EAGAIN alone.
    sign("increase max user processes", Systemd, PidsExhausted, High),
    sign("AN'T FORK", Systemd, PidsExhausted, Medium),
    sign("ork failed: ", Systemd, PidsExhausted, Medium)
        .with(&["esource temporarily unavailable", "annot allocate memory"]),
    sign(
        "' task: Resource temporarily unavailable",
        Systemd,
        PidsExhausted,
        High,
    ),
    // The limit of the whole node, never that of one process.
    sign(
        "oo many open files in system",
        Systemd,
        FdOrInotifyExhausted,
        High,
    ),
    sign(
        "directory watch: No space left on device",
        Systemd,
        FdOrInotifyExhausted,
        High,
    ),
    sign("inotify_add_watch(", Systemd, FdOrInotifyExhausted, High)
        .with(&["o space left on device"])
        .without(&["inotify_add_watch /"]),
    // In the cgroups of version 2.
    sign("/sys/fs/cgroup/", Systemd, MemoryCgroupLeak, Medium)
        .with(&["mkdir: cannot create directory"])
        .without(&[
            "ermission denied",
            "Read-only",
            "File exists",
            "No such file",
            "/sys/fs/cgroup/memory",
        ]),
];
