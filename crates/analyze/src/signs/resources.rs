//! What the kubelet writes of disks, volumes, memory, processes and open files.

use causes::Cause::*;
use causes::finding::Confidence::*;

use super::{EVENT_ROWS, Sign, sign};
use crate::kind::Writer::Kubelet;

/// What the eviction manager reclaims from a disk.
const DISK_RESOURCES: &[&str] = &[
    "ephemeral-storage",
    "nodefs",
    "imagefs",
    "containerfs",
    "inodes",
];

/// The same, in front of what the evicted pod itself uses.
const EVICTED_FOR_DISK: &[&str] = &[
    "resource: ephemeral-storage",
    "resource: nodefs",
    "resource: imagefs",
    "resource: inodes",
];

const MINUTES: &[&str] = &[
    "took 1m", "took 2m", "took 3m", "took 4m", "took 5m", "took 6m", "took 7m", "took 8m",
    "took 9m",
];

pub(super) const SIGNS: &[Sign] = &[
    // systemd cannot make the control group of a pod.
    sign("unable to start unit ", Kubelet, MemoryCgroupLeak, Low).with(&["o space left on device"]),
    // An earlier call for the same volume has not ended.
    sign(
        "n operation with the given Volume ID",
        Kubelet,
        StorageUnresponsive,
        Low,
    )
    .with(&["already exists"]),
    // The server of a network file system does not answer.
    sign(
        "UnmountVolume.TearDown failed",
        Kubelet,
        StorageUnresponsive,
        Medium,
    )
    .with(&[
        "resource temporarily unavailable",
        "host is down",
        "stale NFS file handle",
        "stale file handle",
    ]),
    sign(
        "unable to create inotify",
        Kubelet,
        FdOrInotifyExhausted,
        High,
    ),
    sign(
        "inotify_init: too many open files",
        Kubelet,
        FdOrInotifyExhausted,
        High,
    ),
    // Seconds are usual; minutes are logged for one container after the other.
    sign("following dirs took", Kubelet, DiskSaturated, Low)
        .with(MINUTES)
        .lines(2),
    sign(
        "arbage collect required amount of images",
        Kubelet,
        DiskFull,
        Medium,
    )
    // At a start the size of the file system may not be known yet.
    .without(&["invalid capacity 0"]),
    sign(
        "viction manager: attempting to reclaim",
        Kubelet,
        DiskFull,
        Medium,
    )
    .with(DISK_RESOURCES),
    sign(
        "viction manager: attempting to reclaim",
        Kubelet,
        MemoryThrash,
        Low,
    )
    .with(&["reclaim memory", "resourceName=\"memory\""]),
    sign(
        "viction manager: must evict pod(s) to reclaim",
        Kubelet,
        DiskFull,
        Medium,
    )
    .with(DISK_RESOURCES),
    // Why a pod finds no node.
    sign("NodeUnderDiskPressure", Kubelet, DiskFull, Medium),
    sign(
        "taint {node.kubernetes.io/disk-pressure",
        Kubelet,
        DiskFull,
        Low,
    ),
    // The kubelet itself takes no further pod.
    sign("node has conditions: [", Kubelet, DiskFull, Medium).with(&["DiskPressure"]),
    sign("node has conditions: [", Kubelet, MemoryThrash, Low).with(&["MemoryPressure"]),
    sign("node has conditions: [", Kubelet, PidsExhausted, Medium).with(&["PIDPressure"]),
    // In a table of events its row is read by itself.
    sign("System OOM encountered", Kubelet, MemoryThrash, Medium).without(EVENT_ROWS),
    // Why a pod was evicted, as the pod itself tells. The node need not be short of it any more.
    sign("The node had condition: [", Kubelet, DiskFull, Medium).with(&["DiskPressure"]),
    sign("The node had condition: [", Kubelet, MemoryThrash, Low).with(&["MemoryPressure"]),
    sign("The node had condition: [", Kubelet, PidsExhausted, Low).with(&["PIDPressure"]),
    sign("The node was low on resource: ", Kubelet, DiskFull, Medium).with(EVICTED_FOR_DISK),
    sign("The node was low on resource: ", Kubelet, MemoryThrash, Low).with(&["resource: memory"]),
    // The device of a directory that the node needs; terminals and cgroups end so every day.
    sign(": input/output error", Kubelet, StorageUnresponsive, Medium)
        .with(&["/var/lib/", "/var/log/", "/run/containerd/"])
        .without(&["/dev/", "cgroup"]),
    // du of one container's directory: a disk that is too slow for it, or that du itself fills.
    sign("illing cmd [", Kubelet, DiskSaturated, Low).with(&["due to timeout", "[nice -n 19 du "]),
    sign("NodeHasInsufficientMemory", Kubelet, MemoryThrash, Medium).with(&["is now: NodeHas"]),
    sign("NodeHasInsufficientPID", Kubelet, PidsExhausted, Medium).with(&["is now: NodeHas"]),
    sign("ttempting to reclaim", Kubelet, PidsExhausted, Medium)
        .with(&["resourceName=\"pids\"", "reclaim pids"]),
    sign(
        "The node was low on resource: pids",
        Kubelet,
        PidsExhausted,
        Medium,
    ),
];
