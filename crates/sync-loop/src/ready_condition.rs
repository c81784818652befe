//! The node's Ready condition, as a kubelet computes it.
//!
//! Source: Kubernetes 1.36, `pkg/kubelet/nodestatus`, `ReadyCondition`.

use pleg::model::wall_time::WallTime;
use serde::{Serialize, Serializer};

use crate::runtime_state::aggregate;

/// A node condition, in the form of Kubernetes' API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadyCondition {
    /// `Ready`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The status.
    pub status: Status,
    /// `KubeletReady` or `KubeletNotReady`.
    pub reason: &'static str,
    /// Why the node is not ready, or the kubelet's message for a node that is.
    pub message: String,
    /// When it was computed.
    #[serde(serialize_with = "in_seconds")]
    pub last_heartbeat_time: WallTime,
    /// When `status` last changed.
    #[serde(serialize_with = "in_seconds")]
    pub last_transition_time: WallTime,
}

/// Whether a node is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// The node is ready.
    True,
    /// The node is not ready.
    False,
}

impl ReadyCondition {
    /// Computes the condition at `now`, after the `last` one. `errors` are the errors of the
    /// runtime, then that of its network.
    pub(crate) fn compute(now: WallTime, errors: &[String], last: Option<&Self>) -> Self {
        let (status, reason, message) = match aggregate(errors) {
            None => {
                let posting = "kubelet is posting ready status".to_owned();
                (Status::True, "KubeletReady", posting)
            }
            Some(errors) => (Status::False, "KubeletNotReady", errors),
        };
        let unchanged = last.filter(|last| last.status == status);
        Self {
            kind: "Ready",
            status,
            reason,
            message,
            last_heartbeat_time: now,
            last_transition_time: unchanged.map_or(now, |last| last.last_transition_time),
        }
    }
}

/// Times in Kubernetes' conditions have whole seconds.
fn in_seconds<S: Serializer>(time: &WallTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:.0}", time.timestamp()))
}

#[cfg(test)]
mod tests;
