//! The network of the node and of its pods.

use super::{Failure, failure};

const NETWORK_FAILED: &str =
    "a CNI plugin fails to set up or remove the network of a sandbox, without a timeout";

pub(super) const NETWORK: &[Failure] = &[
    failure("failed to destroy network for sandbox", NETWORK_FAILED),
    failure("failed to setup network for sandbox", NETWORK_FAILED),
    Failure {
        // Of a sandbox that has ended nobody can read an address.
        without: &["for the terminated container"],
        ..failure("etworkPlugin cni failed", NETWORK_FAILED)
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
        "no available IPv4 addresses on this network's address pools",
        "Docker's network has no free address for another container",
    ),
    Failure {
        // An installer writes it a moment later.
        without: &["event(REMOVE"],
        lines: 4,
        ..failure(
            "failed to reload cni configuration after receiving fs change event",
            "containerd finds no usable CNI configuration, time after time",
        )
    },
];
