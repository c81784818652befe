//! When a call hangs.

use std::time::Duration;

/// After this time without an answer a call hangs.
const DEADLINE: Duration = Duration::from_secs(2);

/// Where others are slow one does not hang before it has taken so many times what the
/// slowest took that was answered.
const TIMES_THE_SLOWEST: f64 = 5.0;

/// After this time it hangs however slow the others are.
pub(super) const LONGEST: Duration = Duration::from_secs(6);

/// How long a call may take where the slowest of the others took so many seconds.
pub(super) fn patience(slowest: f64) -> Duration {
    let seconds = slowest * TIMES_THE_SLOWEST;
    Duration::from_secs_f64(seconds.clamp(DEADLINE.as_secs_f64(), LONGEST.as_secs_f64()))
}
