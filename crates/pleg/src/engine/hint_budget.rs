//! The limit on how many hints are followed. It bounds the load that events put on the runtime.

use super::limits::{HINT_BURST, HINTS_PER_SECOND};
use tokio::time::Instant;

/// How many inspections hints may still cause.
#[derive(Debug)]
pub(crate) struct HintBudget {
    left: f64,
    as_of: Instant,
}

impl HintBudget {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            left: HINT_BURST,
            as_of: now,
        }
    }

    /// Takes one inspection from the budget. Returns whether one was left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let passed = now.duration_since(self.as_of).as_secs_f64();
        self.left = (self.left + passed * HINTS_PER_SECOND).min(HINT_BURST);
        self.as_of = now;
        let is_left = self.left >= 1.0;
        if is_left {
            self.left -= 1.0;
        }
        is_left
    }
}
