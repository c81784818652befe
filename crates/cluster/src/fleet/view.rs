//! A Node in one row: the content of its conditions and of our annotation, and its time.

use std::time::Duration;

use pleg::model::wall_time::WallTime;
use pleg::out::health::Reason;
use serde::Serialize;

use crate::node::{Node, NodeCondition};
use crate::summary::{ANNOTATION, Culprit, Summary};

/// The condition's name, without a domain.
const CONDITION: &str = "PLEGUnhealthy";

/// The condition's reason while a guard answers.
const GUARDING: &str = Reason::Guarding.as_str();

/// A condition that was not confirmed for longer than this is stale: two heartbeats are missing.
const STALE_AFTER: Duration = Duration::from_secs(11 * 60);

/// A Node, and what its agent reports about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// The Node's name.
    pub node: String,
    /// The status of the Node's condition `Ready`: `True`, `False` or `Unknown`.
    pub ready: String,
    /// The state of pleg on the Node.
    pub state: FleetState,
    /// When the state or the reason last changed. If an agent reports only a condition, when the
    /// condition's status last changed.
    pub since: Option<WallTime>,
    /// The condition's reason.
    pub reason: Option<String>,
    /// The cause that a diagnosis has found, by its id, for `pleg explain`.
    pub cause: Option<String>,
    /// The culprits, if the agent names them.
    pub culprits: Vec<Culprit>,
    /// The number of further culprits.
    pub more: usize,
    /// Whether a guard answers in place of the runtime.
    pub guarded: bool,
    /// The condition's message.
    pub message: Option<String>,
    /// When the agent last confirmed its condition.
    pub heartbeat: Option<WallTime>,
}

/// The state of pleg on a node, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum FleetState {
    /// No pod was observed for the threshold, or a guard reached its limit.
    Unhealthy,
    /// Calls hang, fail or are slow; everything else is observed.
    Degraded,
    /// The agent has not confirmed its condition for eleven minutes.
    Stale,
    /// No agent has reported anything.
    NotReported,
    /// All pods are observed.
    Healthy,
}

impl FleetState {
    /// The state's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unhealthy => "Unhealthy",
            Self::Degraded => "Degraded",
            Self::Stale => "Stale",
            Self::NotReported => "NotReported",
            Self::Healthy => "Healthy",
        }
    }
}

impl NodeView {
    /// The row of the Node, read at `now`.
    pub(super) fn of(node: &Node, now: WallTime) -> Self {
        let ready = node.condition("Ready");
        let listed = node.condition_in_any_domain(CONDITION);
        let summary = listed.and_then(|listed| summary(node, listed));
        let state = listed.map_or(FleetState::NotReported, |listed| state(listed, now));
        let transition = listed.and_then(|listed| listed.last_transition_time);
        let (culprits, more) = match &summary {
            Some(summary) => (summary.culprits.clone(), summary.more),
            None => (Vec::new(), 0),
        };
        Self {
            node: node.metadata.name.clone(),
            ready: ready.map_or("Unknown", |ready| &ready.status).to_owned(),
            state,
            since: summary.as_ref().map(|it| it.since).or(transition),
            reason: listed.and_then(|listed| listed.reason.clone()),
            cause: summary.as_ref().and_then(|it| it.cause.clone()),
            culprits,
            more,
            guarded: match &summary {
                Some(summary) => summary.guarding,
                None => listed.and_then(|it| it.reason.as_deref()) == Some(GUARDING),
            },
            message: listed.and_then(|listed| listed.message.clone()),
            heartbeat: listed.and_then(|listed| listed.last_heartbeat_time),
        }
    }

    /// Whether an operator should examine the node.
    pub fn is_failing(&self) -> bool {
        self.ready != "True" || self.state < FleetState::Stale
    }

    /// The order of rows: failing nodes first, then unknown ones, then by name.
    pub fn rank(&self) -> impl Ord + use<> {
        let severity = match self.state {
            _ if self.ready != "True" => FleetState::Unhealthy,
            state => state,
        };
        (severity, self.node.clone())
    }
}

fn state(listed: &NodeCondition, now: WallTime) -> FleetState {
    let is_stale = |at: WallTime| now.since(at) > STALE_AFTER;
    match (listed.status.as_str(), listed.reason.as_deref()) {
        _ if listed.last_heartbeat_time.is_none_or(is_stale) => FleetState::Stale,
        ("True", _) => FleetState::Unhealthy,
        ("False", Some(reason)) if reason == Reason::AllSeen.as_str() => FleetState::Healthy,
        ("False", _) => FleetState::Degraded,
        _ => FleetState::Stale,
    }
}

/// The content of the annotation, if it belongs to the same report as the condition.
fn summary(node: &Node, listed: &NodeCondition) -> Option<Summary> {
    let summary: Summary = serde_json::from_str(node.annotations()?.get(ANNOTATION)?).ok()?;
    let is_same = listed.reason.as_deref() == Some(summary.condition_reason());
    is_same.then_some(summary)
}
