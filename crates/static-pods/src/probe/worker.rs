//! One probe of one container.

use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use tokio::time::Instant;

use super::Finding;
use crate::spec::Probe;

/// A probe at work on the container with this id.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) id: Id,
    /// When the next check is due.
    due: Instant,
    /// A check is under way; no other is begun until it has ended.
    is_checking: bool,
    /// The last results, all alike.
    run: Option<Run>,
    /// What the container's state follows from.
    result: Option<Verdict>,
    /// It has failed for good: no check is made until there is another container.
    is_on_hold: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    is_success: bool,
    length: u32,
}

/// What a probe says of its container, once enough checks were alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Success,
    Failure(Arc<str>),
}

impl Worker {
    /// `started` is when the container was; `jitter` puts off the first check.
    pub(super) fn new(id: Id, probe: &Probe, started: Instant, jitter: Duration) -> Self {
        Self {
            id,
            due: started + probe.initial_delay + jitter,
            is_checking: false,
            run: None,
            result: None,
            is_on_hold: false,
        }
    }

    /// When the next check is to be begun, if it is.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_checking && !self.is_on_hold).then_some(self.due)
    }

    pub(super) fn begin(&mut self, probe: &Probe, now: Instant) {
        self.is_checking = true;
        self.due = now + probe.period;
    }

    /// Takes in what a check found; gives the verdict if it is a new one.
    pub(super) fn found(
        &mut self,
        probe: &Probe,
        finding: Finding,
        holds_on_failure: bool,
    ) -> Option<Verdict> {
        self.is_checking = false;
        let (verdict, threshold) = match finding {
            Finding::Success => (Verdict::Success, probe.success_threshold),
            Finding::Failure(message) => (Verdict::Failure(message), probe.failure_threshold),
            Finding::Unknown(_) => return None,
        };
        let is_success = verdict == Verdict::Success;
        let run = self.run.take().filter(|run| run.is_success == is_success);
        let length = run.map_or(1, |run| run.length.saturating_add(1));
        self.run = Some(Run { is_success, length });
        if length < threshold {
            return None;
        }
        self.is_on_hold = holds_on_failure && !is_success;
        let was_success = self.result.as_ref().map(|it| *it == Verdict::Success);
        self.result = Some(verdict.clone());
        (was_success != Some(is_success)).then_some(verdict)
    }

    /// No more checks: it has done what it is for.
    pub(super) fn hold(&mut self) {
        self.is_on_hold = true;
    }
}
