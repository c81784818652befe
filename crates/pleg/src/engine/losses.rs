//! Consecutive losses of the connection, each soon after the same call was sent.
//!
//! A runtime may crash on a list, on `Version`, on the event stream or on the status of one
//! container, and does so before the call is suspect. One loss may be a coincidence. After two, the call is
//! sent again only after a pause, and each further pause is four times as long.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::SUSPECT_AFTER;
use crate::model::backoff::Backoff;

/// Consecutive losses, and the time until which the call is withheld because of them.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    count: u32,
    backoff: Backoff,
    /// When the pause after the last loss ends.
    until: Option<Instant>,
}

impl Losses {
    /// Begins with no losses. No pause will be longer than `longest`.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            count: 0,
            backoff: Backoff::new(SUSPECT_AFTER, 4, longest),
            until: None,
        }
    }

    /// Counts a loss of the connection at `now`.
    pub(super) fn count(&mut self, now: Instant) {
        self.count += 1;
        self.until = Some(match self.are_repeated() {
            true => now + self.backoff.next(),
            false => now,
        });
    }

    /// Forgets the losses: the call was sent, and the connection was not lost.
    pub(super) fn forget(&mut self) {
        self.count = 0;
        self.backoff.reset();
        self.until = None;
    }

    pub(super) fn is_none(&self) -> bool {
        self.count == 0
    }

    pub(super) fn are_repeated(&self) -> bool {
        self.count >= 2
    }

    /// When the pause after the last loss ends; `None` without losses.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// When a call that is due at `time` may be sent.
    pub(super) fn postponed(&self, time: Instant) -> Instant {
        self.until.map_or(time, |until| until.max(time))
    }
}
