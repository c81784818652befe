//! Decides whether the time of day can be trusted: a clock that is set to the next century for a
//! moment must not cause the recording to be removed because of its age.

use std::time::Duration;

use pleg::model::wall_time::WallTime;

/// A time on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// The time since the recorder was started, on the monotonic clock.
    pub(crate) elapsed: Duration,
    /// The time of day, which may be set at any time.
    pub(crate) wall: WallTime,
}

/// The smallest change of the difference between the two clocks that is a step of the time of day.
const MIN_STEP: Duration = Duration::from_secs(60);

/// How long the clock must have had no step to be trusted. A node that has just booted sets its
/// clock.
const TRUSTED_AFTER: Duration = Duration::from_secs(3600);

/// How long the clock has had no step.
#[derive(Debug)]
pub(super) struct Steadiness {
    since: Now,
    last: Now,
}

impl Steadiness {
    pub(super) fn new(now: Now) -> Self {
        Self {
            since: now,
            last: now,
        }
    }

    pub(super) fn observe(&mut self, now: Now) {
        let elapsed = now.elapsed.saturating_sub(self.last.elapsed);
        let forward = now.wall.since(self.last.wall);
        let back = self.last.wall.since(now.wall);
        if forward > elapsed + MIN_STEP || forward + MIN_STEP < elapsed || back > MIN_STEP {
            self.since = now;
        }
        self.last = now;
    }

    pub(super) fn is_steady(&self, now: Now) -> bool {
        now.elapsed >= self.since.elapsed + TRUSTED_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(elapsed: u64, wall: u64) -> Now {
        Now {
            elapsed: Duration::from_secs(elapsed),
            wall: WallTime::from_unix_nanos((1_800_000_000 + wall as i64) * 1_000_000_000).unwrap(),
        }
    }

    #[test]
    fn a_clock_is_trusted_an_hour_after_its_last_step() {
        let mut steadiness = Steadiness::new(now(0, 5000));
        assert!(!steadiness.is_steady(now(3599, 8599)));
        steadiness.observe(now(1000, 6010));
        assert!(steadiness.is_steady(now(3600, 8600)));
        for stepped in [100, 50_000] {
            steadiness.observe(now(2000, stepped));
            assert!(!steadiness.is_steady(now(3600, stepped)));
            assert!(steadiness.is_steady(now(5600, stepped)));
        }
    }
}
