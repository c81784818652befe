//! A Node in one row: what its conditions and our annotation say, and as of when.

use std::time::Duration;

use pleg::model::wall_time::WallTime;
use pleg::out::health::Reason;
use serde::Serialize;

use crate::node::{Listed, Node};
use crate::summary::{ANNOTATION, Culprit, Summary};

/// The condition's name, without a domain.
const CONDITION: &str = "PLEGUnhealthy";

/// What an agent has not confirmed for longer is not known any more: two heartbeats were missed.
const STALE: Duration = Duration::from_secs(11 * 60);

/// A Node, and what its agent says of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Its name.
    pub node: String,
    /// The status of its condition `Ready`: `True`, `False` or `Unknown`.
    pub ready: String,
    /// How relisting goes there.
    pub state: FleetState,
    /// Since when state and reason are so. Of an agent that tells only a condition, since when
    /// that has its status.
    pub since: Option<WallTime>,
    /// The condition's reason.
    pub reason: Option<String>,
    /// What a diagnosis found, by its id: `pleg explain` has a page of it.
    pub cause: Option<String>,
    /// Whose calls hang, as far as the agent names them.
    pub culprits: Vec<Culprit>,
    /// How many more hang.
    pub more: usize,
    /// Whether a guard answers in place of the runtime.
    pub guarded: bool,
    /// The condition's message.
    pub message: Option<String>,
    /// When the agent last confirmed all this.
    pub heartbeat: Option<WallTime>,
}

/// How relisting goes on a node, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum FleetState {
    /// No pod was seen for the threshold, or a guard reached its limit.
    Unhealthy,
    /// Something does not answer; all else is seen.
    Degraded,
    /// The agent has not confirmed its condition for eleven minutes.
    Stale,
    /// No agent has told anything.
    NotReported,
    /// Everything is seen.
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
    /// The Node as it is read at `now`.
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
                None => listed.is_some_and(|it| it.reason.as_deref() == Some(GUARDING)),
            },
            message: listed.and_then(|listed| listed.message.clone()),
            heartbeat: listed.and_then(|listed| listed.last_heartbeat_time),
        }
    }

    /// Whether an operator should look at it.
    pub fn is_failing(&self) -> bool {
        self.ready != "True" || self.state < FleetState::Stale
    }

    /// The order in which they are shown: what fails first, then what is not known, then by name.
    pub fn rank(&self) -> impl Ord + use<> {
        let severity = match self.state {
            _ if self.ready != "True" => FleetState::Unhealthy,
            state => state,
        };
        (severity, self.node.clone())
    }
}

const GUARDING: &str = Reason::Guarding.as_str();

fn state(listed: &Listed, now: WallTime) -> FleetState {
    let is_stale = |at: WallTime| now.since(at) > STALE;
    match (listed.status.as_str(), listed.reason.as_deref()) {
        _ if listed.last_heartbeat_time.is_none_or(is_stale) => FleetState::Stale,
        ("True", _) => FleetState::Unhealthy,
        ("False", Some(reason)) if reason == Reason::AllSeen.as_str() => FleetState::Healthy,
        ("False", _) => FleetState::Degraded,
        _ => FleetState::Stale,
    }
}

/// What the annotation says, if it is of the same report as the condition.
fn summary(node: &Node, listed: &Listed) -> Option<Summary> {
    let summary: Summary = serde_json::from_str(node.annotations()?.get(ANNOTATION)?).ok()?;
    let is_same = listed.reason.as_deref() == Some(summary.condition_reason());
    is_same.then_some(summary)
}
