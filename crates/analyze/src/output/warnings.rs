//! Events which show that something is wrong, and do not show why.

use super::{Seen, TIMED_OUT, Trouble, has_any};

/// Events of one meaning.
struct Warning {
    reason: &'static str,
    /// One of these is in the message; empty is no condition.
    with: &'static [&'static str],
    /// How often it was seen at least: a single one may be usual.
    times: u64,
    /// What is wrong, in a sentence without a full stop.
    says: &'static str,
}

const fn warning(reason: &'static str, says: &'static str) -> Warning {
    Warning {
        reason,
        with: &[],
        times: 1,
        says,
    }
}

/// An attempt that fails so often was not just too early.
pub(super) const MIN_TIMES: u64 = 3;

const ATTACHED_ELSEWHERE: &str = "a volume is still attached to another node";

/// The first that fits is told.
const WARNINGS: &[Warning] = &[
    Warning {
        times: MIN_TIMES,
        ..warning("NodeNotReady", "the node becomes NotReady again and again")
    },
    warning(
        "FailedCreatePodSandBox",
        "the runtime cannot create a pod sandbox",
    ),
    warning("FailedKillPod", "the runtime cannot stop a pod"),
    warning(
        "FailedPodSandBoxStatus",
        "the runtime does not tell the status of a pod sandbox",
    ),
    Warning {
        // A pod whose containers do not start has some.
        times: 2 * MIN_TIMES,
        ..warning("SandboxChanged", CREATED_AGAIN)
    },
    warning("NetworkNotReady", "the network of the node is not ready"),
    Warning {
        with: &["device plugin"],
        ..warning("UnexpectedAdmissionError", "a device plugin fails")
    },
    Warning {
        with: &["node.kubernetes.io/unreachable"],
        ..warning(
            "FailedScheduling",
            "a node has the taint node.kubernetes.io/unreachable: its kubelet no longer reports",
        )
    },
    Warning {
        with: &["calico/node is not ready"],
        times: MIN_TIMES,
        ..warning("Unhealthy", "calico-node, the network agent, is not ready")
    },
    Warning {
        with: &["probe errored: rpc error: code = Unknown desc = container not running"],
        times: MIN_TIMES,
        ..warning(
            "Unhealthy",
            "the kubelet probes a container that the runtime does not run",
        )
    },
    Warning {
        with: &["rror: context deadline exceeded"],
        ..warning(
            "Failed",
            "the runtime did not create or start a container in time",
        )
    },
    Warning {
        with: &["Multi-Attach error"],
        ..warning("FailedMount", ATTACHED_ELSEWHERE)
    },
    Warning {
        with: &["Multi-Attach error"],
        ..warning("FailedAttachVolume", ATTACHED_ELSEWHERE)
    },
    Warning {
        with: &["mount failed: exit status"],
        ..warning("FailedMount", "a volume cannot be mounted")
    },
    Warning {
        with: TIMED_OUT,
        ..warning("FailedMount", NOT_IN_TIME)
    },
    // At the start of a pod, what it mounts may be created a moment later.
    Warning {
        times: MIN_TIMES,
        ..warning("FailedMount", "a volume cannot be mounted")
    },
    Warning {
        times: MIN_TIMES,
        ..warning("FailedAttachVolume", "a volume cannot be attached")
    },
];

const CREATED_AGAIN: &str = "the sandbox of a pod is created again and again";
const NOT_IN_TIME: &str = "volumes were not mounted in time";

/// A Secret or ConfigMap that a pod is to mount and that does not exist.
const NO_OBJECT: [&str; 4] = ["secret \"", "secrets \"", "configmap \"", "configmaps \""];

/// What events show without its cause.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    /// The first mount that was not done in time.
    late_mount: Option<Trouble>,
    /// Such a mount waits for what is not there, which is no fault of the node.
    lacks_object: bool,
    /// The first sandbox that was created again and again.
    created_again: Option<Trouble>,
    /// Without the image of its container, a sandbox ends at once.
    lacks_image: bool,
}

impl Warnings {
    /// An event, as it is in a row that is this `line` of the input.
    pub(super) fn event(reason: &str, text: &str, times: u64, line: u64, seen: &mut Seen) {
        let is_mount = reason == "FailedMount";
        // The terminal may have cut the line.
        let is_missing = text.contains("\" not found") || text.ends_with("\" not");
        if is_mount && has_any(text, &NO_OBJECT) && is_missing {
            seen.warnings.lacks_object = true;
            return;
        }
        seen.warnings.lacks_image |= reason == "Failed" && text.contains("Failed to pull image");
        let fits = |warning: &&Warning| {
            let is_with = warning.with.is_empty() || has_any(text, warning.with);
            warning.reason == reason && is_with && times >= warning.times
        };
        let Some(warning) = WARNINGS.iter().find(fits) else {
            return;
        };
        let count = match times {
            0 | 1 => String::new(),
            times => format!(", {times} times"),
        };
        let says = format!("{} (event {reason}{count})", warning.says);
        let first = match warning.says {
            NOT_IN_TIME => &mut seen.warnings.late_mount,
            CREATED_AGAIN => &mut seen.warnings.created_again,
            _ => return seen.trouble(line, says),
        };
        first.get_or_insert(Trouble { says, line });
    }

    /// What is wrong as far as other events do not excuse it.
    pub(super) fn troubles(&mut self) -> impl Iterator<Item = Trouble> + use<> {
        let late_mount = self.late_mount.take().filter(|_| !self.lacks_object);
        let created_again = self.created_again.take().filter(|_| !self.lacks_image);
        late_mount.into_iter().chain(created_again)
    }
}
