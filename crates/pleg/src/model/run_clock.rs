//! The run clock: the time in which this process was running. It stands still while the process is
//! stopped, frozen, starved, or swapped out, so that no call is blamed for that time.
//!
//! ```text
//!   monotonic clock   0 ---- 10 [ a pause of 60 s ] 70 ---- 80
//!   run clock         0 ---- 10                     10 ---- 20
//! ```
//!
//! The engine uses only this clock. Times are converted at its boundary.
//!
//! ```
//! use std::time::Duration;
//!
//! use pleg::model::run_clock::RunClock;
//! use tokio::time::Instant;
//!
//! let clock = RunClock::default();
//! let (start, minute) = (Instant::now(), Duration::from_secs(60));
//! clock.paused(minute, start + minute);
//! assert_eq!(clock.at(start + minute * 2), start + minute);
//! assert_eq!(clock.monotonic(start + minute), start + minute * 2);
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

/// How many pauses are remembered individually. Times before the oldest of them are no longer in use.
const REMEMBERED: usize = 64;

/// A clock. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct RunClock(Arc<RwLock<Pauses>>);

#[derive(Debug, Default)]
struct Pauses {
    last: VecDeque<Pause>,
    /// The total of the pauses that are no longer remembered.
    before: Duration,
}

/// A pause, in times of the monotonic clock.
#[derive(Debug)]
struct Pause {
    took: Duration,
    end: Instant,
}

impl RunClock {
    /// What the clock shows now.
    pub fn now(&self) -> Instant {
        self.at(Instant::now())
    }

    /// What the clock showed at `time` of the monotonic clock; for a time in a pause, what it
    /// showed when the pause began.
    pub fn at(&self, time: Instant) -> Instant {
        self.read(|pauses| {
            let mut paused = pauses.before;
            for pause in &pauses.last {
                let left = pause.end.saturating_duration_since(time);
                paused += pause.took.saturating_sub(left);
            }
            time.checked_sub(paused).unwrap_or(time)
        })
    }

    /// The time on the monotonic clock at which the run clock first showed `time`.
    pub fn monotonic(&self, time: Instant) -> Instant {
        self.read(|pauses| {
            let mut monotonic = time + pauses.before;
            for pause in &pauses.last {
                if monotonic + pause.took > pause.end {
                    monotonic += pause.took;
                }
            }
            monotonic
        })
    }

    /// Records that the process was paused for `took` until `end`.
    pub fn paused(&self, took: Duration, end: Instant) {
        let mut pauses = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if pauses.last.len() == REMEMBERED
            && let Some(oldest) = pauses.last.pop_front()
        {
            pauses.before += oldest.took;
        }
        pauses.last.push_back(Pause { took, end });
    }

    fn read<T>(&self, read: impl FnOnce(&Pauses) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_clock_stands_still_during_a_pause() {
        let start = Instant::now();
        let at = |time| start + seconds(time);
        let clock = RunClock::default();
        clock.paused(seconds(10), at(20));
        clock.paused(seconds(5), at(30));
        for (monotonic, run) in [
            (5, 5),
            (10, 10),
            (15, 10),
            (20, 10),
            (24, 14),
            (27, 15),
            (32, 17),
        ] {
            assert_eq!(clock.at(at(monotonic)), at(run), "{monotonic}");
        }
        for (run, monotonic) in [(5, 5), (10, 10), (11, 21), (15, 25), (16, 31), (17, 32)] {
            assert_eq!(clock.monotonic(at(run)), at(monotonic), "{run}");
        }
    }

    #[test]
    fn pauses_that_are_no_longer_remembered_still_count() {
        let start = Instant::now();
        let clock = RunClock::default();
        for number in 1..=200 {
            clock.paused(seconds(1), start + seconds(number * 2));
        }
        assert_eq!(clock.at(start + seconds(500)), start + seconds(300));
        assert_eq!(clock.monotonic(start + seconds(300)), start + seconds(500));
    }
}
