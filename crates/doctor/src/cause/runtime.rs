//! From the kubelet through the container runtime and CNI to runc.

use super::About;

pub(super) const INIT_FROZEN: About = About {
    title: "a `runc init` is frozen in its cgroup and nobody is left to thaw it",
    advice: &[
        "write THAWED to the freezer.state of its cgroup (on cgroup v2: 0 to cgroup.freeze)",
        "let the runtime delete the container then",
        "find out why runc was killed while it waited: usually systemd or D-Bus did not answer",
    ],
    fixed_in: &[],
    references: &[
        "https://github.com/opencontainers/runc/issues/4481",
        "https://github.com/opencontainers/runc/issues/3904",
    ],
};

pub(super) const SECCOMP_PIPE: About = About {
    title: "runc 1.0.0-rc93 waits for ever on its own seccomp pipe",
    advice: &["replace runc 1.0.0-rc93 by any other version, then restart what hangs"],
    fixed_in: &["runc 1.0.0-rc94", "containerd 1.4.5", "containerd.io 1.4.6"],
    references: &[
        "https://github.com/opencontainers/runc/issues/2865",
        "https://github.com/containerd/containerd/issues/5274",
    ],
};

pub(super) const SHORT_EXEC_STUCK: About = About {
    title: "`runc exec` of a process that ends quickly does not return",
    advice: &[
        "end the old `runc exec` processes by their ids",
        "update runc; exec probes trigger it most",
    ],
    fixed_in: &["runc 1.3.6", "runc 1.4.2"],
    references: &[
        "https://github.com/opencontainers/runc/issues/5208",
        "https://github.com/opencontainers/runc/pull/5210",
    ],
};

pub(super) const SHIM_UNRESPONSIVE: About = About {
    title: "the shim of one container does not answer its runtime",
    advice: &[
        "end that shim: it frees the node without a restart of the runtime, and costs its pod",
        "update containerd; from 2.0 on a plain sandbox status does not enter the shim",
    ],
    fixed_in: &["containerd 1.2.8", "containerd 1.6.25", "containerd 1.7.8"],
    references: &[
        "https://github.com/containerd/containerd/issues/9103",
        "https://github.com/containerd/containerd/issues/3617",
    ],
};

pub(super) const STATUS_LOCK: About = About {
    title: "containerd holds one container's status lock, so listing containers hangs for the whole node",
    advice: &[
        "find the container whose status does not return, and end its `runc update`, or its shim if it is exiting",
        "take load off the disk; overlay's `volatile` option avoids the sync at unmount",
        "do without the static CPU manager, and without agents that update resources often, on such nodes",
    ],
    fixed_in: &[],
    references: &[
        "https://github.com/containerd/containerd/issues/12680",
        "https://github.com/containerd/containerd/issues/10583",
        "https://github.com/containerd/containerd/issues/9770",
    ],
};

pub(super) const CONTAINER_LOCK: About = About {
    title: "one container's lock is held in the runtime, and whoever asks for that container waits",
    advice: &[
        "find the one whose inspection hangs: ask for each with a deadline of two seconds",
        "end the runc or the shim of that container; restart the runtime if that does not help",
    ],
    fixed_in: &[],
    references: &[
        "https://github.com/cri-o/cri-o/issues/9406",
        "https://github.com/awslabs/amazon-eks-ami/issues/1071",
        "https://github.com/moby/moby/issues/27827",
    ],
};

pub(super) const UNRESPONSIVE: About = About {
    title: "the container runtime as a whole does not answer",
    advice: &[
        "see whether the runtime runs and whether its socket is the one that the kubelet uses",
        "look into its own log for why its CRI plug-in did not load",
    ],
    fixed_in: &[],
    references: &["https://kubernetes.io/docs/setup/production-environment/container-runtimes/"],
};

pub(super) const LIST_EXCEEDS_LIMIT: About = About {
    title: "the list of containers is larger than one gRPC message may be",
    advice: &[
        "remove dead pods by hand: the kubelet's garbage collection needs the same list",
        "`crictl rmp` sandboxes that are not ready; where crictl cannot list either, use `ctr`",
        "find what leaves so many dead containers behind, usually a CronJob",
    ],
    fixed_in: &["Kubernetes 1.36 with CRIListStreaming (alpha) on containerd 2.4"],
    references: &[
        "https://github.com/kubernetes/kubernetes/issues/134750",
        "https://github.com/kubernetes/kubernetes/issues/63858",
    ],
};

pub(super) const TOO_MANY_CONTAINERS: About = About {
    title: "there is more to inspect than the kubelet gets done in time",
    advice: &[
        "lower maxPods, or remove dead containers sooner",
        "turn exec probes into HTTP or gRPC probes",
        "reserve CPU for the kubelet and the runtime (kubeReserved, systemReserved)",
    ],
    fixed_in: &[],
    references: &["https://github.com/kubernetes/kubernetes/issues/93886"],
};

pub(super) const KUBELET_INTERNAL: About = About {
    title: "the fault is inside the kubelet, not in the runtime",
    advice: &[
        "take the kubelet's goroutines first, then restart it",
        "before Kubernetes 1.14 relist and the sync loop can wait for each other: update",
        "switch the gate EventedPLEG off where it is on",
    ],
    fixed_in: &["Kubernetes 1.14"],
    references: &[
        "https://github.com/kubernetes/kubernetes/issues/72482",
        "https://github.com/kubernetes/kubernetes/issues/121003",
    ],
};

pub(super) const CNI_PLUGIN_HANG: About = About {
    title: "a CNI plug-in, or the agent behind it, does not return",
    advice: &[
        "restart the agent of the CNI plug-in; the kubelet is not at fault",
        "end the plug-in processes that have piled up",
        "update the plug-in to a version that has deadlines on netlink and on its agent",
    ],
    fixed_in: &["vishvananda/netlink of 2021 (pull request 614: time-outs by default)"],
    references: &[
        "https://github.com/vishvananda/netlink/issues/254",
        "https://github.com/kubernetes/kubernetes/issues/45419",
        "https://github.com/containernetworking/cni/issues/567",
    ],
};
