//! The runtime and its containers.

use super::{Counted, Failure, failure};

/// Mistakes in a pod's own command, which fail in the same way.
const OF_THE_POD: &[&str] = &[
    "executable file",
    "no such file or directory",
    "permission denied",
    "not a directory",
    "exec format error",
];

/// Daemons that a node needs, as the journal and syslog name them.
const DAEMONS: &[&str] = &[
    "kubelet",
    "containerd",
    "dockerd",
    "crio",
    "k3s",
    "rke2",
    "k0s",
];

const NOT_CREATED: &str = "the OCI runtime cannot create a container";
const CRASHED: &str = "the kubelet or the runtime crashed";
const NO_CONTROL_GROUP: &str =
    "a container cannot be started: its control group cannot be configured";

const STILL_CREATING: &str =
    "CRI-O was asked again for a container or sandbox that it is still creating";

const NOT_REMOVED: &str = "a container cannot be removed: its task is not stopped";
const NOT_ENTERED: &str = "the OCI runtime cannot start a command in a container";

pub(super) const CONTAINERS: &[Failure] = &[
    Failure {
        without: OF_THE_POD,
        ..failure("OCI runtime create failed", NOT_CREATED)
    },
    Failure {
        without: OF_THE_POD,
        ..failure("runc create failed", NOT_CREATED)
    },
    Failure {
        without: OF_THE_POD,
        ..failure("failed to mount rootfs component", NOT_CREATED)
    },
    Failure {
        with: DAEMONS,
        ..failure(": fatal error: ", CRASHED)
    },
    Failure {
        with: DAEMONS,
        ..failure(": panic: ", CRASHED)
    },
    // The message of an event, without the other columns.
    failure(
        "Failed create pod sandbox: rpc error: ",
        "the runtime cannot create a pod sandbox",
    ),
    failure("not yet finished. Currently at stage", STILL_CREATING),
    failure("timing out in CRI-O due to system load", STILL_CREATING),
    Failure {
        counted: Counted::PerContainer,
        lines: 2,
        ..failure(
            "failed to reserve container name",
            "the runtime was asked again for a container that it is still creating",
        )
    },
    Failure {
        counted: Counted::PerContainer,
        lines: 2,
        ..failure(
            "failed to reserve sandbox name",
            "the runtime was asked again for a sandbox that it is still creating",
        )
    },
    Failure {
        lines: 2,
        ..failure(
            "failed to update container",
            "the resources of a container cannot be changed",
        )
    },
    Failure {
        with: &["context deadline exceeded"],
        lines: 2,
        ..failure(
            "failed: wait container",
            "a container that was stopped does not end",
        )
    },
    failure("setting cgroup config", NO_CONTROL_GROUP),
    failure("unable to ensure pod container exists", NO_CONTROL_GROUP),
    Failure {
        with: &["/sys/fs/cgroup"],
        ..failure("Cannot start container ", NO_CONTROL_GROUP)
    },
    failure("applying cgroup configuration", NO_CONTROL_GROUP),
    Failure {
        with: &["EOF", "connection reset"],
        ..failure(
            "error during connect: ",
            "the Docker daemon closed the connection during a request",
        )
    },
    failure(
        "failed to start io pipe copy",
        "a container cannot be started: its pipes were not opened in time",
    ),
    failure(
        "containerd: container not found",
        "dockerd keeps a container that containerd does not have",
    ),
    // The namespaces of process 0: the sandbox has none any more.
    failure("lstat /proc/0/ns/", NOT_CREATED),
    failure(
        "error allocating lock for new",
        "podman has no lock left for another container",
    ),
    failure("task must be stopped before deletion", NOT_REMOVED),
    failure(
        "cannot found cgroup mount destination",
        "the runtime finds no control group where it expects one",
    ),
    Failure {
        with: &["GetImageBlob"],
        ..failure(
            "no such file or directory",
            "dockerd cannot pull an image: the directory for its temporary files is missing",
        )
    },
    Failure {
        with: &["rpc failed", "rpc error"],
        ..failure("failed due to device plugin", "a device plugin fails")
    },
    failure("cannot delete a running task", NOT_REMOVED),
    failure("cannot delete running task", NOT_REMOVED),
    failure(
        "code = FailedPrecondition desc = failed to delete containerd container",
        NOT_REMOVED,
    ),
    Failure {
        without: OF_THE_POD,
        ..failure("OCI runtime exec failed", NOT_ENTERED)
    },
    failure("error closing exec fds", NOT_ENTERED),
    Failure {
        with: &["exec failed"],
        ..failure("decoding init error from pipe", NOT_ENTERED)
    },
    Failure {
        with: &["read-only file system"],
        ..failure(
            "error while creating mount source path",
            "Docker cannot create a directory that a container mounts: its file system is \
             read-only",
        )
    },
    Failure {
        with: &["readlink "],
        ..failure(
            "/overlay2: invalid argument",
            "Docker cannot read the layers of an image on disk",
        )
    },
    failure(
        "unable to signal init: permission denied",
        "a container cannot be killed: the kernel denies the signal, as AppArmor or SELinux may do",
    ),
];
