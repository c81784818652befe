//! What systemd, logind and those write that look after a node.

use causes::Cause::*;
use causes::finding::Confidence::*;

use super::{Sign, sign};
use crate::kind::Writer::Systemd;

/// The units in which nothing but a runtime runs.
const RUNTIMES: &[&str] = &["containerd.service", "docker.service", "crio.service"];

/// The units in which a kubelet or a runtime runs.
const DAEMONS: &[&str] = &[
    "kubelet.service",
    "containerd.service",
    "docker.service",
    "crio.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0sworker.service",
    "snap.microk8s",
];

pub(super) const SIGNS: &[Sign] = &[
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
    // multipathd, and `multipath -ll`.
    sign(
        "remaining active paths: 0",
        Systemd,
        StorageUnresponsive,
        Medium,
    ),
    sign(" failed faulty ", Systemd, StorageUnresponsive, Medium).lines(2),
    // What SIGKILL does not end waits in the kernel.
    sign(
        "rocesses still around after",
        Systemd,
        StorageUnresponsive,
        Medium,
    )
    .with(&["SIGKILL"]),
    sign("till around after", Systemd, StorageUnresponsive, Medium)
        .with(&["SIGKILL"])
        .without(&["rocesses still"]),
    sign("nmounting timed out", Systemd, StorageUnresponsive, Medium),
    sign("ounting timed out", Systemd, StorageUnresponsive, Medium).without(&["nmounting"]),
    sign(
        "Operation not supported",
        Systemd,
        SystemdCookieOverflow,
        High,
    )
    .with(&[
        "Failed to send unit remove signal",
        "Failed to send queued message",
        "Failed to issue method call",
        "Failed to list units",
    ]),
    sign(
        "No buffer space available",
        Systemd,
        SystemdOverloaded,
        Medium,
    )
    .with(&[
        "unit change signal",
        "job remove signal",
        "job change signal",
        "sd-bus call",
        "NameOwnerChanged",
    ]),
    sign(
        "ailed to create cgroup /",
        Systemd,
        MemoryCgroupLeak,
        Medium,
    )
    .with(&["o space left on device", "annot allocate memory"]),
    // It ended at each start, whatever the reason.
    sign(
        "tart request repeated too quickly",
        Systemd,
        RuntimeUnresponsive,
        Low,
    )
    .with(RUNTIMES),
    sign(
        "Failed with result 'start-limit",
        Systemd,
        RuntimeUnresponsive,
        Low,
    )
    .with(RUNTIMES),
    sign("Failed with result 'oom-kill'", Systemd, MemoryThrash, High).with(DAEMONS),
    sign("killed by the OOM killer", Systemd, MemoryThrash, Medium).with(DAEMONS),
    sign(
        ".service: Watchdog timeout",
        Systemd,
        RuntimeUnresponsive,
        High,
    )
    .with(RUNTIMES),
    sign(
        "Dependency failed for ",
        Systemd,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&[
        "Docker Application Container Engine",
        "containerd container runtime",
        "Container Runtime Interface for OCI",
        "CRI Interface for Docker",
    ]),
];
