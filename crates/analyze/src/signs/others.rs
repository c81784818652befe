//! What other programs of a node write, whose logs stand beside those of the runtime: etcd, clients and
//! servers of storage, network plugins, fapolicyd.

use causes::Cause::*;
use causes::finding::Confidence::*;

use super::{Sign, sign};
use crate::kind::Writer::Runtime;

pub(super) const SIGNS: &[Sign] = &[
    // Longhorn's engine, and CSI drivers.
    sign(
        "Write timeout on replica",
        Runtime,
        StorageUnresponsive,
        Medium,
    )
    .lines(2),
    sign(
        "err=\"function timeout\"",
        Runtime,
        StorageUnresponsive,
        Medium,
    )
    .with(&["check volume path"])
    .lines(2),
    sign(
        "process killed after timeout",
        Runtime,
        StorageUnresponsive,
        Medium,
    )
    .with(&["process=umount", "process=mount"])
    .lines(2),
    // EHOSTDOWN, of SMB.
    sign(": Host is down", Runtime, StorageUnresponsive, Medium).with(&[
        "reading directory",
        "cannot access",
        "cannot open directory",
        "stat ",
    ]),
    // A Ceph metadata server, of a file that somebody else holds.
    sign("currently failed to ", Runtime, StorageUnresponsive, Low)
        .with(&["rdlock", "wrlock", "xlock"]),
    // Calico's plugin before 2.0, which was written in Python.
    sign(
        "TimeoutExpired: Command '['ip', 'netns', 'exec'",
        Runtime,
        CniPluginHang,
        Medium,
    ),
    // A volume on Ceph behind iSCSI.
    sign(
        "_handle_timedout_cmd:",
        Runtime,
        StorageUnresponsive,
        Medium,
    )
    .with(&["Timing out cmd"])
    .lines(2),
    // fapolicyd's words: it has not decided on a file for so long that it ends itself.
    sign(
        "Deadman's switch activated...killing process",
        Runtime,
        FanotifyBlocked,
        High,
    ),
    // ERESTARTSYS: a call on a file system that somebody interrupted because it did not return.
    sign("errno=512", Runtime, StorageUnresponsive, Medium),
    sign(": errno 512", Runtime, StorageUnresponsive, Medium),
    sign("slow fdatasync", Runtime, DiskSaturated, Medium),
    sign(
        "overloaded likely from slow disk",
        Runtime,
        DiskSaturated,
        Low,
    )
    .lines(2),
    // The same of etcd before 3.4.
    sign("sync duration of ", Runtime, DiskSaturated, Medium).with(&["expected less than"]),
    sign("apply request took too long", Runtime, DiskSaturated, Low).lines(3),
    sign("apply entries took too long", Runtime, DiskSaturated, Low).lines(3),
    sign(
        "failed to send out heartbeat on time",
        Runtime,
        DiskSaturated,
        Low,
    )
    .lines(3),
    sign(
        "operation timed out while umount",
        Runtime,
        StorageUnresponsive,
        Medium,
    ),
];
