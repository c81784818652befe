//! States in which a node is not Ready for none of the causes: its network is not configured, or
//! the API server does not take what the kubelet sends.
//!
//! A kubelet repeats such lines every few seconds, also for some time after each of its starts.

use super::failures::{Counted, Failure, failure};

/// Parts of the API server's addresses.
const OF_THE_API_SERVER: &[&str] = &["/api/v1/", "/apis/"];

/// Programs that ask the API server for something else than the kubelet does.
const OF_ANOTHER: &[&str] = &["cni", "CNI", "etwork for sandbox", "webhook"];

const NOT_READY: &str = "the kubelet reported that its node is not ready";
const NOT_REACHED: &str = "the kubelet cannot connect to the API server";
const EXPIRED: &str = "a certificate between the kubelet and the API server has expired";

const fn lasting(text: &'static str, says: &'static str) -> Failure {
    Failure {
        counted: Counted::UntilOver,
        lines: 3,
        ..failure(text, says)
    }
}

/// A connection that failed. A request that gets no response in time is not among them: a single
/// one is usual.
const fn not_reached(text: &'static str) -> Failure {
    Failure {
        with: OF_THE_API_SERVER,
        without: OF_ANOTHER,
        ..lasting(text, NOT_REACHED)
    }
}

pub(super) const LASTING: &[Failure] = &[
    Failure {
        lines: 2,
        ..lasting(
            "ontainer runtime network not ready",
            "the network of the node is not ready: the runtime has no usable CNI configuration",
        )
    },
    // Beside a PLEG that has listed: a start has both for a moment.
    lasting(
        "err=\"container runtime status check may not have completed yet\"",
        "the runtime has not answered the kubelet's Status call",
    ),
    Failure {
        lines: 1,
        ..lasting("NodeNotReady event message", NOT_READY)
    },
    Failure {
        // A start has that for a moment.
        without: &["may not have completed yet"],
        lines: 1,
        ..lasting("ode became not ready", NOT_READY)
    },
    not_reached("connect: connection refused"),
    not_reached("connection reset by peer"),
    not_reached("connect: no route to host"),
    not_reached("use of closed network connection"),
    not_reached(": i/o timeout"),
    not_reached("no such host"),
    Failure {
        lines: 2,
        ..lasting("active client certificate has expired", EXPIRED)
    },
    Failure {
        with: &["/api/v1/", "/apis/", "Unable to authenticate the request"],
        without: OF_ANOTHER,
        ..lasting("certificate has expired or is not yet valid", EXPIRED)
    },
    Failure {
        with: &["kubelet.go:", "kubelet_node_status.go:"],
        lines: 10,
        ..lasting(
            "\" not found",
            "the kubelet does not find its own node: it is not registered",
        )
    },
];
