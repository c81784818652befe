//! What containerd, dockerd, CRI-O, shims and runc write, and what they are quoted with.

use causes::Cause::*;
use causes::finding::Confidence::*;

use super::{Sign, sign};
use crate::kind::Writer::Runtime;

/// ENOSPC of limits: of cgroups, inotify watches and podman's locks, and of mount(2), whose error
/// stands alone where that of a file stands behind `open` or `mkdir`.
const NO_DISK: &[&str] = &[
    "/sys/fs/cgroup",
    "inotify",
    "failed to watch file",
    "allocating lock for new",
    "caused: no space left",
    // A control group cannot be made.
    "unable to start unit ",
    "caused \"no space",
    "caused \\\"no space",
    "caused \\\\\\\"no space",
    "(via /proc/self/fd/",
    "mount through procfd",
    "error creating overlay mount to ",
    // A map of BPF programs is full.
    "update map ",
    "update: no space left",
];

/// How systemd names the units of runtimes.
const RUNTIME_UNITS: &[&str] = &[
    "containerd container runtime",
    "Docker Application Container Engine",
    "Container Runtime Interface for OCI",
];

/// How syslog and the journal name them.
const RUNTIMES: &[&str] = &["containerd[", "dockerd[", "crio["];

/// The same, and where syslog does not tell the process.
const RUNTIMES_OR_UNNUMBERED: &[&str] = &[
    "containerd[",
    "dockerd[",
    "crio[",
    " containerd: ",
    " dockerd: ",
    " crio: ",
];

/// Go's runtime gives up because the kernel makes no thread, which has signs of its own.
const NO_THREAD: &[&str] = &["newosproc", "pthread_create", "thread exhaustion"];

pub(super) const SIGNS: &[Sign] = &[
    // The state of a task, in the words of containerd 1.0 and 1.1.
    sign(
        "converting task to protobuf",
        Runtime,
        ShimUnresponsive,
        High,
    )
    .with(&["context deadline exceeded"]),
    sign(
        "converting task to protobuf",
        Runtime,
        ShimUnresponsive,
        Low,
    )
    .with(&["context canceled"])
    .lines(2),
    sign("get state for ", Runtime, ShimUnresponsive, High).with(&["context deadline exceeded"]),
    sign(
        "seconds of kill - trying direct SIGKILL",
        Runtime,
        ShimUnresponsive,
        Low,
    ),
    // What crictl says in a log; on a node that kubeadm has yet to set up, nothing has failed.
    sign(
        "CRI v1 runtime API is not implemented",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .without(&["[ERROR CRI]"]),
    // The sandbox's own process was killed, and nobody tells that it has ended.
    sign("wait sandbox container", Runtime, ShimUnresponsive, Low)
        .with(&["context deadline exceeded"]),
    // docker up to 17.03; on a busy node a single exec may be late, too.
    sign(
        "shim error: context deadline exceeded",
        Runtime,
        ShimUnresponsive,
        Low,
    ),
    sign(
        "failed to get task status",
        Runtime,
        ShimUnresponsive,
        Medium,
    )
    .with(&["deadline exceeded"]),
    sign(
        "failed to handle container TaskExit event",
        Runtime,
        ShimUnresponsive,
        Medium,
    )
    .with(&["deadline exceeded"]),
    sign(
        "failed to handle sandbox TaskExit event",
        Runtime,
        ShimUnresponsive,
        Medium,
    )
    .with(&["deadline exceeded"]),
    sign(
        "Error starting daemon: timeout",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    sign("failed to delete task", Runtime, ShimUnresponsive, Low).with(&["deadline exceeded"]),
    sign("failed to kill container", Runtime, ShimUnresponsive, Low)
        .with(&["context canceled: unknown"])
        .lines(2),
    // It was killed, and no exit has come: of a process that cannot end, or of a shim.
    sign(
        "to be killed: wait container",
        Runtime,
        ShimUnresponsive,
        Low,
    )
    .lines(2),
    sign("failed to shutdown shim", Runtime, ShimUnresponsive, Medium).with(&["deadline exceeded"]),
    sign("failed to delete shim", Runtime, ShimUnresponsive, Low).with(&["deadline exceeded"]),
    sign(
        "failed to update resources",
        Runtime,
        ContainerStatusLock,
        Medium,
    )
    .with(&["deadline exceeded"]),
    sign(
        "UpdateContainerResources for",
        Runtime,
        ContainerStatusLock,
        Medium,
    )
    .with(&["deadline exceeded"]),
    sign("too many open files", Runtime, FdOrInotifyExhausted, High)
        .without(&["inotify_init: too many"]),
    sign("inotify_add_watch", Runtime, FdOrInotifyExhausted, High)
        .with(&["no space left on device"]),
    // The words of `kubectl logs --follow`, for want of an inotify watch.
    sign("failed to watch file", Runtime, FdOrInotifyExhausted, High)
        .with(&["no space left on device"]),
    sign("inotify watch limit", Runtime, FdOrInotifyExhausted, Medium),
    // kubeadm's and crictl's words.
    sign(
        "API is not implemented for endpoint",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    sign(
        "unknown service runtime.v1alpha2.ImageService",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    sign(
        "failed to load plugin io.containerd.grpc.v1.cri",
        Runtime,
        RuntimeUnresponsive,
        High,
    ),
    sign(
        "getting status of runtime failed",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["unknown service runtime."]),
    // Whoever asked for all containers has left before dockerd had the answer.
    sign(
        "/containers/json returned error: write unix",
        Runtime,
        RuntimeUnresponsive,
        Low,
    )
    .with(&["broken pipe"]),
    sign(
        "start operation timed out. Terminating",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["containerd.service", "docker.service", "crio.service"]),
    sign("Failed to start ", Runtime, RuntimeUnresponsive, Medium).with(RUNTIME_UNITS),
    sign(
        "ailed at step EXEC spawning",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["containerd.service: ", "docker.service: ", "crio.service: "]),
    // systemd stops a service that is asked to end with status 0.
    sign(
        "ain process exited, code=exited, status=",
        Runtime,
        RuntimeUnresponsive,
        Low,
    )
    .with(&["containerd.service: ", "docker.service: ", "crio.service: "])
    .without(&["status=0/", "cri-docker.service"]),
    // It has crashed, and nobody has ended it.
    sign(
        "ain process exited, code=",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["containerd.service: ", "docker.service: ", "crio.service: "])
    .without(&[
        "code=exited",
        "status=9/KILL",
        "status=15/TERM",
        "cri-docker.service",
    ]),
    // containerd does not read its own configuration, and so does not start.
    sign("failed to load TOML", Runtime, RuntimeUnresponsive, Medium).with(&["containerd"]),
    sign(
        "higher than root config version",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    // dockerd starts its containerd again and again.
    sign(
        "failed to receive event from containerd",
        Runtime,
        RuntimeUnresponsive,
        Low,
    )
    .with(&["transport is closing"])
    .lines(2),
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
    sign(
        "(500): engine is shutdown",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    sign(": fatal error: ", Runtime, RuntimeUnresponsive, Medium)
        .with(RUNTIMES_OR_UNNUMBERED)
        .without(NO_THREAD),
    sign(": panic: ", Runtime, RuntimeUnresponsive, Medium).with(RUNTIMES_OR_UNNUMBERED),
    sign("ctr: failed to dial ", Runtime, RuntimeUnresponsive, Medium)
        .with(&[".sock\": context deadline exceeded"]),
    // Talos.
    sign(
        "error connecting to CRI: context deadline exceeded",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    // K3s and RKE2, which wait so for a moment at each start.
    sign(
        "Waiting for cri connection: ",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .lines(5),
    // EHOSTDOWN, of SMB.
    sign(": Host is down", Runtime, StorageUnresponsive, Medium).with(&[
        "reading directory",
        "cannot access",
        "cannot open directory",
        "stat ",
    ]),
    // K3s and RKE2, of the containerd that they have started.
    sign("containerd exited: ", Runtime, RuntimeUnresponsive, Medium)
        .with(&["signal: killed", "exit status"]),
    // Talos.
    sign(
        "going to restart forever",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["service[cri]", "service[containerd]"])
    .lines(2),
    // A shim that is written in Rust, of what the process of its sandbox answers.
    sign(
        "containerd.task.v2.Task/State got error timed out",
        Runtime,
        ShimUnresponsive,
        Medium,
    )
    .lines(2),
    // dockerd, whose containerd has gone.
    sign(
        "Waiting for containerd to be ready to restart event processing",
        Runtime,
        RuntimeUnresponsive,
        Low,
    ),
    // runc, of systemd's answer.
    sign(
        "completion signal from dbus. Continuing",
        Runtime,
        SystemdOverloaded,
        Medium,
    )
    .lines(2),
    // After a message of this level it exits.
    sign("level=fatal", Runtime, RuntimeUnresponsive, Medium).with(RUNTIMES),
    sign(
        "Failed to run CRI service",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    sign("1.0.0-rc93", Runtime, RuncSeccompPipe, Low),
    sign("unable to freeze", Runtime, RuncInitFrozen, Medium),
    sign("unable to thaw", Runtime, RuncInitFrozen, Medium),
    sign(
        "error loading seccomp filter: errno 524",
        Runtime,
        KernelRegression,
        High,
    ),
    // youki, crun's sibling in Rust.
    sign(
        "Establishing a D-Bus connection",
        Runtime,
        BusUnavailable,
        Medium,
    ),
    // Go's own limit: so many of its threads wait in the kernel.
    sign(
        "program exceeds 10000-thread limit",
        Runtime,
        PidsExhausted,
        Medium,
    ),
    sign(
        "The maximum number of active connections for UID 0 ",
        Runtime,
        BusUnavailable,
        High,
    ),
    sign(
        "Failed to connect to containerd: failed to dial",
        Runtime,
        RuntimeUnresponsive,
        High,
    ),
    // Shims, which report to it.
    sign(
        "containerd.sock.ttrpc: connect: connection refused",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .lines(2),
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
    // Of a user who is not the runtime's.
    sign(
        "The maximum number of active connections for UID ",
        Runtime,
        BusUnavailable,
        Low,
    )
    .without(&[" UID 0 "]),
    // runc has no connection to systemd.
    sign(
        "systemd support for managing cgroups is not available",
        Runtime,
        BusUnavailable,
        Medium,
    ),
    sign(
        "org.freedesktop.systemd1 was not provided by any .service files",
        Runtime,
        BusUnavailable,
        High,
    ),
    sign("no space left on device", Runtime, DiskFull, Medium).without(NO_DISK),
    sign("disk quota exceeded", Runtime, DiskFull, Medium).with(&[
        "/var/lib/containerd",
        "/var/lib/docker",
        "/var/lib/kubelet",
        "/var/lib/containers",
        "/run/",
    ]),
    sign(
        "inotify_init: Too many open files",
        Runtime,
        FdOrInotifyExhausted,
        High,
    ),
    sign(" = -1 EMFILE", Runtime, FdOrInotifyExhausted, High),
    sign(" = -1 ENFILE", Runtime, FdOrInotifyExhausted, High),
    sign(
        "clone: Resource temporarily unavailable",
        Runtime,
        PidsExhausted,
        Medium,
    )
    .without(&["exec failed"]),
    // crun.
    sign("cannot open sd-bus", Runtime, BusUnavailable, Medium),
    sign(
        "sd-bus call: Connection timed out",
        Runtime,
        SystemdOverloaded,
        Low,
    ),
    sign(
        "waiting for response from boltdb open",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .lines(3),
    sign(
        "no plugins registered for io.containerd",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&[
        "io.containerd.cri",
        "io.containerd.snapshotter",
        "io.containerd.runtime",
    ]),
    sign(
        "failed to load task: context deadline exceeded",
        Runtime,
        ShimUnresponsive,
        Medium,
    ),
    // dockerd keeps some blocks of its thin pool free.
    sign(
        "free data blocks which is less than minimum required",
        Runtime,
        DiskFull,
        High,
    ),
    sign("Data Space Available: 0B", Runtime, DiskFull, High),
    // Before docker 1.13.
    sign("Data Space Available: 0 B", Runtime, DiskFull, High),
    // dockerd does not start for it.
    sign("Error starting daemon: ", Runtime, DiskFull, High)
        .with(&["no space left on device"])
        .without(NO_DISK),
    // Plugins of docker's own networks.
    sign(
        "NetworkDriver.CreateEndpoint: ",
        Runtime,
        CniPluginHang,
        Medium,
    )
    .with(&["deadline exceeded"]),
    // containerd waits for the shim until its client gives up.
    sign("get state for ", Runtime, ShimUnresponsive, Medium)
        .with(&["context canceled", "context deadline exceeded"])
        .lines(2),
    // dockerd's own containerd.
    sign(
        "failed to retrieve containerd version",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["code = Unavailable"]),
    sign(
        "timeout waiting for containerd to start",
        Runtime,
        RuntimeUnresponsive,
        High,
    ),
    sign(
        "containerd did not exit successfully",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    // The agent of ECS.
    sign(
        "DockerTimeoutError for 'docker stop'",
        Runtime,
        ContainerLock,
        Medium,
    ),
    sign(
        "CannotInspectContainerError: Could not transition to inspecting; timed out",
        Runtime,
        ContainerLock,
        Medium,
    ),
    // ERESTARTSYS: a call on a file system that somebody interrupted because it did not return.
    sign("errno=512", Runtime, StorageUnresponsive, Medium),
    sign(": errno 512", Runtime, StorageUnresponsive, Medium),
    sign("/sys/fs/cgroup/memory", Runtime, MemoryCgroupLeak, High)
        .with(&["annot allocate memory", "o space left on devi"])
        // The directory is watched, and the limit is that of watches.
        .without(&["inotify_add_watch"]),
    sign(
        "resource temporarily unavailable",
        Runtime,
        PidsExhausted,
        High,
    )
    .with(&["fork/exec", "pthread_create", "newosproc", "clone"]),
    sign("pthread_create failed", Runtime, PidsExhausted, Medium)
        .without(&["resource temporarily unavailable"]),
    sign(
        "failed to create new OS thread",
        Runtime,
        PidsExhausted,
        High,
    )
    // ENOMEM is no limit of threads.
    .without(&["errno=12"]),
    sign("error reserving ctr name", Runtime, ContainerLock, Low).lines(3),
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
    sign("runc version 1.3.", Runtime, RuncShortExecStuck, Low).without(&[
        "runc version 1.3.6",
        "runc version 1.3.7",
        "runc version 1.3.8",
        "runc version 1.3.9",
    ]),
    sign("runc version 1.4.0", Runtime, RuncShortExecStuck, Low),
    sign("runc version 1.4.1", Runtime, RuncShortExecStuck, Low),
];
