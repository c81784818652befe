//! When a list is overdue. What is slow on one node is usual on another, so the limit depends on
//! how long lists took on this node. Only lists that are in time count: **a stall does not raise
//! the limit for the next one.**

use std::collections::VecDeque;
use std::time::Duration;

use base::ledger::percentile_95;

use super::limits::{OVERDUE_AT_LATEST, OVERDUE_FACTOR, REMEMBERED_LISTS, SUSPECT_AFTER};

/// How long lists take on this node.
#[derive(Clone, Debug)]
pub(super) struct ListTimes {
    overdue: Duration,
    took: VecDeque<Duration>,
    usual: Duration,
}

impl ListTimes {
    /// `overdue` is the lower bound of the limit.
    pub(super) fn new(overdue: Duration) -> Self {
        Self {
            overdue,
            took: VecDeque::from([Duration::ZERO; REMEMBERED_LISTS]),
            usual: Duration::ZERO,
        }
    }

    /// Records how long a list took, unless that exceeded the lower bound of the limit.
    pub(super) fn learn(&mut self, took: Duration) {
        if took < self.overdue {
            self.took.pop_front();
            self.took.push_back(took);
            self.usual = percentile_95(&self.took);
        }
    }

    /// How long a list may take before it is overdue.
    pub(super) fn overdue(&self) -> Duration {
        let usual = self.usual * OVERDUE_FACTOR;
        usual.clamp(self.overdue, OVERDUE_AT_LATEST.max(self.overdue))
    }

    /// How long a list may take before it is suspect, while the other one is answered.
    pub(super) fn suspect(&self) -> Duration {
        let usual = self.usual * OVERDUE_FACTOR;
        usual.max(SUSPECT_AFTER).min(self.overdue())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lists: &[(u64, usize)]) -> ListTimes {
        let mut times = ListTimes::new(Duration::from_secs(2));
        for (millis, count) in lists {
            for _ in 0..*count {
                times.learn(Duration::from_millis(*millis));
            }
        }
        times
    }

    #[test]
    fn a_node_whose_lists_take_long_is_given_four_times_their_usual_time() {
        let overdue = |lists: &[(u64, usize)]| after(lists).overdue().as_millis();
        assert_eq!(overdue(&[]), 2000);
        assert_eq!(overdue(&[(700, 3)]), 2000, "a few are no measure");
        assert_eq!(overdue(&[(700, 4)]), 2800);
        assert_eq!(overdue(&[(700, 4), (10, 61)]), 2000);
    }

    #[test]
    fn a_stuck_list_is_overdue_within_four_seconds_whatever_was_usual() {
        for millis in [1_900, 2_000, 6_000, 200_000] {
            let times = after(&[(millis, 64)]);
            assert!(times.overdue() < Duration::from_secs(4), "{millis} ms");
        }
    }

    #[test]
    fn a_list_is_suspect_before_it_is_overdue() {
        assert_eq!(after(&[]).suspect(), Duration::from_secs(1));
        assert_eq!(after(&[(600, 64)]).suspect().as_millis(), 2400);
    }
}
