//! File systems and volumes.

use super::super::EVENT_ROWS;
use super::{Failure, failure};

/// Without them the kubelet and the runtime do not work.
const DIRECTORIES: &[&str] = &[
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/containers",
];

const READ_ONLY: &str = "a file system that the kubelet or the runtime needs is read-only";

const NOT_UNMOUNTED: &str = "a volume cannot be unmounted";

const NOT_MOUNTED: &str = "volumes were not mounted in time";

pub(super) const STORAGE: &[Failure] = &[
    Failure {
        with: &["stat /", "mount"],
        ..failure(
            "ransport endpoint is not connected",
            "a FUSE file system is mounted, but its program has exited",
        )
    },
    Failure {
        with: DIRECTORIES,
        ..failure("ead-only file system", READ_ONLY)
    },
    Failure {
        with: &["unlinkat ", "rmdir ", "remove root filesystem"],
        without: &["/sys/fs/cgroup"],
        ..failure(
            ": device or resource busy",
            "a container's file system cannot be removed: another process still has it mounted",
        )
    },
    failure("UnmountVolume.TearDown failed", NOT_UNMOUNTED),
    Failure {
        with: &["Operation for "],
        // That tells more.
        without: &["TearDown failed"],
        lines: 2,
        ..failure(
            "nestedpendingoperations.go:",
            "an operation on a volume fails time after time",
        )
    },
    Failure {
        with: &[
            "caused: no space left",
            "caused \"no space",
            "caused \\\"no space",
            "caused \\\\\\\"no space",
            "(via /proc/self/fd/",
            "mount through procfd",
            "error creating overlay mount to ",
        ],
        ..failure(
            "no space left on device",
            "a file system cannot be mounted: the limit of mounts (fs.mount-max) is reached",
        )
    },
    Failure {
        with: &["umount", "nmount"],
        ..failure(": target is busy", NOT_UNMOUNTED)
    },
    failure(
        "already mounted or mount point busy",
        "a volume cannot be mounted: it is in use",
    ),
    Failure {
        // The rows of events are read by themselves.
        without: EVENT_ROWS,
        ..failure("timeout expired waiting for volumes to attach", NOT_MOUNTED)
    },
    Failure {
        with: &["timed out waiting for the condition"],
        without: EVENT_ROWS,
        ..failure("unmounted volumes=[", NOT_MOUNTED)
    },
    failure("Could not attach disk: Timeout after ", NOT_MOUNTED),
    Failure {
        with: &["rpc error: code = DeadlineExceeded"],
        without: EVENT_ROWS,
        ..failure("MountVolume.MountDevice failed for volume", NOT_MOUNTED)
    },
    failure(
        "Multi-Attach error for volume",
        "a volume is still attached to another node",
    ),
];
