//! How long to wait before something is tried again.
//!
//! ```text
//!   a container:  exits, restarts at once, exits, 10 s, exits, 20 s, ... 5 min
//!   an image:     fails, 10 s, fails, 20 s, ... 5 min
//! ```
//!
//! A wait is counted from an *event* (a container's exit, a failure). The first event is followed
//! by no wait unless it was [noted](Backoff::note) before: a kubelet restarts a container at once
//! and notes the restart, but notes the failure of a pull before it waits.
//!
//! ```
//! use std::time::Duration;
//!
//! use static_pods::backoff::{Backoff, Policy};
//! use tokio::time::Instant;
//!
//! let mut crashes = Backoff::new(Policy::CRASH_LOOP);
//! let exit = Instant::now();
//! assert_eq!(crashes.delay(exit), Duration::ZERO);
//! crashes.note(exit, exit);
//! assert_eq!(crashes.delay(exit + Duration::from_secs(1)), Duration::from_secs(10));
//! ```

use std::time::Duration;

use pleg::model::backoff;
use tokio::time::Instant;

/// How the waits grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The first wait. Each one after it is twice as long.
    pub initial: Duration,
    /// The longest wait.
    pub max: Duration,
    /// After this long without an event the first wait is the next one.
    pub reset_after: Duration,
}

impl Policy {
    /// Between the exit of a container and its restart, as in a kubelet.
    pub const CRASH_LOOP: Self = Self {
        initial: Duration::from_secs(10),
        max: Duration::from_secs(300),
        reset_after: Duration::from_secs(600),
    };
    /// Between two attempts to pull an image, as in a kubelet.
    pub const IMAGE_PULL: Self = Self::CRASH_LOOP;
    /// Between two calls that the runtime refused. A kubelet tries again every 10 s; a runtime
    /// that is only starting is tried sooner here, and one that keeps refusing less often.
    pub const ERRORS: Self = Self {
        initial: Duration::from_secs(1),
        max: Duration::from_secs(60),
        reset_after: Duration::from_secs(120),
    };
}

/// The waits of one thing that is tried again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    policy: Policy,
    waits: backoff::Backoff,
    last: Option<Noted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Noted {
    at: Instant,
    delay: Duration,
}

impl Backoff {
    /// Nothing has happened yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            waits: backoff::Backoff::new(policy.initial, 2, policy.max),
            last: None,
        }
    }

    /// The wait after an event at `event`.
    pub fn delay(&self, event: Instant) -> Duration {
        self.recent(event)
            .map_or(Duration::ZERO, |noted| noted.delay)
    }

    /// When the wait after an event at `event` is over.
    pub fn until(&self, event: Instant) -> Instant {
        event + self.delay(event)
    }

    /// Notes the event at `event`, and that it was answered `now`: the wait after the next one is
    /// twice as long.
    pub fn note(&mut self, event: Instant, now: Instant) {
        if self.recent(event).is_none() {
            self.waits.reset();
        }
        let delay = self.waits.next();
        self.last = Some(Noted { at: now, delay });
    }

    /// It succeeded: the next wait is the first one.
    pub fn reset(&mut self) {
        self.waits.reset();
        self.last = None;
    }

    fn recent(&self, event: Instant) -> Option<&Noted> {
        let is_recent =
            |noted: &&Noted| event.saturating_duration_since(noted.at) <= self.policy.reset_after;
        self.last.as_ref().filter(is_recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Restarts a container that exits at once, and gives the waits in seconds.
    fn waits(count: usize) -> Vec<u64> {
        let mut crashes = Backoff::new(Policy::CRASH_LOOP);
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..count {
            let exit = now;
            now = crashes.until(exit);
            waits.push((now - exit).as_secs());
            crashes.note(exit, now);
        }
        waits
    }

    #[test]
    fn the_first_restart_is_immediate_and_the_others_double_up_to_five_minutes() {
        assert_eq!(waits(9), [0, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn a_container_that_ran_for_more_than_ten_minutes_restarts_immediately() {
        let mut crashes = Backoff::new(Policy::CRASH_LOOP);
        let start = Instant::now();
        crashes.note(start, start);
        crashes.note(start, start);
        assert_eq!(crashes.delay(start + 600 * SECOND), 20 * SECOND);
        let exit = start + 601 * SECOND;
        assert_eq!(crashes.delay(exit), Duration::ZERO);
        crashes.note(exit, exit);
        assert_eq!(crashes.delay(exit + SECOND), 10 * SECOND);
    }

    #[test]
    fn a_failure_that_is_noted_first_is_followed_by_the_initial_wait() {
        let mut pulls = Backoff::new(Policy::IMAGE_PULL);
        let failure = Instant::now();
        pulls.note(failure, failure);
        assert_eq!(pulls.until(failure), failure + 10 * SECOND);
        pulls.reset();
        assert_eq!(pulls.until(failure), failure);
    }
}
