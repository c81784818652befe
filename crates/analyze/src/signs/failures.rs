//! Lines that show that something failed, and do not show why.
//!
//! They speak for none of the causes. Where nothing else does either, they are what keeps the
//! answer from being that nothing is wrong.

use crate::line::has;

/// A text that tells of a failure without its cause.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// What to look for.
    pub text: &'static str,
    /// One of these must be in the line, too; empty is no condition.
    with: &'static [&'static str],
    /// None of these may be in the line.
    without: &'static [&'static str],
    /// What failed, in a sentence without a full stop.
    pub says: &'static str,
}

/// The units without which a node is not Ready.
const UNITS: &[&str] = &[
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

const UNIT_FAILED: &str = "the unit of the kubelet or of the runtime failed";
const NETWORK_FAILED: &str =
    "a CNI plugin fails to set up or remove the network of a sandbox, without a timeout";

const fn failure(text: &'static str, says: &'static str) -> Failure {
    Failure {
        text,
        with: &[],
        without: &[],
        says,
    }
}

pub(super) const FAILURES: [Failure; 11] = [
    failure("failed to destroy network for sandbox", NETWORK_FAILED),
    failure("failed to setup network for sandbox", NETWORK_FAILED),
    failure("etworkPlugin cni failed", NETWORK_FAILED),
    Failure {
        // A process that has just ended is killed in vain every day.
        without: &["not found", "already finished", "no such process"],
        ..failure("failed to kill container", "a container cannot be killed")
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
            "caused \"no space",
            "caused \\\"no space",
            "caused \\\\\\\"no space",
            "(via /proc/self/fd/",
            "mount through procfd",
        ],
        ..failure(
            "no space left on device",
            "a file system cannot be mounted: the limit of mounts (fs.mount-max) is reached",
        )
    },
    failure(
        "Another app is currently holding the xtables lock",
        "a program did not get the lock of iptables",
    ),
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

impl Failure {
    pub(super) fn holds(&self, line: &[u8]) -> bool {
        (self.with.is_empty() || self.with.iter().any(|text| has(line, text)))
            && !self.without.iter().any(|text| has(line, text))
    }
}
