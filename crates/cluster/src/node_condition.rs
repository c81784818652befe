//! One of our conditions: its wanted content, its written content, and when the next write is due.

use std::time::Duration;

use pleg::model::wall_time::{Moment, WallTime};
use pleg::out::status_report::StatusReport;
use tokio::time::Instant;

use crate::api::Failure;
use crate::condition::Condition;
use crate::node::Node;

/// The interval at which a condition is confirmed, as in node-problem-detector.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(300);

/// The minimum interval between writes that change only the reason or the message.
pub(crate) const MIN_TEXT_WRITE_INTERVAL: Duration = Duration::from_secs(10);

/// If another client removes our condition, it is written again at most this often.
pub(crate) const MIN_REPAIR_INTERVAL: Duration = Duration::from_secs(60);

/// A condition that another manager owns is retried after this time.
const FOREIGN_OWNER_RETRY: Duration = Duration::from_secs(3600);

/// The conditions that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OurCondition {
    /// The condition of pleg, under the configured name.
    PlegUnhealthy,
    /// A condition that node repair tools know.
    ContainerRuntimeReady,
}

impl OurCondition {
    /// The content of the condition for a report; `None` if nothing is known.
    pub(crate) fn content(self, report: &StatusReport) -> Option<Condition> {
        match self {
            Self::PlegUnhealthy => Condition::of(report),
            Self::ContainerRuntimeReady => Condition::of_runtime(report),
        }
    }

    /// The field manager that owns the condition. Each condition has its own, because a manager owns
    /// only what its last apply contained.
    pub(crate) fn manager(self) -> &'static str {
        match self {
            Self::PlegUnhealthy => "pleg",
            Self::ContainerRuntimeReady => "pleg-container-runtime",
        }
    }
}

/// An entry in the Node's conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) content: Condition,
    pub(crate) heartbeat: WallTime,
    pub(crate) transition: WallTime,
}

/// A condition: its wanted and its written content.
#[derive(Debug)]
pub(crate) struct NodeCondition {
    kind: String,
    wanted: Option<Condition>,
    /// When a difference between the wanted and the written content must be written.
    due: Option<Instant>,
    written: Option<(Condition, Instant)>,
    /// When the condition is confirmed next. Agents that were started together do not confirm
    /// together.
    pub(crate) beat: Option<Instant>,
    /// The wanted status, and when the condition changed to it.
    since: Option<(&'static str, WallTime)>,
    /// Whether a failed write may have been performed nevertheless.
    is_uncertain: bool,
    /// When a difference between the Node and our last write is corrected: another client has
    /// removed the condition, or the server has performed an earlier write after it.
    repair: Option<Instant>,
    /// If another manager owns the condition: when a write is tried again.
    foreign_until: Option<Instant>,
}

impl NodeCondition {
    pub(crate) fn new(kind: String) -> Self {
        Self {
            kind,
            wanted: None,
            due: None,
            written: None,
            beat: None,
            since: None,
            is_uncertain: false,
            repair: None,
            foreign_until: None,
        }
    }

    /// The condition's type on the Node.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    pub(crate) fn want(&mut self, content: Condition, delay: Duration, now: Moment) {
        let status = content.status.as_str();
        if self.since.is_none_or(|(was, _)| was != status) {
            self.since = Some((status, now.wall));
        }
        let due = match &self.written {
            _ if self.is_uncertain => Some(self.due.unwrap_or(now.instant)),
            None => Some(now.instant + delay),
            Some((written, _)) if written.status != content.status => Some(now.instant + delay),
            Some((written, at)) if written.differs(&content) => {
                Some((now.instant + delay).max(*at + MIN_TEXT_WRITE_INTERVAL))
            }
            Some(_) => None,
        };
        // A due write remains due. If the content is again the written one, no write is due.
        self.due = match (self.due, due) {
            (Some(already), Some(_)) => Some(already),
            (_, due) => due,
        };
        self.wanted = Some(content);
    }

    pub(crate) fn on_node(&mut self, node: &Node, is_new: bool, now: Instant) {
        // The other manager has released the condition.
        if is_new || self.foreign_until.is_some() && node.condition(&self.kind).is_none() {
            self.foreign_until = None;
        }
        self.adopt(node);
        let is_as_written = |(written, _): &(Condition, Instant)| {
            let listed = node.condition(&self.kind);
            listed.is_some_and(|listed| listed.has_content(written))
        };
        self.repair = match &self.written {
            Some(written) if !is_as_written(written) => {
                let (_, at) = written;
                let due = match is_new {
                    true => now,
                    false => now.max(*at + MIN_REPAIR_INTERVAL),
                };
                Some(self.repair.map_or(due, |already| already.min(due)))
            }
            Some(_) | None => None,
        };
    }

    /// Adopts the transition time that an earlier run wrote: the condition may have had its status
    /// for a long time.
    pub(crate) fn adopt(&mut self, node: &Node) {
        if self.written.is_none()
            && let Some(listed) = node.condition(&self.kind)
            && let (Some((status, since)), Some(was)) =
                (&mut self.since, listed.last_transition_time)
            && listed.status == *status
        {
            *since = was.min(*since);
        }
    }

    /// When the condition is to be written next, because of a change or as a heartbeat.
    pub(crate) fn due(&self, confirmable_until: Option<Instant>) -> Option<Instant> {
        self.wanted.as_ref()?;
        if self.foreign_until.is_some() {
            return self.foreign_until;
        }
        let heartbeat = self
            .beat
            .filter(|at| confirmable_until.is_some_and(|until| *at <= until));
        let all = [self.due, self.repair, heartbeat];
        all.into_iter().flatten().min()
    }

    pub(crate) fn entry(&self, now: WallTime) -> Option<Entry> {
        let (_, since) = self.since?;
        Some(Entry {
            kind: self.kind.clone(),
            content: self.wanted.clone()?,
            heartbeat: now,
            transition: since.min(now),
        })
    }

    pub(crate) fn written(&mut self, entry: &Entry, first_beat: Duration, now: Instant) {
        self.is_uncertain = false;
        self.repair = None;
        self.foreign_until = None;
        let is_current = |wanted: &Condition| !wanted.differs(&entry.content);
        if self.wanted.as_ref().is_some_and(is_current) {
            self.due = None;
        }
        self.written = Some((entry.content.clone(), now));
        self.beat = match self.beat {
            None => Some(now + first_beat),
            Some(beat) if now >= beat => Some(now + HEARTBEAT),
            later => later,
        };
    }

    /// Records that a write failed for this reason.
    pub(crate) fn failed_with(&mut self, failure: &Failure, now: Instant) {
        match failure {
            // Another manager owns the condition: two writers would overwrite each other. It is tried
            // again later, since the watch may not show the release.
            Failure::Conflict(_) => self.foreign_until = Some(now + FOREIGN_OWNER_RETRY),
            // The write was refused, so it was not performed.
            Failure::Forbidden(..) | Failure::Unauthorized | Failure::Invalid(..) => {}
            _ => self.failed(now),
        }
    }

    /// Records that it is unknown whether a write was performed.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.is_uncertain = true;
        self.due.get_or_insert(now);
    }

    /// Whether the condition exists because we wrote it.
    pub(crate) fn is_ours(&self) -> bool {
        self.written.is_some() && self.foreign_until.is_none()
    }
}
