//! One of our conditions: what it should say, what was written, and when it is due again.

use std::time::Duration;

use pleg::model::wall_time::{Moment, WallTime};
use pleg::out::status_report::StatusReport;
use tokio::time::Instant;

use crate::condition::Condition;
use crate::node::Node;

/// What is written is confirmed so often, as node-problem-detector does.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(300);

/// Changes of the reason and the message alone are not written more often.
pub(crate) const CALM: Duration = Duration::from_secs(10);

/// Who takes away what we wrote is answered at most so often.
pub(crate) const AGAIN: Duration = Duration::from_secs(60);

/// What somebody else owns is tried again after so long.
const OTHERS: Duration = Duration::from_secs(3600);

/// The conditions that we write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OurCondition {
    /// Ours, under the name that is configured.
    PlegUnhealthy,
    /// One that node repairers know.
    ContainerRuntimeReady,
}

impl OurCondition {
    /// What it is to say by a report, if anything is known.
    pub(crate) fn said(self, report: &StatusReport) -> Option<Condition> {
        match self {
            Self::PlegUnhealthy => Condition::of(report),
            Self::ContainerRuntimeReady => Condition::of_runtime(report),
        }
    }

    /// The field manager that owns it: what one manager applies is all that it owns.
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
    pub(crate) said: Condition,
    pub(crate) heartbeat: WallTime,
    pub(crate) transition: WallTime,
}

/// A condition, as it should be and as it was written.
#[derive(Debug)]
pub(crate) struct Conditioned {
    kind: String,
    wanted: Option<Condition>,
    /// When the difference between the two is due.
    due: Option<Instant>,
    written: Option<(Condition, Instant)>,
    /// When it is confirmed next: nodes that are started together do not beat together.
    pub(crate) beat: Option<Instant>,
    /// Since when its status is what it is, as far as we know.
    since: Option<(&'static str, WallTime)>,
    /// A write has failed of which nobody knows whether it was done.
    is_uncertain: bool,
    /// When what the Node has in place of what we wrote is corrected: somebody has taken ours away,
    /// or an earlier write of ours was done after it.
    repair: Option<Instant>,
    /// It is somebody else's, until this time at least.
    others: Option<Instant>,
}

impl Conditioned {
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
            others: None,
        }
    }

    /// Its type, as the Node has it.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    pub(crate) fn want(&mut self, said: Condition, delay: Duration, now: Moment) {
        let status = said.status.as_str();
        if self.since.is_none_or(|(was, _)| was != status) {
            self.since = Some((status, now.wall));
        }
        let due = match &self.written {
            _ if self.is_uncertain => Some(self.due.unwrap_or(now.instant)),
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

    pub(crate) fn on_node(&mut self, node: &Node, is_new: bool, now: Instant) {
        // Whoever owned it has given it up.
        if is_new || self.others.is_some() && node.condition(&self.kind).is_none() {
            self.others = None;
        }
        self.adopt(node);
        let is_as_written = |(written, _): &(Condition, Instant)| {
            let listed = node.condition(&self.kind);
            listed.is_some_and(|listed| listed.says(written))
        };
        self.repair = match &self.written {
            Some(written) if !is_as_written(written) => {
                let (_, at) = written;
                let due = if is_new { now } else { now.max(*at + AGAIN) };
                Some(self.repair.map_or(due, |already| already.min(due)))
            }
            Some(_) | None => None,
        };
    }

    /// What an earlier run of ours wrote: the status may have been what it is for long.
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

    /// When it is to be written: for a change, or as a heartbeat.
    pub(crate) fn due(&self, confirmable_until: Option<Instant>) -> Option<Instant> {
        self.wanted.as_ref()?;
        if self.others.is_some() {
            return self.others;
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
            said: self.wanted.clone()?,
            heartbeat: now,
            transition: since.min(now),
        })
    }

    pub(crate) fn written(&mut self, entry: &Entry, first_beat: Duration, now: Instant) {
        self.is_uncertain = false;
        self.repair = None;
        self.others = None;
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

    /// Another manager owns it: two writers would fight. It may be given up without our seeing it.
    pub(crate) fn is_anothers(&mut self, now: Instant) {
        self.others = Some(now + OTHERS);
    }

    /// A write has failed; perhaps it was done all the same.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.is_uncertain = true;
        self.due.get_or_insert(now);
    }

    /// Whether it is there because of us.
    pub(crate) fn is_ours(&self) -> bool {
        self.written.is_some() && self.others.is_none()
    }
}
