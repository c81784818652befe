//! Whether lists of one kind are answered from the rows, and when the fault that causes this began.
//!
//! ```text
//!   Passing --a list is overdue--> Guarding --a complete list is answered in time--> Passing
//!                                     \--guarded for too long--> LimitReached, which ends in the same way
//! ```
//!
//! A fault with short interruptions is one fault: its limit does not start again.

use std::time::Duration;

use tokio::time::Instant;

/// A fault that recurs within this time counts as the same fault: a call of a kubelet may hold a lock of
/// the runtime; the kubelet cancels such a call after two minutes, and repeats it within seconds.
const SAME_FAULT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Passing {
        /// The last fault, which may not be over.
        last: Option<Fault>,
    },
    Guarding {
        since: Instant,
        /// When guarding last began.
        begun: Instant,
        /// When the next complete list may be requested.
        next: Instant,
    },
    /// The guard has answered during one fault for longer than the limit.
    LimitReached { since: Instant },
}

/// A fault that may be over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) since: Instant,
    pub(super) ended: Instant,
}

impl State {
    /// The state in which lists are answered from the rows from `now` on, because of a fault that began at
    /// `since`.
    pub(super) fn guarding(since: Instant, now: Instant) -> Self {
        Self::Guarding {
            since,
            begun: now,
            next: now,
        }
    }

    /// The state once a list that was requested at `requested` is overdue.
    pub(super) fn overdue(
        requested: Instant,
        last: Option<Fault>,
        limit: Duration,
        now: Instant,
    ) -> Self {
        let last = last.filter(|last| now < last.ended + SAME_FAULT);
        let since = last.map_or(requested, |last| last.since);
        match now < since + limit {
            true => Self::guarding(since, now),
            false => Self::LimitReached { since },
        }
    }

    /// When the guard last began to answer lists from the rows, if it still does.
    pub(super) fn guarding_since(&self) -> Option<Instant> {
        match self {
            Self::Guarding { begun, .. } => Some(*begun),
            Self::Passing { .. } | Self::LimitReached { .. } => None,
        }
    }

    /// Whether the guard has answered during one fault for longer than the limit.
    pub(super) fn is_limit_reached(&self) -> bool {
        matches!(self, Self::LimitReached { .. })
    }

    /// When the current fault began, if there is one.
    pub(super) fn fault_since(&self) -> Option<Instant> {
        match self {
            Self::Guarding { since, .. } | Self::LimitReached { since } => Some(*since),
            Self::Passing { .. } => None,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Passing { last: None }
    }
}
