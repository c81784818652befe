//! Pauses between retries that grow by a factor up to a maximum. Has no clock: the caller decides when a
//! pause begins.
//!
//! ```
//! use std::time::Duration;
//!
//! use pleg::model::backoff::Backoff;
//!
//! let second = Duration::from_secs(1);
//! let mut backoff = Backoff::new(second, 4, 10 * second);
//! assert_eq!(backoff.next(), second);
//! assert_eq!(backoff.next(), 4 * second);
//! assert_eq!(backoff.next(), 10 * second);
//! backoff.reset();
//! assert_eq!(backoff.next(), second);
//! ```

use std::time::Duration;

/// The pauses between the retries of one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    factor: u32,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses that begin with `first`, grow by `factor`, and are at most `longest`.
    pub const fn new(first: Duration, factor: u32, longest: Duration) -> Self {
        Self {
            first,
            factor,
            longest,
            next: first,
        }
    }

    /// The pause after one more failure.
    #[expect(
        clippy::should_implement_trait,
        reason = "pauses never end, and are not collected"
    )]
    pub fn next(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(self.factor);
        pause
    }

    /// Records a success: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}
