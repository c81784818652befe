//! When a failed write is retried: later each time, and at random, so that nodes do not retry
//! together.

use std::time::Duration;

use fastrand::Rng;
use pleg::model::backoff;
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// The longest `Retry-After` that is obeyed: a longer one is a mistake of the server.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// The number of failures in succession, and the time of the next retry.
#[derive(Debug)]
pub(crate) struct Backoff {
    failures: u32,
    pauses: backoff::Backoff,
    until: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            failures: 0,
            pauses: backoff::Backoff::new(FIRST_PAUSE, 2, MAX_PAUSE),
            until: None,
        }
    }
}

impl Backoff {
    /// Forgets earlier failures, because the write succeeded.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Sets the time of the next retry, because the write failed: after twice the last interval,
    /// half of which is random, and not before the server allows it (`at_least`).
    pub(crate) fn failed(&mut self, at_least: Duration, now: Instant, rng: &mut Rng) {
        self.failures = self.failures.saturating_add(1);
        let pause = self.pauses.next().mul_f64(0.5 + rng.f64() / 2.0);
        // Clients that received the same `Retry-After` must not return at the same time.
        let at_least = at_least.min(MAX_RETRY_AFTER);
        let pause = pause.max(at_least.mul_f64(1.0 + rng.f64() / 2.0));
        self.until = Some(now + pause);
    }

    /// The number of failures in succession.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// The time of the next retry.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_five_minutes_and_are_never_shorter_than_retry_after() {
        let (mut backoff, mut rng) = (Backoff::default(), Rng::with_seed(7));
        let now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..40 {
            backoff.failed(Duration::ZERO, now, &mut rng);
            pauses.push(backoff.until().unwrap() - now);
        }
        assert!(pauses[0] >= FIRST_PAUSE / 2 && pauses[0] <= FIRST_PAUSE);
        assert!(pauses.iter().all(|pause| *pause <= MAX_PAUSE));
        assert!(pauses[39] >= MAX_PAUSE / 2);
        for retry_after in [200, 900] {
            let retry_after = Duration::from_secs(retry_after);
            backoff.failed(retry_after, now, &mut rng);
            assert!(backoff.until().unwrap() - now >= retry_after);
        }
        backoff.succeeded();
        assert_eq!(backoff.until(), None);
    }
}
