//! The kubelet, its requests to the API server, and etcd.

use super::{Failure, failure};

/// Errors of a request that got no response in time.
const NO_RESPONSE: &[&str] = &["context deadline exceeded", "Client.Timeout exceeded"];

const NOT_STARTED: &str = "the kubelet cannot start, and ends";

const API_SERVER_LATE: &str = "the API server does not respond to the kubelet in time";

/// A request of the kubelet to the API server that got no response in time, more than once.
const fn api_server_late(text: &'static str) -> Failure {
    Failure {
        with: NO_RESPONSE,
        lines: 2,
        ..failure(text, API_SERVER_LATE)
    }
}

pub(super) const KUBELET: &[Failure] = &[
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
    failure("reason: 'NodeNotReady'", "a node became NotReady"),
    failure(
        "runtime API is not implemented for endpoint",
        "the CRI plugin of the runtime is disabled, or failed to load",
    ),
    Failure {
        lines: 2,
        ..failure(
            "failed to send out heartbeat on time",
            "etcd waits for the disk, or for a CPU",
        )
    },
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
        with: &["Unimplemented"],
        ..failure(
            "validate CRI v1 runtime API",
            "the runtime does not serve CRI v1, which the kubelet needs",
        )
    },
    failure(
        "ailed to find memory cgroup",
        "the kernel offers no memory control group, so k3s exits",
    ),
    failure("failed to run Kubelet: ", NOT_STARTED),
    Failure {
        lines: 3,
        ..failure(
            "\"Error getting node\"",
            "the kubelet cannot read its node from the API server",
        )
    },
    failure(
        "\"command failed\" err=",
        "the kubelet, or another program of Kubernetes, exited with an error",
    ),
    failure(
        "killPodWithSyncResult failed",
        "the kubelet cannot stop a pod",
    ),
];
