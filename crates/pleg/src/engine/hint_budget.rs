//! How many hints are followed. It bounds the load that events put on the runtime.

use super::limits::{HINT_BURST, HINTS_PER_SECOND};
use tokio::time::Instant;

/// How many status calls hints may still cause.
#[derive(Debug)]
pub(crate) struct HintBudget {
    left: f64,
    as_of: Instant,
}

impl HintBudget {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            left: f64::from(HINT_BURST),
            as_of: now,
        }
    }

    /// Takes `cost` calls from the budget. Returns whether that many were left.
    pub(crate) fn take(&mut self, cost: u32, now: Instant) -> bool {
        let passed = now.duration_since(self.as_of).as_secs_f64();
        self.left = (self.left + passed * f64::from(HINTS_PER_SECOND)).min(f64::from(HINT_BURST));
        self.as_of = now;
        let is_enough = self.left >= f64::from(cost);
        if is_enough {
            self.spend(cost);
        }
        is_enough
    }

    /// Takes `cost` calls from the budget, even if that makes it negative.
    pub(crate) fn spend(&mut self, cost: u32) {
        self.left -= f64::from(cost);
    }
}
