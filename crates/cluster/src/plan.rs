//! What is to be written to the API, when, and when again: pure, and told the time.
//!
//! ```text
//!   reports, the Node, how writes ended --> Plan --> next(): one write, or nothing yet
//! ```
//!
//! Each kind of write has its own pauses after failures, so that a right which is missing for
//! one does not hold up the others. One write is outstanding at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use pleg::model::wall_time::{Moment, WallTime};
use pleg::out::status_report::StatusReport;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::Failure;
use crate::backoff::Backoff;
use crate::condition::Condition;
use crate::config::KubernetesConfig;
use crate::episodes::{Episodes, NewEvent};
use crate::node::{Node, Seen};
use crate::taint::Taint;

/// What is written is confirmed so often, as node-problem-detector does.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(300);

/// What is said of a report that is older than this is not confirmed.
const STALE: Duration = Duration::from_secs(30);

/// Changes of the message alone are not written more often.
const CALM: Duration = Duration::from_secs(10);

/// Who takes our condition away is answered at most so often.
const AGAIN: Duration = Duration::from_secs(60);

/// The condition's type that node repairers know.
const RUNTIME_READY: &str = "ContainerRuntimeReady";

/// The kinds of writes; whoever comes first is written first.
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

    /// As it is labelled in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Condition => "condition",
            Self::RuntimeReady => "container_runtime_ready",
            Self::Taint => "taint",
            Self::Event => "event",
        }
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    /// Our entry in the Node's conditions.
    Condition(Kind, Entry),
    /// A JSON Patch of the Node.
    Taint(Value),
    /// An event, with the Node's UID.
    Event(NewEvent, String),
}

impl Write {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Condition(kind, _) => *kind,
            Self::Taint(_) => Kind::Taint,
            Self::Event(..) => Kind::Event,
        }
    }
}

/// An entry in the Node's conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) said: Condition,
    pub(crate) heartbeat: WallTime,
    pub(crate) transition: WallTime,
}

#[derive(Debug)]
pub(crate) struct Plan {
    node: Known,
    /// The conditions that are written.
    conditions: BTreeMap<Kind, Conditioned>,
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
enum Known {
    /// Nothing yet.
    Nothing,
    There(Box<Node>),
    Gone,
    /// It may not be read: what we wrote is all that is known.
    Unreadable,
}

/// A condition, as it should be and as it was written.
#[derive(Debug)]
struct Conditioned {
    kind: String,
    wanted: Option<Condition>,
    /// When the difference between the two is due.
    due: Option<Instant>,
    written: Option<(Condition, Instant)>,
    /// When it is confirmed next: nodes that are started together do not beat together.
    beat: Option<Instant>,
    /// Since when its status is what it is, as far as we know.
    since: Option<(&'static str, WallTime)>,
    /// It is somebody else's.
    is_others: bool,
}

impl Plan {
    pub(crate) fn new(config: &KubernetesConfig, now: Instant, rng: Rng) -> Self {
        let mut conditions = BTreeMap::from([(Kind::Condition, config.condition.clone())]);
        if config.container_runtime_ready {
            conditions.insert(Kind::RuntimeReady, RUNTIME_READY.to_owned());
        }
        let conditions = conditions.into_iter();
        Self {
            node: Known::Nothing,
            conditions: conditions
                .map(|(of, kind)| (of, Conditioned::new(kind)))
                .collect(),
            taint: Taint::new(config),
            episodes: config.events.then(|| Episodes::new(now)),
            events_due: None,
            backoffs: Kind::ALL.map(|kind| (kind, Backoff::default())).into(),
            reported: None,
            spread: config.spread(),
            rng,
        }
    }

    /// The newest report.
    pub(crate) fn on_report(&mut self, report: &StatusReport, now: Moment) {
        self.reported = Some(now.instant);
        let delay = self.spread.mul_f64(self.rng.f64());
        for (kind, conditioned) in &mut self.conditions {
            let said = match kind {
                Kind::RuntimeReady => Condition::of_runtime(report),
                _ => Condition::of(report),
            };
            if let Some(said) = said {
                conditioned.want(said, delay, now);
                if let Known::There(node) = &self.node {
                    conditioned.adopt(node);
                }
            }
        }
        self.taint.on_report(report, now.instant);
        if let Some(episodes) = &mut self.episodes {
            let were_waiting = episodes.next().is_some();
            episodes.on_report(report, now.wall, now.instant);
            if !were_waiting && episodes.next().is_some() {
                // After the conditions of all nodes, and over twice the time.
                let delay = self.spread + self.spread.mul_f64(2.0 * self.rng.f64());
                self.events_due = Some(now.instant + delay);
            }
        }
    }

    /// What a watch says of the own Node.
    pub(crate) fn on_node(&mut self, seen: Seen, now: Moment) {
        self.node = match seen {
            Seen::Gone => Known::Gone,
            Seen::There(node) => {
                let is_new = match &self.node {
                    Known::There(known) => known.metadata.uid != node.metadata.uid,
                    Known::Nothing | Known::Gone | Known::Unreadable => true,
                };
                for conditioned in self.conditions.values_mut() {
                    conditioned.on_node(&node, is_new, now.instant);
                }
                Known::There(node)
            }
        };
    }

    /// The Node may not be read.
    pub(crate) fn on_unreadable(&mut self) {
        if let Known::Nothing = self.node {
            self.node = Known::Unreadable;
        }
    }

    /// What is to be written now, if anything is.
    pub(crate) fn next(&self, now: Moment) -> Option<Write> {
        let node = match &self.node {
            Known::Nothing | Known::Gone => return None,
            Known::There(node) => Some(node.as_ref()),
            Known::Unreadable => None,
        };
        let may = |kind| {
            self.backoffs[&kind]
                .until()
                .is_none_or(|at| now.instant >= at)
        };
        for (kind, conditioned) in &self.conditions {
            if may(*kind)
                && conditioned
                    .due(self.confirmable_until())
                    .is_some_and(|due| now.instant >= due)
                && let Some(entry) = conditioned.entry(now.wall)
            {
                return Some(Write::Condition(*kind, entry));
            }
        }
        let node = node?;
        if may(Kind::Taint)
            && let Some(patch) = self.taint.patch(node, now.instant)
        {
            return Some(Write::Taint(patch));
        }
        let event = self.episodes.as_ref()?.next()?;
        let is_due = self.events_due.is_some_and(|due| now.instant >= due);
        (is_due && may(Kind::Event)).then(|| Write::Event(event.clone(), node.metadata.uid.clone()))
    }

    /// When [`Self::next`] may say otherwise, unless something is heard.
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
        self.reported.map(|reported| reported + STALE)
    }

    /// A write has succeeded; a Node that was patched is as it answers.
    pub(crate) fn written(&mut self, write: &Write, node: Option<Node>, now: Instant) {
        self.backoff(write.kind()).succeeded();
        match write {
            Write::Condition(kind, entry) => {
                let first_beat = HEARTBEAT.mul_f64(0.1 + 0.9 * self.rng.f64());
                if let Some(conditioned) = self.conditions.get_mut(kind) {
                    conditioned.written(entry, first_beat, now);
                }
            }
            Write::Taint(_) => {
                if let Some(node) = node {
                    self.node = Known::There(Box::new(node));
                }
            }
            Write::Event(..) => self.event_done(),
        }
    }

    /// A write has failed.
    pub(crate) fn failed(&mut self, write: &Write, failure: &Failure, now: Instant) {
        let kind = write.kind();
        match (failure, write) {
            // Another writer owns it: two of them would fight.
            (Failure::Conflict(_), Write::Condition(kind, _)) => {
                if let Some(conditioned) = self.conditions.get_mut(kind) {
                    conditioned.is_others = true;
                }
            }
            // What the server does not take it will not take later either, nor that there is no
            // such namespace any more.
            (
                Failure::Invalid(_) | Failure::NotFound(_) | Failure::Conflict(_),
                Write::Event(..),
            ) => {
                self.event_done();
            }
            _ => {}
        }
        let at_least = match failure {
            Failure::Forbidden(_) | Failure::Conflict(_) => HEARTBEAT,
            Failure::Busy { retry_after, .. } => *retry_after,
            // The list of taints has changed meanwhile: the watch tells it.
            _ => Duration::ZERO,
        };
        let mut rng = self.rng.fork();
        self.backoff(kind).failed(at_least, now, &mut rng);
    }

    fn event_done(&mut self) {
        if let Some(episodes) = &mut self.episodes {
            episodes.done();
        }
    }

    fn backoff(&mut self, kind: Kind) -> &mut Backoff {
        self.backoffs.entry(kind).or_default()
    }

    /// What is to be taken back before we stop: the conditions that we wrote, and our taint.
    pub(crate) fn farewell(&self) -> (Vec<Kind>, Option<Value>) {
        let written = self.conditions.iter();
        let written = written.filter(|(_, it)| it.written.is_some() && !it.is_others);
        let written = written.map(|(kind, _)| *kind).collect();
        let taint = match &self.node {
            Known::There(node) => self.taint.patch_to_remove(node),
            Known::Nothing | Known::Gone | Known::Unreadable => None,
        };
        (written, taint)
    }

    /// How many events were left out because there were too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.episodes.as_ref().map_or(0, |it| it.left_out)
    }
}

impl Conditioned {
    fn new(kind: String) -> Self {
        Self {
            kind,
            wanted: None,
            due: None,
            written: None,
            beat: None,
            since: None,
            is_others: false,
        }
    }

    fn want(&mut self, said: Condition, delay: Duration, now: Moment) {
        let status = said.status.as_str();
        if self.since.is_none_or(|(was, _)| was != status) {
            self.since = Some((status, now.wall));
        }
        let due = match &self.written {
            None => Some(now.instant + delay),
            Some((written, _)) if written.status != said.status => Some(now.instant + delay),
            Some((written, at)) if written.differs(&said) => {
                Some((now.instant + delay).max(*at + CALM))
            }
            Some(_) => None,
        };
        // What is due already stays so; what is as it was written again is not due any more.
        self.due = match (self.due, due) {
            (Some(already), Some(_)) => Some(already),
            (_, due) => due,
        };
        self.wanted = Some(said);
    }

    fn on_node(&mut self, node: &Node, is_new: bool, now: Instant) {
        if is_new {
            self.is_others = false;
        }
        self.adopt(node);
        if let (None, Some((_, at))) = (node.condition(&self.kind), &self.written) {
            let due = if is_new { now } else { now.max(*at + AGAIN) };
            self.due = Some(self.due.map_or(due, |already| already.min(due)));
        }
    }

    /// What an earlier run of ours wrote: the status may have been what it is for long.
    fn adopt(&mut self, node: &Node) {
        if self.written.is_none()
            && let Some(listed) = node.condition(&self.kind)
            && let (Some((status, since)), Some(was)) =
                (&mut self.since, listed.last_transition_time)
            && listed.status == *status
        {
            *since = was.min(*since);
        }
    }

    /// When it is to be written: for a change, or as a heartbeat.
    fn due(&self, confirmable_until: Option<Instant>) -> Option<Instant> {
        if self.is_others || self.wanted.is_none() {
            return None;
        }
        let heartbeat = self
            .beat
            .filter(|at| confirmable_until.is_some_and(|until| *at <= until));
        [self.due, heartbeat].into_iter().flatten().min()
    }

    fn entry(&self, now: WallTime) -> Option<Entry> {
        let (_, since) = self.since?;
        Some(Entry {
            kind: self.kind.clone(),
            said: self.wanted.clone()?,
            heartbeat: now,
            transition: since.min(now),
        })
    }

    fn written(&mut self, entry: &Entry, first_beat: Duration, now: Instant) {
        let is_still_so = |wanted: &Condition| !wanted.differs(&entry.said);
        if self.wanted.as_ref().is_some_and(is_still_so) {
            self.due = None;
        }
        self.written = Some((entry.said.clone(), now));
        self.beat = match self.beat {
            None => Some(now + first_beat),
            Some(beat) if now >= beat => Some(now + HEARTBEAT),
            later => later,
        };
    }
}

#[cfg(test)]
mod tests;
