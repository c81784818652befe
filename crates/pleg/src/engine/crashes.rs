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
