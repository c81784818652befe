//! How long to wait before a retry.
//!
//! ```text
//!   a container:  exits, restarts at once, exits, 10 s, exits, 20 s, ... 5 min
//!   an image:     fails, 10 s, fails, 20 s, ... 5 min
//! ```
//!
//! A delay is counted from an *event*: a container's exit, or a failure. An event has no delay if
//! none has been [noted](Backoff::note) yet. As in the kubelet, an exit is noted when the container
//! is restarted, so the first restart is immediate. A failed pull is noted at once, so the first
//! retry is delayed.

use std::time::Duration;

use pleg::model::backoff;
use tokio::time::Instant;

/// How the delays grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The first delay. Each further delay is twice the previous one.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
    /// The time without an event after which the delays start again at `initial`.
    pub reset_after: Duration,
}

impl Policy {
    /// The delays between the exit of a container and its restart, as in the kubelet.
    pub const CRASH_LOOP: Self = Self {
        initial: Duration::from_secs(10),
        max: Duration::from_secs(300),
        reset_after: Duration::from_secs(600),
    };
    /// The delays between attempts to pull an image, as in the kubelet.
    pub const IMAGE_PULL: Self = Self::CRASH_LOOP;
    /// The delays before an operation that failed is retried. A kubelet retries every 10 s. Here a
    /// runtime that has just started is called again sooner, and one that keeps refusing is called
    /// less often.
    pub const ERRORS: Self = Self {
        initial: Duration::from_secs(1),
        max: Duration::from_secs(60),
        reset_after: Duration::from_secs(120),
    };
}

/// The delays of one operation that is retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    policy: Policy,
    delays: backoff::Backoff,
    /// When the last event was noted, and the delay after the next one.
    last: Option<(Instant, Duration)>,
}

impl Backoff {
    /// A back-off without events.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            delays: backoff::Backoff::new(policy.initial, 2, policy.max),
            last: None,
        }
    }

    /// The delay after an event at `event`.
    pub fn delay(&self, event: Instant) -> Duration {
        self.recent(event).unwrap_or_default()
    }

    /// When the delay after an event at `event` is over.
    pub fn until(&self, event: Instant) -> Instant {
        event + self.delay(event)
    }

    /// Notes the event at `event` and its retry at `now`. The next delay is twice as long.
    pub fn note(&mut self, event: Instant, now: Instant) {
        if self.recent(event).is_none() {
            self.delays.reset();
        }
        self.last = Some((now, self.delays.next()));
    }

    /// Starts again at the first delay, after a success.
    pub fn reset(&mut self) {
        self.delays.reset();
        self.last = None;
    }

    /// The delay that was noted last, unless `event` is more than `reset_after` later.
    fn recent(&self, event: Instant) -> Option<Duration> {
        let (noted, delay) = self.last?;
        let is_recent = event.saturating_duration_since(noted) <= self.policy.reset_after;
        is_recent.then_some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The delays in seconds of a container that exits at once, `count` times.
    fn delays(count: usize) -> Vec<u64> {
        let mut crashes = Backoff::new(Policy::CRASH_LOOP);
        let mut now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..count {
            let exit = now;
            now = crashes.until(exit);
            delays.push((now - exit).as_secs());
            crashes.note(exit, now);
        }
        delays
    }

    #[test]
    fn the_first_restart_is_immediate_and_the_others_double_up_to_five_minutes() {
        assert_eq!(delays(9), [0, 10, 20, 40, 80, 160, 300, 300, 300]);
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
    fn a_failure_that_is_noted_first_has_the_initial_delay() {
        let mut pulls = Backoff::new(Policy::IMAGE_PULL);
        let failure = Instant::now();
        pulls.note(failure, failure);
        assert_eq!(pulls.until(failure), failure + 10 * SECOND);
        pulls.reset();
        assert_eq!(pulls.until(failure), failure);
    }
}
