//! Something that failed, and when it may be tried again.

use std::sync::Arc;

use tokio::time::Instant;

use crate::backoff::{Backoff, Policy};

/// Failures of one thing.
#[derive(Clone, Debug)]
pub(super) struct Retry {
    backoff: Backoff,
    failure: Option<Failure>,
}

/// The last failure, and when the next attempt may be made.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) until: Instant,
    pub(super) message: Arc<str>,
}

impl Retry {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            backoff: Backoff::new(policy),
            failure: None,
        }
    }

    pub(super) fn failed(&mut self, message: Arc<str>, now: Instant) {
        self.backoff.note(now, now);
        self.failure = Some(Failure {
            until: self.backoff.until(now),
            message,
        });
    }

    pub(super) fn succeeded(&mut self) {
        self.backoff.reset();
        self.failure = None;
    }

    /// The failure after which it must not be tried yet.
    pub(super) fn holds(&self, now: Instant) -> Option<&Failure> {
        self.failure.as_ref().filter(|failure| now < failure.until)
    }

    /// The last failure.
    pub(super) fn message(&self) -> Option<&Arc<str>> {
        self.failure.as_ref().map(|failure| &failure.message)
    }
}
