//! The pauses before an operation that failed is retried, and before a container or sandbox that ended is
//! replaced.

use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use tokio::time::Instant;

use crate::backoff::{Backoff, Policy};

/// The failures of one operation.
#[derive(Clone, Debug)]
pub(super) struct Retry {
    backoff: Backoff,
    failure: Option<Failure>,
}

/// The last failure of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When the operation may be retried.
    pub until: Instant,
    /// The message of the runtime or of this host.
    pub message: Arc<str>,
}

/// The back-off between replacements of the containers with one name, or of the sandboxes of a pod.
#[derive(Clone, Debug)]
pub(super) struct Restarts {
    backoff: Backoff,
    /// The container or sandbox that was replaced last. Its pause is over.
    replaced: Option<Id>,
}

/// The pause before a container or sandbox that ended is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Its total length.
    pub length: Duration,
    /// When it is over.
    pub until: Instant,
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

    /// The message of the last failure.
    pub(super) fn message(&self) -> Option<&Arc<str>> {
        self.failure.as_ref().map(|failure| &failure.message)
    }
}

impl Restarts {
    pub(super) fn new() -> Self {
        Self {
            backoff: Backoff::new(Policy::CRASH_LOOP),
            replaced: None,
        }
    }

    /// The pause before `id`, which ended at `ended`, may be replaced; `None` if the pause is over.
    pub(super) fn pause(&self, id: &Id, ended: Instant, now: Instant) -> Option<Pause> {
        let pause = Pause {
            length: self.backoff.delay(ended),
            until: self.backoff.until(ended),
        };
        (self.replaced.as_ref() != Some(id) && now < pause.until).then_some(pause)
    }

    /// Notes that `id` is being replaced. The next pause is twice as long.
    pub(super) fn note(&mut self, id: Id, ended: Instant, now: Instant) {
        if self.replaced.as_ref() != Some(&id) {
            self.backoff.note(ended, now);
            self.replaced = Some(id);
        }
    }
}
