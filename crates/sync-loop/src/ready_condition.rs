//! The Ready condition as a kubelet computes it.
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
    /// When its status last changed.
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

/// The inputs of the condition.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The result of [`RuntimeState::errors`](crate::runtime_state::RuntimeState::errors).
    pub runtime: Vec<String>,
    /// The network's error.
    pub network: Option<String>,
    /// The error of the volumes' storage.
    pub storage: Option<String>,
    /// Why the node is shutting down, if it is.
    pub shutdown: Option<String>,
    /// The capacities of a node that are not known: `cpu`, `memory`, `pods`.
    pub missing_capacities: Vec<&'static str>,
    /// A warning that does not make the node NotReady.
    pub warning: Option<String>,
}

/// A transition of the condition: the reason of a kubelet's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// `NodeReady`
    NodeReady,
    /// `NodeNotReady`
    NodeNotReady,
}

impl ReadyCondition {
    /// Computes the condition at `now`, which follows `last`, and its transition. The first
    /// condition of a node is no transition.
    pub fn compute(
        now: WallTime,
        inputs: &Inputs,
        last: Option<&Self>,
    ) -> (Self, Option<Transition>) {
        let mut errors = inputs.runtime.clone();
        errors.extend(inputs.network.clone());
        errors.extend(inputs.storage.clone());
        errors.extend(inputs.shutdown.clone());
        if !inputs.missing_capacities.is_empty() {
            let missing = inputs.missing_capacities.join(", ");
            errors.push(format!("missing node capacity for resources: {missing}"));
        }
        let (status, reason, mut message) = match aggregate(&errors) {
            None => {
                let posting = "kubelet is posting ready status".to_owned();
                (Status::True, Reason::KubeletReady, posting)
            }
            Some(errors) => (Status::False, Reason::KubeletNotReady, errors),
        };
        if let Some(warning) = &inputs.warning {
            message.push_str(". WARNING: ");
            message.push_str(warning);
        }
        let turned = last.is_some_and(|last| last.status != status);
        let since = last.filter(|_| !turned).map(|it| it.last_transition_time);
        let condition = Self {
            kind: Kind::Ready,
            status,
            reason,
            message,
            last_heartbeat_time: now,
            last_transition_time: since.unwrap_or(now),
        };
        let transition = turned.then_some(match status {
            Status::True => Transition::NodeReady,
            Status::False => Transition::NodeNotReady,
        });
        (condition, transition)
    }
}

/// Times in Kubernetes' conditions have no fractions of a second.
fn in_seconds<S: Serializer>(time: &WallTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:.0}", time.timestamp()))
}

#[cfg(test)]
mod tests;
