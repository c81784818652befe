//! How long calls of one kind usually take on this node: what is slow on one is usual on another.

use std::collections::VecDeque;
use std::time::Duration;

/// How many calls are remembered, and how many times as long as the second slowest of them one may
/// take: one stuck container or one stall holds up one call, a slow runtime many.
const REMEMBERED: usize = 16;
const TIMES_USUAL: u32 = 2;

/// A call that takes longer than this is never usual: a relist consists of two lists, and a kubelet
/// whose relist takes three minutes is NotReady.
const LONGEST: Duration = Duration::from_secs(90);

/// The durations of the last calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Usual(VecDeque<Duration>);

impl Usual {
    /// Learns how long an answered call took.
    pub(super) fn learn(&mut self, took: Duration) {
        if took <= LONGEST {
            self.0.truncate(REMEMBERED - 1);
            self.0.push_front(took);
        }
    }

    /// After which time a call is overdue, at the earliest after `least`.
    pub(super) fn overdue_after(&self, least: Duration) -> Duration {
        let mut sorted: Vec<Duration> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        let usual = sorted.iter().nth_back(1).copied().unwrap_or_default();
        (usual * TIMES_USUAL).clamp(least, LONGEST.max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_call_is_not_usual_and_two_are_until_others_follow() {
        let least = Duration::from_secs(2);
        let slow = Duration::from_secs(10);
        let mut usual = Usual::default();
        usual.learn(slow);
        assert_eq!(usual.overdue_after(least), least);
        usual.learn(slow);
        assert_eq!(usual.overdue_after(least), slow * 2);
        for _ in 0..REMEMBERED - 1 {
            usual.learn(Duration::from_millis(5));
        }
        assert_eq!(usual.overdue_after(least), least);
        for _ in 0..2 {
            usual.learn(LONGEST + Duration::from_secs(1));
        }
        assert_eq!(usual.overdue_after(least), least, "that was a fault");
    }
}
