//! One call of the ledger.

use std::time::Duration;

use tokio::time::Instant;

use crate::About;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) about: About,
    /// When the call was wanted. The caller identifies the call by this time.
    pub(super) since: Instant,
    /// When the call was sent; `None` while it is postponed.
    pub(super) sent: Option<Instant>,
    /// Whether the answer is used as the state of the requested id.
    pub(super) is_observation: bool,
    /// The other callers that want the same call and wait for its end: one id may be listed in two
    /// pods.
    pub(super) also_wanted_by: Vec<About>,
    /// The evidence that the call is stuck, and when it was found.
    pub(super) stuck: Option<(Stuck, Instant)>,
}

/// The evidence that a call is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// At least three later calls of its kind were answered: its container is the culprit.
    Outlier,
    /// Later calls are answered, but fewer than three of its kind.
    WithItsKind,
}

impl Entry {
    /// Whether the call is stuck while others of its kind are answered. It does not count towards
    /// the window.
    pub(super) fn is_outlier(&self) -> bool {
        matches!(self.stuck, Some((Stuck::Outlier, _)))
    }

    /// When the wait for an answer began: the time of sending, or `now` while the call is
    /// postponed.
    pub(super) fn awaited_since(&self, now: Instant) -> Instant {
        self.sent.unwrap_or(now)
    }

    /// For how long an answer has been awaited.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.awaited_since(now))
    }
}
