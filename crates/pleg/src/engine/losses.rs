//! Consecutive losses of the connection, each soon after the same call was sent.
//!
//! A runtime may crash on a list, on `Version`, on the event stream or on the status of one
//! container. One loss may be chance. After two, the call is sent again only after a pause, and
//! each further pause is four times as long.

use std::time::Duration;

use super::limits::FIRST_WITHHELD_PAUSE;
use crate::model::backoff::Backoff;

/// Consecutive losses, and the pause that follows from them.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    count: u32,
    backoff: Backoff,
    pause: Duration,
}

impl Losses {
    /// No losses. No pause will be longer than `longest`.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            count: 0,
            backoff: Backoff::new(FIRST_WITHHELD_PAUSE, 4, longest),
            pause: Duration::ZERO,
        }
    }

    pub(super) fn count(&mut self) {
        self.count += 1;
        if self.is_no_chance() {
            self.pause = self.backoff.next();
        }
    }

    /// The call was sent, and the connection was not lost.
    pub(super) fn forget(&mut self) {
        self.count = 0;
        self.backoff.reset();
        self.pause = Duration::ZERO;
    }

    pub(super) fn is_none(&self) -> bool {
        self.count == 0
    }

    pub(super) fn is_no_chance(&self) -> bool {
        self.count >= 2
    }

    /// How long after the last loss the call is not sent.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }
}
