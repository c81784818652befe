//! When a call hangs.

use std::time::Duration;

/// A call that is not answered within this time hangs.
const DEADLINE: Duration = Duration::from_secs(2);

/// If other calls are slow, a call hangs only after this many times the duration of the slowest
/// answered call.
const TIMES_THE_SLOWEST: f64 = 5.0;

/// After this time a call hangs, however slow the others are.
pub(super) const MAX_DEADLINE: Duration = Duration::from_secs(6);

/// After this time a list hangs: where both take long, lists may take long on this node.
const LIST_DEADLINE: Duration = Duration::from_secs(10);

/// The same where an agent on the node has seen that lists are slow each time.
const SLOW_LIST_DEADLINE: Duration = Duration::from_secs(16);

/// A list hangs after this many times the duration of the other one.
const TIMES_THE_OTHER_LIST: f64 = 3.0;

/// How long a list may take, while the other one took this many seconds, or is not answered either; and
/// where an agent has seen that lists `are_slow` each time.
pub(super) fn list_patience(other: Option<f64>, are_slow: bool) -> Duration {
    match other {
        _ if are_slow => SLOW_LIST_DEADLINE,
        None => LIST_DEADLINE,
        Some(seconds) => Duration::from_secs_f64(seconds * TIMES_THE_OTHER_LIST)
            .clamp(MAX_DEADLINE, LIST_DEADLINE),
    }
}

/// How long a call may take if the slowest of the others took this many seconds.
pub(super) fn patience(slowest: f64) -> Duration {
    let seconds = slowest * TIMES_THE_SLOWEST;
    Duration::from_secs_f64(seconds.clamp(DEADLINE.as_secs_f64(), MAX_DEADLINE.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_more_time_where_the_other_one_takes_long_too() {
        for (other, are_slow, expected) in [
            (Some(0.003), false, 6.0),
            (Some(2.5), false, 7.5),
            (Some(5.0), false, 10.0),
            (None, false, 10.0),
            (Some(0.003), true, 16.0),
        ] {
            let seconds = list_patience(other, are_slow).as_secs_f64();
            assert_eq!(seconds, expected, "{other:?} {are_slow}");
        }
    }
}
