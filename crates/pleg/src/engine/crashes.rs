//! What is assumed of a runtime that crashes when it is asked for something: how soon it does, and for
//! how long it is not asked again.

use std::time::Duration;

/// A crash ends a runtime within this time; a call that was made earlier is not why it went away.
pub(super) const AT_ONCE: Duration = Duration::from_secs(1);

/// The longest hold of what is not needed by everybody.
pub(super) const LONGEST_HELD: Duration = Duration::from_secs(300);

const FIRST_HELD: Duration = Duration::from_secs(1);

/// For how long it is held that was held `before` so many times in succession: each time four times as
/// long.
pub(super) fn hold(before: u32, longest: Duration) -> Duration {
    let times = 4u32.saturating_pow(before);
    FIRST_HELD.saturating_mul(times).min(longest)
}

/// Losses of the connection in succession, each soon after the same was asked for.
#[derive(Debug, Default)]
pub(super) struct Losses(u32);

impl Losses {
    pub(super) fn count(&mut self) {
        self.0 += 1;
    }

    /// It was asked for, and the connection was not lost.
    pub(super) fn forget(&mut self) {
        self.0 = 0;
    }

    pub(super) fn is_none(&self) -> bool {
        self.0 == 0
    }

    /// One may be chance.
    pub(super) fn are_no_chance(&self) -> bool {
        self.0 >= 2
    }

    /// For how long it is not asked for since the last one.
    pub(super) fn hold(&self, longest: Duration) -> Duration {
        let before = self.0.checked_sub(2);
        before.map_or(Duration::ZERO, |before| hold(before, longest))
    }
}
