//! When callers last requested and received the lists of one kind. The lists of a kubelet's PLEG have no
//! filter, so only complete lists count, except for the time of the last request.

use tokio::time::Instant;

use super::Caller;
use super::lists::ListCall;

/// When callers last requested and received lists.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    /// When a caller that the guard may answer last requested a list.
    pub(super) requested: Option<Instant>,
    /// When a caller that the guard may answer last received a list, from the runtime or from the guard.
    pub(super) listed: Option<Instant>,
    /// When a list was last answered from the rows.
    answered: Option<Instant>,
    /// When an answer of the runtime, a list or an error, was last passed on.
    passed: Option<Instant>,
    /// When a caller last cancelled an overdue list.
    refused: Option<Instant>,
}

impl Served {
    /// Records that a caller requests a list.
    pub(super) fn note_request(&mut self, from: Caller, now: Instant) {
        if from == Caller::Client {
            self.requested = Some(now);
        }
    }

    /// Records that an answer of the runtime is passed on.
    pub(super) fn note_passed(&mut self, list: &ListCall, is_list: bool, now: Instant) {
        if list.filter.is_whole() {
            self.passed = Some(now);
        }
        if list.is_relist() && is_list {
            self.listed = Some(now);
        }
    }

    /// Records that a list is answered from the rows.
    pub(super) fn note_answered(&mut self, list: &ListCall, now: Instant) {
        if list.is_relist() {
            self.answered = Some(now);
            self.listed = Some(now);
        }
    }

    /// Records that a caller has cancelled an overdue list.
    pub(super) fn note_refused(&mut self, list: &ListCall, now: Instant) {
        if list.is_relist() {
            self.refused = Some(now);
        }
    }

    /// Whether a list was answered from the rows at this time or later.
    pub(super) fn has_answered_since(&self, time: Instant) -> bool {
        self.answered >= Some(time)
    }

    /// Whether the caller of the last list gave it up.
    pub(super) fn refuses(&self) -> bool {
        self.refused > self.listed
    }

    /// Whether a caller gave a list up since an answer of the runtime was last passed on.
    pub(super) fn refuses_since_passed(&self) -> bool {
        self.refused > self.passed
    }
}
