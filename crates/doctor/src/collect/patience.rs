//! When a call hangs.

use std::time::Duration;

/// A call that is not answered within this time hangs.
const DEADLINE: Duration = Duration::from_secs(2);

/// If other calls are slow, a call hangs only after this many times the duration of the slowest
/// answered call.
const TIMES_THE_SLOWEST: f64 = 5.0;

/// After this time a call hangs, however slow the others are.
pub(super) const MAX_DEADLINE: Duration = Duration::from_secs(6);

/// How long a call may take if the slowest of the others took this many seconds.
pub(super) fn patience(slowest: f64) -> Duration {
    let seconds = slowest * TIMES_THE_SLOWEST;
    Duration::from_secs_f64(seconds.clamp(DEADLINE.as_secs_f64(), MAX_DEADLINE.as_secs_f64()))
}
