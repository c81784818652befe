//! Looks overlap: a list that was held up may come after a sweep that was begun later. So
//! each says when it was begun and when it ended, and **an older look never undoes a newer
//! one**; of two that overlap neither is known to be newer, and the first one stands.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::event::Source;

/// A look at the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When it was begun: what happened before is in it.
    pub begun: Instant,
    /// When its answer was there: what happened after is not.
    pub ended: Instant,
    /// What made us look.
    pub source: Source,
}

/// How fresh a part of a listing is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freshness {
    /// When the last look at the whole part ended: one at a single id must be begun later. `None`
    /// if there was none: of ids that nothing was said of, no answer is too old, in whatever order
    /// they come.
    pub(super) whole: Option<Instant>,
    /// A list must be begun later: lists come one after the other, so the beginning of the
    /// last one counts, but the end of a look at a single id.
    pub(super) any: Instant,
    /// When the last list was begun; `None` if none has come yet.
    pub(super) list: Option<Instant>,
}

impl Freshness {
    /// As fresh as a list.
    pub(super) fn of(list: Interval) -> Self {
        Self {
            whole: Some(list.ended),
            any: list.begun,
            list: Some(list.begun),
        }
    }

    /// As fresh as what first spoke of the pod, a hint or a look at a part of it.
    pub(super) fn hinted(at: Instant) -> Self {
        Self {
            whole: None,
            any: at,
            list: None,
        }
    }

    /// When the last list was begun.
    pub(super) fn listed(&self) -> Option<Instant> {
        self.list
    }

    /// Whether the last list was begun after `time`.
    pub(super) fn is_listed_after(&self, time: Instant) -> bool {
        self.list > Some(time)
    }

    /// Whether a list says something newer.
    pub(super) fn admits_list(&self, list: Interval) -> bool {
        list.begun >= self.any
    }

    /// Whether a look at a single id says something newer.
    pub(super) fn admits_one(&self, interval: Interval) -> bool {
        self.whole <= Some(interval.begun)
    }

    /// Whether a look at all that is known says something newer.
    pub(super) fn admits_all(&self, interval: Interval) -> bool {
        self.admits_one(interval) && after(interval.begun) >= self.any
    }

    /// A look at a single id was taken in.
    pub(super) fn one(&mut self, interval: Interval) {
        self.any = self.any.max(after(interval.ended));
    }

    /// A look at all that is known was taken in.
    pub(super) fn all(&mut self, interval: Interval) {
        self.whole = Some(interval.ended);
        self.any = after(interval.ended);
    }

    /// A list was taken in that said nothing new.
    pub(super) fn confirmed(&mut self, list: Interval) {
        self.whole = self.whole.max(Some(list.ended));
        self.any = self.any.max(list.begun);
        self.list = self.list.max(Some(list.begun));
    }
}

/// A list that was begun as a look ended may have been answered before it.
fn after(ended: Instant) -> Instant {
    ended + Duration::from_nanos(1)
}
