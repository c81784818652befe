//! The node's Ready condition, as a kubelet computes it.
//!
//! Source: Kubernetes 1.36, `pkg/kubelet/nodestatus`, `ReadyCondition`.

use pleg::model::wall_time::WallTime;
use serde::{Deserialize, Serialize, Serializer};

use crate::runtime_state::aggregate;

/// A node condition, in the form of Kubernetes' API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadyCondition {
    /// `Ready`.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The status.
    pub status: Status,
    /// `KubeletReady` or `KubeletNotReady`.
    pub reason: Reason,
    /// The reasons for which the node is not ready, if any.
    pub message: String,
    /// When it was computed.
    #[serde(serialize_with = "in_seconds")]
    pub last_heartbeat_time: WallTime,
    /// When `status` last changed.
    #[serde(serialize_with = "in_seconds")]
    pub last_transition_time: WallTime,
}

/// The name of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// `Ready`
    Ready,
}

/// Whether a node is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It is ready.
    True,
    /// It is not ready.
    False,
}

/// The reason of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// `KubeletReady`
    KubeletReady,
    /// `KubeletNotReady`
    KubeletNotReady,
}

/// A change of the condition's status: the reason of the kubelet's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// `NodeReady`
    NodeReady,
    /// `NodeNotReady`
    NodeNotReady,
}

impl ReadyCondition {
    /// Computes the condition at `now`, and its transition from the `last` one. `errors` are the
    /// errors of the runtime, then that of its network. The first condition of a node is no
    /// transition.
    pub fn compute(
        now: WallTime,
        errors: &[String],
        last: Option<&Self>,
    ) -> (Self, Option<Transition>) {
        let (status, reason, message) = match aggregate(errors) {
            None => {
                let posting = "kubelet is posting ready status".to_owned();
                (Status::True, Reason::KubeletReady, posting)
            }
            Some(errors) => (Status::False, Reason::KubeletNotReady, errors),
        };
        let has_changed = last.is_some_and(|last| last.status != status);
        let since = last
            .filter(|_| !has_changed)
            .map(|it| it.last_transition_time);
        let condition = Self {
            kind: Kind::Ready,
            status,
            reason,
            message,
            last_heartbeat_time: now,
            last_transition_time: since.unwrap_or(now),
        };
        let transition = has_changed.then_some(match status {
            Status::True => Transition::NodeReady,
            Status::False => Transition::NodeNotReady,
        });
        (condition, transition)
    }
}

/// Times in Kubernetes' conditions have whole seconds.
fn in_seconds<S: Serializer>(time: &WallTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:.0}", time.timestamp()))
}

#[cfg(test)]
mod tests;
