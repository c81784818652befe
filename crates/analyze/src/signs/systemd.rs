//! What systemd, logind and the bus write.

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
];

pub(super) const SIGNS: &[Sign] = &[
    sign(
        "Failed to propagate agent release message: Operation not supported",
        Systemd,
        SystemdCookieOverflow,
        Certain,
    ),
    // A debugger's words: the next cookie has more than 32 bits.
    sign("bus_message_seal (", Systemd, SystemdCookieOverflow, High).with(&[
        "cookie=4294967",
        "cookie=4294968",
        "cookie=4294969",
        "cookie=429497",
        "cookie=429498",
        "cookie=429499",
        "cookie=4295",
    ]),
    sign(
        "The maximum number of pending replies per connection has been reached",
        Systemd,
        SystemdCookieOverflow,
        Medium,
    ),
    sign(
        "Failed to send unit change signal",
        Systemd,
        SystemdCookieOverflow,
        High,
    )
    .with(&["Operation not supported"]),
    sign("Failed to send job", Systemd, SystemdCookieOverflow, High)
        .with(&["Operation not supported"]),
    sign(
        "Failed to activate service 'org.freedesktop.systemd1'",
        Systemd,
        BusUnavailable,
        High,
    ),
    sign(
        "Activation of org.freedesktop.systemd1 timed out",
        Systemd,
        BusUnavailable,
        High,
    ),
    sign("Freezing execution", Systemd, BusUnavailable, Certain),
    sign(
        "/dbus/system_bus_socket: connect",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&["dial unix"]),
    sign(
        "Failed to connect to system bus",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    sign(
        "Failed to connect to bus: Connection refused",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    sign("Cannot watch bus name", Systemd, BusUnavailable, Medium),
    // logind has lost its connection to systemd, and tries again with each session.
    sign(
        "Transport endpoint is not connected",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&[
        "session scope",
        "Failed to start user",
        "Failed to start session",
    ])
    .lines(3),
    sign(
        "Transport endpoint is not connected",
        Systemd,
        BusUnavailable,
        Low,
    )
    .with(&["Failed to abandon session scope"]),
    sign("Too many units", Systemd, SystemdOverloaded, High),
    // What systemd tells on its bus is longer than a message may be: it keeps too many units.
    sign(
        "Failed to start transient scope unit: Argument list too long",
        Systemd,
        SystemdOverloaded,
        Medium,
    ),
    sign(
        "No buffer space available",
        Systemd,
        SystemdOverloaded,
        Medium,
    )
    .with(&[
        "Failed to reload daemon",
        "session scope",
        "Failed to create session",
    ]),
    sign(
        "Looping too fast. Throttling execution a little",
        Systemd,
        SystemdOverloaded,
        Medium,
    ),
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
        "kubelet.service: Watchdog timeout",
        Systemd,
        RepairLoop,
        Medium,
    ),
    // All units that it can have are there.
    sign(
        "ctivation via systemd failed",
        Systemd,
        SystemdOverloaded,
        Medium,
    )
    .with(&["Argument list too long"]),
    // What it says to others is not read by the bus as fast as it comes.
    sign(
        "Failed to send queued message: No buffer space available",
        Systemd,
        SystemdOverloaded,
        Medium,
    ),
    // The bus has delivered the request, and systemd has not answered it.
    sign(
        "Failed to start transient scope unit: Connection timed out",
        Systemd,
        SystemdOverloaded,
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
    // Scripts that look after a kubelet.
    sign("estarting kubelet", Systemd, RepairLoop, Medium)
        .with(&["not healthy", "unhealthy", "health check failed"])
        .lines(2),
    // supervisord's words: it starts at once again what something else ends.
    sign(" INFO exited: ", Systemd, RepairLoop, Low)
        .with(&["docker", "containerd", "kubelet"])
        .lines(3),
    // monit's words.
    sign("'kubelet' trying to restart", Systemd, RepairLoop, Medium).lines(2),
    sign(
        "'docker' failed protocol test",
        Systemd,
        RuntimeUnresponsive,
        Medium,
    ),
    // node-problem-detector's events; five within 20 minutes are too many by its own rules.
    sign("Reason:ContainerdStart", Systemd, RepairLoop, Medium)
        .lines(5)
        .apart_seconds(5 * 60),
    sign("Reason:DockerStart", Systemd, RepairLoop, Medium)
        .lines(5)
        .apart_seconds(5 * 60),
    sign("Reason:KubeletStart", Systemd, RepairLoop, Medium)
        .lines(5)
        .apart_seconds(5 * 60),
    // They are not served, or are too slow to prove who they are.
    sign(
        "Connection has not authenticated soon enough",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .lines(2),
    // What a stop of the kubelet leaves behind waits in the kernel for the server of a volume.
    sign(
        "kubelet.service: Killing process ",
        Systemd,
        StorageUnresponsive,
        Medium,
    )
    .with(&["(mount.cifs)", "(mount.nfs)", "(mount.nfs4)", "(umount.nfs"])
    .lines(3),
    // GKE's monitor, before it kills the kubelet.
    sign("Kubelet is unhealthy!", Systemd, RepairLoop, Medium).lines(2),
    // GKE's monitor, before it kills the daemon: `docker ps` has not returned for a minute.
    sign(
        ": Docker daemon failed!",
        Systemd,
        RuntimeUnresponsive,
        Medium,
    ),
    // node_exporter's alert.
    sign("System load per core at ", Systemd, CpuStarved, Low),
    // node-problem-detector asks for a unit, for at most ten seconds.
    sign("systemctl show ", Systemd, SystemdOverloaded, Medium)
        .with(&["failed: signal: killed"])
        .lines(2),
    // Somebody looks at open files, and a server does not tell of one.
    sign(
        "lsof: WARNING: can't stat() ",
        Systemd,
        StorageUnresponsive,
        Medium,
    )
    .with(&["() cifs ", "() nfs", "() ceph "]),
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
    sign(
        "dbus.service: Main process exited",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    sign(
        "dbus-broker.service: Main process exited",
        Systemd,
        BusUnavailable,
        Medium,
    ),
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
    // dbus-broker.
    sign("quota on UID", Systemd, BusUnavailable, Medium).with(&["UID 0 exceeded its"]),
    sign("Got disconnect on API bus", Systemd, BusUnavailable, Low),
    sign(
        "Failed to connect to system scope bus",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&["refused", "timed out", "transport: No such file"]),
    // A manager that was started anew does not get back to the bus.
    sign(
        "Failed to set up API bus: Connection timed out",
        Systemd,
        BusUnavailable,
        High,
    ),
    sign(
        "service org.freedesktop.systemd1: Remote peer disconnected",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    sign(
        "Message recipient disconnected from message bus without replying",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&["kubelet", "runc", "crio", "cgroup", "systemd1"]),
    sign(
        "Could not get owner of name 'org.freedesktop.systemd1'",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    sign(
        "Failed to send reloading signal: Operation not supported",
        Systemd,
        SystemdCookieOverflow,
        High,
    ),
    sign("serial=429496729", Systemd, SystemdCookieOverflow, Medium),
    // multipathd, and `multipath -ll`.
    sign(
        "remaining active paths: 0",
        Systemd,
        StorageUnresponsive,
        Medium,
    ),
    sign(" failed faulty ", Systemd, StorageUnresponsive, Medium).lines(2),
];
