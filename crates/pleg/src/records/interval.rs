//! When an observation was made, and which of two is newer.
//!
//! Observations overlap: a list that was delayed may arrive after a sweep that began later. Each
//! therefore carries its interval, from request to answer. **An older observation never overrides a
//! newer one.** If two overlap, neither is known to be newer, and the first one stands.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::event::Source;

/// The interval from a request to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When the request was sent: the answer includes what happened before.
    pub begun: Instant,
    /// When the answer arrived: it does not include what happened later.
    pub ended: Instant,
    /// What caused the request.
    pub source: Source,
}

/// How fresh one part of a pod is: its sandboxes, or its containers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freshness {
    /// When the last observation of the whole part ended. An observation of a single id must begin
    /// at this time or later. `None` if there was none: then no answer is too old.
    pub(super) whole: Option<Instant>,
    /// A list must begin at this time or later: the beginning of the last list, since lists do not
    /// overlap each other, or the end of a later observation of a single id.
    pub(super) any: Instant,
    /// When the last list was requested; `None` before the first one.
    pub(super) list: Option<Instant>,
}

impl Freshness {
    /// The freshness that a list gives.
    pub(super) fn of(list: Interval) -> Self {
        Self {
            whole: Some(list.ended),
            any: list.begun,
            list: Some(list.begun),
        }
    }

    /// The freshness of a pod that is known from a hint, or from one of its ids.
    pub(super) fn hinted(at: Instant) -> Self {
        Self {
            whole: None,
            any: at,
            list: None,
        }
    }

    /// Whether the last list was requested after `time`.
    pub(super) fn is_listed_after(&self, time: Instant) -> bool {
        self.list > Some(time)
    }

    /// Whether a list is newer than what is known.
    pub(super) fn admits_list(&self, list: Interval) -> bool {
        list.begun >= self.any
    }

    /// Whether an observation of a single id is newer than what is known.
    pub(super) fn admits_one(&self, interval: Interval) -> bool {
        self.whole <= Some(interval.begun)
    }

    /// Whether an observation of all known ids is newer than what is known.
    pub(super) fn admits_all(&self, interval: Interval) -> bool {
        self.admits_one(interval) && just_after(interval.begun) >= self.any
    }

    /// Notes that an observation of a single id was applied.
    pub(super) fn one(&mut self, interval: Interval) {
        self.any = self.any.max(just_after(interval.ended));
    }

    /// Notes that an observation of all known ids was applied.
    pub(super) fn all(&mut self, interval: Interval) {
        self.whole = Some(interval.ended);
        self.any = just_after(interval.ended);
    }
}

/// The next instant after `time`. Of a request and an answer at the same instant, either may be the first.
pub(crate) fn just_after(time: Instant) -> Instant {
    time + Duration::from_nanos(1)
}
