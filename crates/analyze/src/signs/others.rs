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
    // The program behind a thin plugin; at its own start for a moment.
    sign(
        "failed to send CNI request: Post",
        Runtime,
        CniPluginHang,
        Medium,
    )
    .with(&[
        "connection refused",
        "EOF",
        "deadline exceeded",
        "Client.Timeout",
        "no such file",
    ])
    .lines(3),
    // Longhorn's engine.
    sign(
        "R/W Timeout. No response received in",
        Runtime,
        StorageUnresponsive,
        Medium,
    ),
    // An OSD that recovers is slow, too.
    sign(
        "slow ops, oldest one blocked for",
        Runtime,
        StorageUnresponsive,
        Low,
    )
    .with(&["osd"]),
    // Of a mounted volume, by ceph-csi.
    sign(
        "health-check has not responded for ",
        Runtime,
        StorageUnresponsive,
        High,
    ),
    // GlusterFS.
    sign(
        "rpc_clnt_ping_timer_expired",
        Runtime,
        StorageUnresponsive,
        Medium,
    ),
    sign(
        "rbd: map failed: (110)",
        Runtime,
        StorageUnresponsive,
        Medium,
    ),
    // Open vSwitch, which OVN and others ask.
    sign(
        "database connection failed (",
        Runtime,
        CniPluginHang,
        Medium,
    )
    .with(&["openvswitch/db.sock"])
    .lines(3),
    // Cilium's agent.
    sign(
        "http://localhost/v1/endpoint/",
        Runtime,
        CniPluginHang,
        Medium,
    )
    .with(&["context deadline exceeded", "Client.Timeout"]),
    sign(
        "slow requests are blocked > 32 sec",
        Runtime,
        StorageUnresponsive,
        Low,
    ),
    sign("full osd(s)", Runtime, StorageUnresponsive, Medium)
        .with(&["HEALTH_ERR"])
        .without(&["nearfull osd(s); ", "backfillfull"]),
    // Weave's router; at its start for a moment.
    sign(
        "127.0.0.1:6784: connect: connection refused",
        Runtime,
        CniPluginHang,
        Low,
    )
    .lines(5),
    // The database of K3s; a compaction takes long, too.
    sign("Slow SQL (started: ", Runtime, DiskSaturated, Low)
        .with(&["total time: "])
        .lines(3),
    // Go's words for ESTALE.
    sign("tale NFS file handle", Runtime, StorageUnresponsive, Medium).with(&[
        "stat",
        "/var/lib/kubelet",
        "df: ",
        "ls: ",
        "mount",
    ]),
    sign("tale file handle", Runtime, StorageUnresponsive, Medium).with(&[
        "df: ",
        "ls: ",
        "stat",
        "umount",
        "cannot access",
        "cannot open directory",
        "/volumes/",
    ]),
    // A server of FUSE has ended: nobody waits for it.
    sign(
        "ransport endpoint is not connected",
        Runtime,
        StorageUnresponsive,
        Low,
    )
    .with(&[
        "df: ",
        "ls: ",
        "cannot access",
        "cannot stat",
        "umount: ",
        "ENOTCONN",
    ])
    .without(&["session", "dbus", "sd-bus"]),
    sign(
        "no mds server is up or the cluster is laggy",
        Runtime,
        StorageUnresponsive,
        Medium,
    ),
    sign(
        "mount.nfs: Connection timed out",
        Runtime,
        StorageUnresponsive,
        Low,
    ),
    sign(
        "mount.nfs4: Connection timed out",
        Runtime,
        StorageUnresponsive,
        Low,
    ),
    // BusyBox, in its own words of ETIMEDOUT.
    sign("mount: mounting ", Runtime, StorageUnresponsive, Low).with(&[
        " failed: Operation timed out",
        " failed: Connection timed out",
    ]),
    // util-linux.
    sign(
        "mount(2) system call failed: Connection timed out",
        Runtime,
        StorageUnresponsive,
        Low,
    ),
    sign(
        "mount error(110): Connection timed out",
        Runtime,
        StorageUnresponsive,
        Low,
    ),
    // Talos acts on the memory pressure of the node, before the kernel does.
    sign("Sending SIGKILL to cgroup", Runtime, MemoryThrash, Medium).with(&["OOMController"]),
    // Titus, of a container whose processes wait for a FUSE file system.
    sign(
        "because fuse is wedged",
        Runtime,
        StorageUnresponsive,
        Medium,
    ),
];
