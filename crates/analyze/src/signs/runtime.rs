//! What containerd, dockerd, CRI-O and shims write, and what they are quoted with.

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
    "allocate pty",
    "unshare",
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
    .with(&["context deadline exceeded"]),
    // Whoever asked has left before.
    sign(
        "to be killed: wait container",
        Runtime,
        ShimUnresponsive,
        Low,
    )
    .without(&["context deadline exceeded"])
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
    sign(
        "failed to load plugin io.containerd.grpc.v1.cri",
        Runtime,
        RuntimeUnresponsive,
        High,
    ),
    // The process does not end, or its shim has not told that it has.
    sign(
        "but did not receive an exit event",
        Runtime,
        ShimUnresponsive,
        Low,
    ),
    // runc's words, of a process that was killed.
    sign(
        ": container init still running",
        Runtime,
        ShimUnresponsive,
        Low,
    ),
    // Nothing of containerd works without its database.
    sign(
        "failed to load plugin",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&[".metadata.v1.bolt"])
    .without(&["skip loading"]),
    // Whoever asked for all containers has left before dockerd had the answer.
    sign(
        "/containers/json returned error: write unix",
        Runtime,
        RuntimeUnresponsive,
        Low,
    )
    .with(&["broken pipe"]),
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
    sign(": fatal error: ", Runtime, RuntimeUnresponsive, Medium)
        .with(RUNTIMES_OR_UNNUMBERED)
        .without(NO_THREAD),
    sign(": panic: ", Runtime, RuntimeUnresponsive, Medium).with(RUNTIMES_OR_UNNUMBERED),
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
    // After a message of this level it exits.
    sign("level=fatal", Runtime, RuntimeUnresponsive, Medium).with(RUNTIMES),
    sign(
        "Failed to run CRI service",
        Runtime,
        RuntimeUnresponsive,
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
    // docker cannot stop it: the kernel keeps its first process, which has ended.
    sign(
        "is zombie and can not be killed",
        Runtime,
        ShimUnresponsive,
        Medium,
    ),
    // A runtime without libsystemd.
    sign("no valid bus path found", Runtime, BusUnavailable, Medium),
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
    // Since containerd 2.0.
    sign(
        "failed to load plugin\"",
        Runtime,
        RuntimeUnresponsive,
        High,
    )
    .with(&[
        "id=io.containerd.grpc.v1.cri",
        "id=io.containerd.cri.v1.images",
        "id=io.containerd.cri.v1.runtime",
    ]),
    sign(
        "failed to create shim task: context deadline exceeded",
        Runtime,
        ShimUnresponsive,
        Medium,
    ),
    sign(
        "reateCtr: context was either canceled or the deadline was exceeded",
        Runtime,
        ContainerLock,
        Medium,
    )
    .with(&["context deadline exceeded"])
    .lines(2),
    // Somebody may start a second one by hand.
    sign(
        "Error starting daemon: ",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .without(&[
        "pid file found",
        "no space left on device",
        "Error starting daemon: timeout",
    ]),
    sign(
        "failed to start daemon: ",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .without(&[
        "pid file found",
        "no space left on device",
        "process with PID",
        "already running",
    ]),
    sign(
        "failed to start containerd task",
        Runtime,
        ShimUnresponsive,
        Medium,
    )
    .with(&["context deadline exceeded"]),
    sign(
        "failed to start sandbox container task",
        Runtime,
        ShimUnresponsive,
        Medium,
    )
    .with(&["context deadline exceeded"]),
    // CRI-O's.
    sign("Conmon for container ", Runtime, ShimUnresponsive, High)
        .with(&["is stopped, although the container is running"]),
    // dockerd's own containerd did not answer.
    sign(
        "killing and restarting containerd",
        Runtime,
        RuntimeUnresponsive,
        High,
    ),
    sign("stop timeout\"", Runtime, ShimUnresponsive, Medium).with(&["to be killed"]),
    // containerd does not know that a container has ended.
    sign(
        "evicting /tasks/exit from queue",
        Runtime,
        ShimUnresponsive,
        Medium,
    ),
    sign(
        "Will not notify watchdog because CRI-O is unhealthy",
        Runtime,
        RuntimeUnresponsive,
        High,
    ),
    sign(
        "free metadata blocks which is less than minimum required",
        Runtime,
        DiskFull,
        High,
    ),
    sign(
        "Container creation timeout (",
        Runtime,
        ContainerLock,
        Medium,
    ),
    sign(
        "daemon is not responding",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["binary=containerd", "binary=docker-containerd"]),
    sign(
        "unexpected fault address ",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["dockerd", "containerd", "crio", "k3s"]),
    // CRI-O, of a process that a SIGKILL does not end.
    sign("with stop signal timed out", Runtime, ShimUnresponsive, Low)
        .lines(5)
        .of_one(),
];
