//! Failures of an operation, and when it can be retried.

use std::sync::Arc;

use tokio::time::Instant;

use crate::backoff::{Backoff, Policy};

/// The failures of one operation.
#[derive(Clone, Debug)]
pub(super) struct Retry {
    backoff: Backoff,
    failure: Option<Failure>,
}

/// The last failure, and when the operation can be retried.
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

    /// The last failure, if the operation must not be retried yet.
    pub(super) fn blocked_by(&self, now: Instant) -> Option<&Failure> {
        self.failure.as_ref().filter(|failure| now < failure.until)
    }

    /// The last failure.
    pub(super) fn message(&self) -> Option<&Arc<str>> {
        self.failure.as_ref().map(|failure| &failure.message)
    }
}
