//! The runtime does not start, or it cannot start or stop a container, and the line does not
//! show why.

use super::failures::units::UNIT_FAILED;
use super::failures::{Counted, Failure, UNITS, failure};

/// What an operation that took too long is reported with.
const LATE: &[&str] = &[
    "deadline exceeded",
    "DeadlineExceeded",
    "timed out",
    "timeout",
];

/// How systemd names the units without which a node is not Ready.
const DESCRIPTIONS: &[&str] = &[
    "Kubernetes Node Agent",
    "Kubernetes Kubelet",
    "Lightweight Kubernetes",
    "Rancher Kubernetes Engine",
];

const NOT_KILLED: &str = "a container cannot be killed";
const NOT_STARTED: &str = "the container runtime does not start";
const NOT_MOUNTED: &str = "the volumes of a pod are not attached or mounted in time";

pub(super) const STARTS_AND_STOPS: &[Failure] = &[
    Failure {
        // A process that has just ended is killed in vain every day.
        without: &["not found", "already finished", "no such process"],
        ..failure("failed to kill container", NOT_KILLED)
    },
    failure("to be killed: wait container", NOT_KILLED),
    failure("but did not receive an exit event", NOT_KILLED),
    Failure {
        with: LATE,
        ..failure("Kill container failed", NOT_KILLED)
    },
    Failure {
        with: LATE,
        ..failure("termination failed with gracePeriod", NOT_KILLED)
    },
    Failure {
        with: LATE,
        ..failure("failed to stop container ", NOT_KILLED)
    },
    Failure {
        // A process that ignores the first signal is killed, and is gone before the next attempt.
        counted: Counted::PerContainer,
        lines: 2,
        ..failure("with stop signal timed out", NOT_KILLED)
    },
    // What systemctl says to whoever starts a unit.
    Failure {
        with: UNITS,
        ..failure(" failed because ", UNIT_FAILED)
    },
    Failure {
        with: UNITS,
        ..failure(
            ".service not found",
            "there is no unit of the kubelet or of the runtime",
        )
    },
    Failure {
        // Too many mounts, which is told apart.
        without: &["no space left on device"],
        ..failure(
            "error creating overlay mount to ",
            "the layers of a container cannot be mounted",
        )
    },
    failure(
        "Timeout trying to communicate with docker during initialization",
        NOT_STARTED,
    ),
    failure("containerd did not exit successfully", NOT_STARTED),
    failure("failed to start daemon: ", NOT_STARTED),
    Failure {
        with: DESCRIPTIONS,
        ..failure("]: Failed to start ", UNIT_FAILED)
    },
    Failure {
        // Of the directory itself, not of a file in it.
        with: &["net.d\\\")", "net.d\")"],
        ..failure(
            "failed to reload cni configuration after receiving fs change event",
            "the directory of the CNI configuration was removed while containerd watched it",
        )
    },
    Failure {
        with: LATE,
        lines: 2,
        ..failure("unmounted volumes=[", NOT_MOUNTED)
    },
    failure("of kill - trying direct SIGKILL", NOT_KILLED),
    Failure {
        with: &["broken pipe"],
        ..failure(
            "json returned error: write unix",
            "whoever asked the Docker daemon for a container left before it had an answer",
        )
    },
    // On Windows.
    failure("subsequent terminate also failed", NOT_KILLED),
    Failure {
        // A probe that takes longer than its own limit is everyday.
        without: &["ExecSync", "Probe", "probe"],
        ..failure(
            "operation timeout: context deadline exceeded",
            "a call to the Docker daemon timed out",
        )
    },
    failure(
        "program exceeds 10000-thread limit",
        "a program ended because 10000 of its threads were blocked in the kernel, for example by \
         a file system",
    ),
];
