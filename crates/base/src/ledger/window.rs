//! How many calls may be outstanding: fewer while none is answered.

use tokio::time::Instant;

use super::limits::{MIN_WINDOW, RESERVED_CALLS, SUSPECT_AFTER};

/// The smallest size of the window, including the reserved places.
const MIN_SIZE: usize = MIN_WINDOW + RESERVED_CALLS;

/// The window of outstanding calls. Stuck calls are not in it.
#[derive(Clone, Debug)]
pub(super) struct Window {
    max: usize,
    size: usize,
    /// When it last grew or shrank, or the first call was sent.
    changed: Instant,
}

impl Window {
    /// An open window.
    pub(super) fn new(max: usize, now: Instant) -> Self {
        let max = max.max(MIN_SIZE);
        Self {
            max,
            size: max,
            changed: now,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Records that the first call is sent: the time before it does not count as time without
    /// answers.
    pub(super) fn note_first_call(&mut self, now: Instant) {
        self.changed = now;
    }

    /// Doubles the window, up to its maximum, because a call was answered.
    pub(super) fn grow(&mut self, now: Instant) {
        self.size = (self.size * 2).min(self.max);
        self.changed = now;
    }

    /// Halves the window for each second, up to `now`, in which calls were outstanding and none was
    /// answered.
    pub(super) fn shrink(&mut self, now: Instant) {
        while now >= self.changed + SUSPECT_AFTER {
            self.changed += SUSPECT_AFTER;
            self.size = (self.size / 2).max(MIN_SIZE);
        }
    }

    /// When the window shrinks if no call is answered before.
    pub(super) fn shrinks_at(&self) -> Option<Instant> {
        (self.size > MIN_SIZE).then(|| self.changed + SUSPECT_AFTER)
    }
}
