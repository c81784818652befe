//! Decides what is written to the API, when, and when it is retried. It is pure: the time is an
//! argument.
//!
//! ```text
//!   reports, the Node, results of writes --> Plan --> next(): one write, or nothing yet
//! ```
//!
//! Each kind of write has its own back-off, so that a right which is missing for one kind does not
//! delay the others. One write is outstanding at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use pleg::model::wall_time::Moment;
use pleg::out::status_report::StatusReport;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::Failure;
use crate::backoff::Backoff;
use crate::config::KubernetesConfig;
use crate::episodes::{Episodes, NewEvent};
use crate::node::{Node, NodeChange};
use crate::node_condition::{
    Entry, HEARTBEAT, MIN_TEXT_WRITE_INTERVAL, NodeCondition, OurCondition,
};
use crate::taint::Taint;

/// A report that is older than this is not confirmed.
const CONFIRMABLE_FOR: Duration = Duration::from_secs(30);

/// A right counts as missing after this many tries: a server that has just started refuses requests
/// that it allows a second later.
const TRIES_BEFORE_MISSING_RIGHT: u32 = 3;

/// The kinds of writes, in order of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Condition,
    RuntimeReady,
    Taint,
    Event,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [
        Self::Condition,
        Self::RuntimeReady,
        Self::Taint,
        Self::Event,
    ];

    /// The label in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Condition => "condition",
            Self::RuntimeReady => "container_runtime_ready",
            Self::Taint => "taint",
            Self::Event => "event",
        }
    }
}

impl From<OurCondition> for Kind {
    fn from(which: OurCondition) -> Self {
        match which {
            OurCondition::PlegUnhealthy => Self::Condition,
            OurCondition::ContainerRuntimeReady => Self::RuntimeReady,
        }
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    /// Our entry in the Node's conditions, with the Node's UID.
    Condition(OurCondition, Entry, Option<String>),
    /// A JSON Patch of the Node.
    Taint(Value),
    /// An event, with the Node's UID.
    Event(NewEvent, String),
}

impl Write {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Condition(which, ..) => Kind::from(*which),
            Self::Taint(_) => Kind::Taint,
            Self::Event(..) => Kind::Event,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Plan {
    node_name: String,
    node: KnownNode,
    /// The conditions.
    conditions: BTreeMap<OurCondition, NodeCondition>,
    taint: Taint,
    episodes: Option<Episodes>,
    /// When the next event may be written.
    events_due: Option<Instant>,
    backoffs: BTreeMap<Kind, Backoff>,
    reported: Option<Instant>,
    spread: Duration,
    rng: Rng,
}

/// What is known of the own Node.
#[derive(Debug)]
enum KnownNode {
    /// The Node was not read yet.
    NotRead,
    Exists(Box<Node>),
    Deleted,
    /// We have no right to read the Node: only what we wrote is known.
    Unreadable,
}

impl Plan {
    pub(crate) fn new(config: &KubernetesConfig, node: &str, now: Instant, rng: Rng) -> Self {
        let condition = NodeCondition::new(config.condition.clone());
        let mut conditions = BTreeMap::from([(OurCondition::PlegUnhealthy, condition)]);
        if config.container_runtime_ready {
            let condition = NodeCondition::new("ContainerRuntimeReady".to_owned());
            conditions.insert(OurCondition::ContainerRuntimeReady, condition);
        }
        Self {
            node_name: node.to_owned(),
            node: KnownNode::NotRead,
            conditions,
            taint: Taint::new(config),
            episodes: config.events.then(|| Episodes::new(now)),
            events_due: None,
            backoffs: Kind::ALL.map(|kind| (kind, Backoff::default())).into(),
            reported: None,
            spread: config.spread(),
            rng,
        }
    }

    /// Stores the newest report.
    pub(crate) fn on_report(&mut self, report: &StatusReport, now: Moment) {
        self.reported = Some(now.instant);
        let delay = self.spread.mul_f64(self.rng.f64());
        for (which, condition) in &mut self.conditions {
            if let Some(content) = which.content(report) {
                condition.want(content, delay, now);
                if let KnownNode::Exists(node) = &self.node {
                    condition.adopt(node);
                }
            }
        }
        self.taint.on_report(report, now.instant);
        if let Some(episodes) = &mut self.episodes {
            let were_waiting = episodes.next().is_some();
            episodes.on_report(report, now);
            if !were_waiting && episodes.next().is_some() {
                // After the conditions of all nodes, and over twice the time.
                let delay = self.spread + self.spread.mul_f64(2.0 * self.rng.f64());
                self.events_due = Some(now.instant + delay);
            }
        }
    }

    /// Stores what a watch reports of the own Node.
    pub(crate) fn on_node(&mut self, change: NodeChange, now: Moment) {
        self.node = match change {
            NodeChange::Deleted => KnownNode::Deleted,
            NodeChange::Exists(node) => {
                let known = self.known_node();
                let is_new = known.is_none_or(|known| known.metadata.uid != node.metadata.uid);
                self.taint.on_node(is_new);
                let is_another =
                    is_new && matches!(self.node, KnownNode::Exists(_) | KnownNode::Deleted);
                if is_new {
                    // Earlier failures concern the previous object.
                    for kind in [Kind::Condition, Kind::RuntimeReady, Kind::Taint] {
                        self.backoff(kind).succeeded();
                    }
                }
                if is_another && let Some(episodes) = &mut self.episodes {
                    episodes.on_new_node();
                }
                for condition in self.conditions.values_mut() {
                    condition.on_node(&node, is_new, now.instant);
                }
                KnownNode::Exists(node)
            }
        };
    }

    /// Records that we have no right to read the Node.
    pub(crate) fn on_unreadable(&mut self) {
        if let KnownNode::NotRead = self.node {
            self.node = KnownNode::Unreadable;
        }
    }

    /// The write that is due now, if any.
    pub(crate) fn next(&self, now: Moment) -> Option<Write> {
        if self.misses_node() {
            return None;
        }
        let node = self.known_node();
        // Without the right to read the Node, events contain its name in place of its UID, like the
        // kubelet's events.
        let uid = node.map_or(&self.node_name, |node| &node.metadata.uid);
        let may = |kind| {
            let until = self.backoffs[&kind].until();
            until.is_none_or(|until| now.instant >= until)
        };
        for (which, condition) in &self.conditions {
            if may(Kind::from(*which))
                && let Some(due) = condition.due(self.confirmable_until())
                && now.instant >= due
                && let Some(entry) = condition.entry(now.wall)
            {
                return Some(Write::Condition(*which, entry, self.uid()));
            }
        }
        if may(Kind::Taint)
            && let Some(node) = node
            && let Some(patch) = self.taint.patch(node, now.instant)
        {
            return Some(Write::Taint(patch));
        }
        let event = self.episodes.as_ref()?.next()?;
        let is_due = self.events_due.is_some_and(|due| now.instant >= due);
        (is_due && may(Kind::Event)).then(|| Write::Event(event.clone(), uid.clone()))
    }

    fn known_node(&self) -> Option<&Node> {
        match &self.node {
            KnownNode::Exists(node) => Some(node),
            KnownNode::NotRead | KnownNode::Deleted | KnownNode::Unreadable => None,
        }
    }

    /// The Node's UID, if the Node is known.
    fn uid(&self) -> Option<String> {
        Some(self.known_node()?.metadata.uid.clone())
    }

    /// When [`Self::next`] may return another result without a new input.
    pub(crate) fn alarm(&self, now: Instant) -> Option<Instant> {
        let conditions = self.conditions.values();
        let conditions = conditions.filter_map(|it| it.due(self.confirmable_until()));
        let events = self.episodes.as_ref().and_then(|it| it.next());
        let events = events.and(self.events_due);
        let backoffs = self.backoffs.values().filter_map(Backoff::until);
        let times = conditions.chain(self.taint.due()).chain(events);
        times.chain(backoffs).filter(|time| *time > now).min()
    }

    fn confirmable_until(&self) -> Option<Instant> {
        self.reported.map(|reported| reported + CONFIRMABLE_FOR)
    }

    /// Records that a write has succeeded.
    pub(crate) fn written(&mut self, write: &Write, now: Instant) {
        self.backoff(write.kind()).succeeded();
        match write {
            Write::Condition(which, entry, uid) => {
                let is_same_node = *uid == self.uid();
                let first_beat = HEARTBEAT.mul_f64(0.1 + 0.9 * self.rng.f64());
                match self.conditions.get_mut(which) {
                    Some(condition) if is_same_node => condition.written(entry, first_beat, now),
                    // The Node was recreated meanwhile: the answer does not show to which of the
                    // two objects the condition was written.
                    Some(condition) => condition.failed(now),
                    None => {}
                }
            }
            // The watch reports the changed Node, in the order of its changes.
            Write::Taint(_) => self.taint.written(now),
            Write::Event(event, _) => self.event_done(event),
        }
    }

    /// Records that a write has failed.
    pub(crate) fn failed(&mut self, write: &Write, failure: &Failure, now: Instant) {
        let kind = write.kind();
        let is_refused_for_good = self.backoff(kind).failures() >= TRIES_BEFORE_MISSING_RIGHT;
        match (failure, write) {
            (_, Write::Condition(which, ..)) => {
                if let Some(condition) = self.conditions.get_mut(which) {
                    condition.failed_with(failure, now);
                }
            }
            // The server would refuse the event again, its namespace does not exist any more, or
            // the event exists already.
            (
                Failure::Invalid(..) | Failure::NotFound(_) | Failure::Conflict(_),
                Write::Event(event, _),
            ) => self.event_done(event),
            // Perhaps only this event is refused, because its namespace is being deleted.
            (Failure::Forbidden(..), Write::Event(event, _)) if is_refused_for_good => {
                self.event_done(event);
            }
            _ => {}
        }
        let at_least = match failure {
            Failure::Forbidden(..) if is_refused_for_good => HEARTBEAT,
            // The owner may release the condition at any time; the watch shows that.
            Failure::Conflict(_) if matches!(write, Write::Condition(..)) => {
                MIN_TEXT_WRITE_INTERVAL
            }
            Failure::Conflict(_) => HEARTBEAT,
            Failure::Busy { retry_after, .. } => *retry_after,
            // The list of taints has changed meanwhile; the watch shows it.
            _ => Duration::ZERO,
        };
        let mut rng = self.rng.fork();
        self.backoff(kind).failed(at_least, now, &mut rng);
    }

    fn event_done(&mut self, event: &NewEvent) {
        if let Some(episodes) = &mut self.episodes {
            episodes.done(event);
        }
    }

    fn backoff(&mut self, kind: Kind) -> &mut Backoff {
        self.backoffs.entry(kind).or_default()
    }

    /// Whether a written taint must become visible before it can be removed.
    pub(crate) fn needs_node_update(&self, now: Instant) -> bool {
        let node = self.known_node();
        node.is_some_and(|node| self.taint.is_not_visible_yet(node, now))
    }

    /// What is removed before a stop: the written conditions with their types, and our taint.
    pub(crate) fn to_remove(&self) -> (Vec<(OurCondition, &str)>, Option<Value>) {
        let ours = self.conditions.iter().filter(|(_, it)| it.is_ours());
        let ours = ours.map(|(which, it)| (*which, it.kind())).collect();
        let node = self.known_node();
        (ours, node.and_then(|node| self.taint.patch_to_remove(node)))
    }

    /// Whether the Node was not found yet, or was deleted.
    pub(crate) fn misses_node(&self) -> bool {
        matches!(self.node, KnownNode::NotRead | KnownNode::Deleted)
    }

    /// The number of events that were left out because there were too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.episodes.as_ref().map_or(0, |it| it.left_out)
    }
}

#[cfg(test)]
mod tests;
