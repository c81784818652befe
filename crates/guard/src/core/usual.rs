//! How long calls of one kind usually take on this node. A duration that is slow on one node is usual on
//! another.

use std::collections::VecDeque;
use std::time::Duration;

/// How many durations are recorded.
const RECORDED_CALLS: usize = 16;

/// A call is overdue after this many times the second longest recorded duration. One stuck container
/// delays one call; a slow runtime delays many.
const OVERDUE_FACTOR: u32 = 2;

/// A longer duration is not recorded: a relist consists of two lists, and a kubelet whose relist takes
/// three minutes is NotReady.
const MAX_USUAL: Duration = Duration::from_secs(90);

/// The durations of the last calls, the newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Usual(VecDeque<Duration>);

impl Usual {
    /// Records how long an answered call took.
    pub(super) fn learn(&mut self, took: Duration) {
        if took <= MAX_USUAL {
            self.0.truncate(RECORDED_CALLS - 1);
            self.0.push_front(took);
        }
    }

    /// How long after its request a call is overdue: at least `least`.
    pub(super) fn overdue_after(&self, least: Duration) -> Duration {
        let mut longest = [Duration::ZERO; 2];
        for took in &self.0 {
            longest = match *took > longest[0] {
                true => [*took, longest[0]],
                false => [longest[0], longest[1].max(*took)],
            };
        }
        let [_, usual] = longest;
        (usual * OVERDUE_FACTOR).clamp(least, MAX_USUAL.max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_slow_calls_raise_the_limit_and_one_does_not() {
        let least = Duration::from_secs(2);
        let slow = Duration::from_secs(10);
        let mut usual = Usual::default();
        usual.learn(slow);
        assert_eq!(usual.overdue_after(least), least);
        usual.learn(slow);
        assert_eq!(usual.overdue_after(least), slow * 2);
        for _ in 0..RECORDED_CALLS - 1 {
            usual.learn(Duration::from_millis(5));
        }
        assert_eq!(usual.overdue_after(least), least);
        for _ in 0..2 {
            usual.learn(MAX_USUAL + Duration::from_secs(1));
        }
        assert_eq!(usual.overdue_after(least), least, "longer calls are faults");
    }
}
