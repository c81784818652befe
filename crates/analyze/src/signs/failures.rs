//! Lines that show that something failed, and do not show why.
//!
//! They speak for none of the causes. Where nothing else does either, they are what keeps the
//! answer from being that nothing is wrong.

/// A text that tells of a failure without its cause.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// What to look for.
    pub text: &'static str,
    /// One of these must be in the line, too; empty is no condition.
    pub(super) with: &'static [&'static str],
    /// None of these may be in the line.
    pub(super) without: &'static [&'static str],
    /// What failed, in a sentence without a full stop.
    pub says: &'static str,
    /// The number of lines that are needed: a single one is usual.
    pub lines: u64,
    /// Which lines count.
    pub counted: Counted,
}

/// systemd counts on for as long as nobody starts the unit himself.
const MANY_STARTS: u64 = 20;

/// Which lines of a failure count as one and the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All of them.
    Together,
    /// All of them, and each tells how many there have been.
    Numbered,
    /// Those about one container: one line about each of many containers is usual.
    PerContainer,
    /// Those that were not followed by the end of it: a daemon repeats such a line until then.
    UntilOver,
}

/// The units without which a node is not Ready.
pub(super) const UNITS: &[&str] = &[
    "kubelet.service",
    "containerd.service",
    "docker.service",
    "crio.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
    "daemon-kubelite.service",
    "origin-node.service",
];

/// Errors of a request that got no response in time.
const NO_RESPONSE: &[&str] = &["context deadline exceeded", "Client.Timeout exceeded"];

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

/// Without them the kubelet and the runtime do not work.
const DIRECTORIES: &[&str] = &[
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/containers",
];

const READ_ONLY: &str = "a file system that the kubelet or the runtime needs is read-only";
const NOT_CREATED: &str = "the OCI runtime cannot create a container";
const CRASHED: &str = "the kubelet or the runtime crashed";
const UNIT_GIVEN_UP: &str =
    "systemd no longer starts the unit of the kubelet or of the runtime, which exits at once";
const NO_CONTROL_GROUP: &str =
    "a container cannot be started: its control group cannot be configured";
const API_SERVER_LATE: &str = "the API server does not respond to the kubelet in time";
const NO_KERNEL_MEMORY: &str = "the kernel cannot allocate memory";
pub(super) const UNIT_FAILED: &str = "the unit of the kubelet or of the runtime failed";
const STILL_CREATING: &str =
    "CRI-O was asked again for a container or sandbox that it is still creating";
const NETWORK_FAILED: &str =
    "a CNI plugin fails to set up or remove the network of a sandbox, without a timeout";

pub(super) const fn failure(text: &'static str, says: &'static str) -> Failure {
    Failure {
        text,
        with: &[],
        without: &[],
        says,
        lines: 1,
        counted: Counted::Together,
    }
}

/// A request of the kubelet to the API server that got no response in time, more than once.
const fn api_server_late(text: &'static str) -> Failure {
    Failure {
        with: NO_RESPONSE,
        lines: 2,
        ..failure(text, API_SERVER_LATE)
    }
}

pub(super) const FAILURES: &[Failure] = &[
    failure("failed to destroy network for sandbox", NETWORK_FAILED),
    failure("failed to setup network for sandbox", NETWORK_FAILED),
    Failure {
        // Of a sandbox that has ended nobody can read an address.
        without: &["for the terminated container"],
        ..failure("etworkPlugin cni failed", NETWORK_FAILED)
    },
    Failure {
        without: &[
            "PLEG",
            "container runtime is down",
            "container runtime is not up",
            "may not have completed yet",
            "yet to be successful",
            // An old kubelet on kubenet, until its node has a PodCIDR.
            "Kubenet does not have netConfig",
        ],
        lines: 2,
        ..failure(
            "kipping pod synchronization",
            "the kubelet skips the synchronization of all pods",
        )
    },
    // The kubelet's words up to 1.2.
    failure(
        "container runtime is not up",
        "the kubelet says that the container runtime is not up",
    ),
    Failure {
        // With a time they are points of the series, which tells more; a pager may have cut them.
        without: &["last seen active", "pleg has yet to"],
        ..failure(
            "PLEG is not healthy",
            "the kubelet reports that the PLEG is not healthy",
        )
    },
    failure(
        "Failed to start ContainerManager",
        "the kubelet cannot start: it cannot set up its control groups",
    ),
    Failure {
        // A condition that kubelets since 1.13 do not report, so it stays as it was.
        without: &["OutOfDisk "],
        ..failure(
            "topped posting node status",
            "the kubelet stopped posting node status: the kubelet, the node or its connection to the \
         API server failed",
        )
    },
    Failure {
        with: &["stat /", "mount"],
        ..failure(
            "ransport endpoint is not connected",
            "a FUSE file system is mounted, but its program has exited",
        )
    },
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
    Failure {
        with: NO_RESPONSE,
        lines: 2,
        ..failure(
            "retrying of unary invoker failed",
            "etcd does not respond in time",
        )
    },
    Failure {
        lines: 3,
        ..failure(
            "waiting for ReadIndex response took too long",
            "etcd does not respond in time",
        )
    },
    failure("not yet finished. Currently at stage", STILL_CREATING),
    failure("timing out in CRI-O due to system load", STILL_CREATING),
    Failure {
        with: DIRECTORIES,
        ..failure("ead-only file system", READ_ONLY)
    },
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
        with: &["unlinkat ", "rmdir ", "remove root filesystem"],
        without: &["/sys/fs/cgroup"],
        ..failure(
            ": device or resource busy",
            "a container's file system cannot be removed: another process still has it mounted",
        )
    },
    failure(
        "UnmountVolume.TearDown failed",
        "a volume cannot be unmounted",
    ),
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
        lines: 2,
        ..failure(
            "failed to update container",
            "the resources of a container cannot be changed",
        )
    },
    failure("A stop job is running for ", "a unit does not stop"),
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
        "conntrack: table full, dropping packet",
        "the kernel's table of connections is full, so packets are dropped (nf_conntrack_max)",
    ),
    failure(
        "NETDEV WATCHDOG: ",
        "a network device does not transmit in time",
    ),
    failure(
        ": TX timeout detected",
        "a network device does not transmit in time",
    ),
    failure(
        "BUG: soft lockup",
        "a processor made no progress for a while",
    ),
    failure(
        "not syncing: hung_task: blocked tasks",
        "the kernel restarted the node because a process was blocked in it for too long",
    ),
    // What a mail client left of it on its second line.
    Failure {
        with: &["CPU#"],
        ..failure(" stuck for ", "a processor made no progress for a while")
    },
    failure("reason: 'NodeNotReady'", "a node became NotReady"),
    failure(
        "runtime API is not implemented for endpoint",
        "the CRI plugin of the runtime is disabled, or failed to load",
    ),
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
    Failure {
        lines: 2,
        ..failure(
            "failed to send out heartbeat on time",
            "etcd waits for the disk, or for a CPU",
        )
    },
    Failure {
        with: &["cannot allocate memory"],
        ..failure(
            "fork/exec /",
            "a program cannot be started: the kernel has no memory for it",
        )
    },
    failure("vmalloc: allocation failure", NO_KERNEL_MEMORY),
    failure("page allocation failure: order:0", NO_KERNEL_MEMORY),
    api_server_late("ailed to update node lease"),
    api_server_late("ailed to update lease"),
    api_server_late("ailed to ensure node lease exists"),
    api_server_late("ailed to ensure lease exists"),
    api_server_late("rror updating node status, will retry"),
    failure(
        "can only access node lease with the same name",
        "the API server refuses the kubelet's lease: its certificate is for another node name",
    ),
    Failure {
        with: UNITS,
        ..failure("tart request repeated too quickly", UNIT_GIVEN_UP)
    },
    Failure {
        with: UNITS,
        lines: 5,
        counted: Counted::Numbered,
        ..failure(
            "restart counter is at ",
            "systemd starts the unit of the kubelet or of the runtime time after time",
        )
    },
    Failure {
        with: UNITS,
        ..failure(".service: Failed with result", UNIT_FAILED)
    },
    Failure {
        with: UNITS,
        ..failure(".service failed.", UNIT_FAILED)
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
        with: &["update map ", "update: no space left"],
        ..failure(
            "no space left on device",
            "a map of BPF programs is full: the network agent cannot add another entry",
        )
    },
    Failure {
        // It waits for it, and says more if that was in vain.
        without: &["time ahead to have a chance"],
        ..failure(
            "Another app is currently holding the xtables lock",
            "a program did not get the lock of iptables",
        )
    },
    failure(
        "BUG: workqueue lockup",
        "a worker of the kernel made no progress for a while",
    ),
    failure(
        "BUG: kernel NULL pointer dereference",
        "the kernel failed in one of its own functions",
    ),
    Failure {
        with: &["Unimplemented"],
        ..failure(
            "validate CRI v1 runtime API",
            "the runtime does not serve CRI v1, which the kubelet needs",
        )
    },
    failure(
        "error allocating lock for new",
        "podman has no lock left for another container",
    ),
    failure(
        // systemd waits for the processes in it: that they do not end says nothing of systemd.
        "Timed out while waiting for systemd to remove",
        "systemd did not remove a unit in time: a process in it has not ended, or systemd is busy",
    ),
    Failure {
        // ENOMEM, where too many threads are EAGAIN.
        with: &["errno=12"],
        ..failure(
            "failed to create new OS thread",
            "a program cannot create a thread: the kernel has no memory for it",
        )
    },
];

/// The kubelet ends with a fatal error.
pub(crate) const FATAL: Failure = failure(
    "",
    "the kubelet, or another program that logs in the same way, exited with a fatal error",
);

impl Failure {
    /// For how many lines this one counts.
    pub(crate) fn lines_of(&self, line: &[u8]) -> u64 {
        let number = || {
            let at = memchr::memmem::find(line, self.text.as_bytes())?;
            let rest = &line[at + self.text.len()..];
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
            std::str::from_utf8(&rest[..digits.count()])
                .ok()?
                .parse()
                .ok()
        };
        match self.counted {
            Counted::Numbered if number().is_some_and(|number: u64| number >= MANY_STARTS) => {
                self.lines
            }
            _ => 1,
        }
    }
}
