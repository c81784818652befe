//! What the series proves, in one sentence.

use std::time::Duration;

use times::GoDuration;
use times::WallTime;

use super::pattern::{CALL, LONG, calls, is_multiple};
use super::{Around, Interval, Pattern, SECOND};

/// The sentence.
pub fn sentence(pattern: Pattern, intervals: &[Interval], around: &Around) -> String {
    let faults: Vec<&Interval> = intervals.iter().filter(|at| !at.is_startup()).collect();
    let longest = faults.iter().map(|at| at.peak()).max().unwrap_or(0);
    match pattern {
        Pattern::None => "No line says that the PLEG is not healthy.".to_owned(),
        Pattern::Startup => {
            "The PLEG was not healthy only before its first relist: every kubelet starts so."
                .to_owned()
        }
        Pattern::NeverRelisted => format!(
            "The kubelet has not relisted once since it started, for {} at least: {}.",
            go(longest),
            why_no_list(around),
        ),
        Pattern::Stall => format!(
            "The kubelet itself did not run for about {}, and went on as if nothing had been: \
             the machine was paused, its clock was set or its CPU was taken; no call hung.",
            go(longest)
        ),
        Pattern::RestartLoop => format!(
            "The kubelet was started {} times and was unhealthy again soon after each start: something hangs \
             from the start, and restarting the kubelet only resets its clock.",
            lives(&faults)
        ),
        Pattern::ListNeverSucceeds => list_never_succeeds(&faults, longest, around),
        Pattern::StuckContainers => stuck_containers(&faults, around),
        Pattern::Overload => format!(
            "{} of up to {}, each followed by a relist that succeeded, of no common length: relists are slow, \
             but nothing hangs.",
            count(faults.len(), "unhealthy interval"),
            go(longest)
        ),
    }
}

fn list_never_succeeds(faults: &[&Interval], longest: i64, around: &Around) -> String {
    if longest == 0 {
        return "The PLEG is not healthy, but the lines are cut off before they say for how long."
            .to_owned();
    }
    let worst = faults.iter().max_by_key(|at| at.peak());
    let since = worst
        .and_then(|at| at.relist_began())
        .and_then(WallTime::from_unix_nanos);
    let since = since
        .map(|time| format!(" (since {time})"))
        .unwrap_or_default();
    let open = worst.is_some_and(|at| !at.closed);
    let multiple = around.lists_failed == 0 && open && longest < CALL * 2 + 10 * SECOND;
    let caveat = match multiple {
        true => {
            "; the lines end before four minutes, so it may still be one relist in which two calls run out of time"
        }
        false if around.lists_failed == 0 && longest < LONG => {
            "; a relist in which several calls run out of time looks the same until it ends"
        }
        false => "",
    };
    let why = why_no_list(around);
    let longest = go(longest);
    match faults.iter().map(|at| at.lines).sum::<u64>() {
        1 => format!(
            "No relist has got its lists for {longest}{since}: {why}{caveat}; one line alone shows no shape."
        ),
        _ => format!(
            "No relist has got its lists for {longest}{since}, and X grows with the clock without a reset: {why}{caveat}."
        ),
    }
}

/// Fewer other lines are an excerpt: what is not in it may have been left out.
const ENOUGH_LINES: u64 = 20;

fn why_no_list(around: &Around) -> &'static str {
    match around {
        _ if around.lists_late > 0 => "the runtime does not answer a list within its deadline",
        _ if around.lists_failed > 0 => "the runtime answers a list with an error, again and again",
        _ if around.lists_refused > 1 => "the runtime cannot be reached",
        _ if around.other_lines >= ENOUGH_LINES => {
            "no list runs out of time either, so relist waits inside one call that has no deadline"
        }
        _ => {
            "a list hangs, or relist waits inside a call that has no deadline (these lines alone do not tell which)"
        }
    }
}

fn stuck_containers(faults: &[&Interval], around: &Around) -> String {
    let closed: Vec<i64> = faults
        .iter()
        .filter(|at| at.closed)
        .map(|at| at.peak())
        .collect();
    let peaks = if closed.is_empty() {
        faults.iter().map(|at| at.peak()).collect()
    } else {
        closed
    };
    let (low, high) = (peaks.iter().min().copied(), peaks.iter().max().copied());
    let (low, high) = (low.unwrap_or(0), high.unwrap_or(0));
    let counted = count(faults.len(), "unhealthy interval");
    let peaks = match go(low) == go(high) {
        true => format!("{counted} with a peak of {}", go(high)),
        false => format!("{counted} with peaks from {} to {}", go(low), go(high)),
    };
    let why = match is_multiple(high) {
        true => format!(
            "each relist gets its lists, then waits for {} status calls until they run out of time after 2m0s",
            calls(high)
        ),
        false => {
            "each relist gets its lists, then waits for status calls until they run out of time"
                .to_owned()
        }
    };
    let seen = match around.statuses_late {
        0 => "",
        _ => " (their errors are in the log)",
    };
    let share = (high - 180 * SECOND).max(0) as f64 / high.max(1) as f64 * 100.0;
    format!(
        "{peaks}: {why}{seen}, so one or a few containers are stuck, and the node is NotReady for {share:.0} % of the time."
    )
}

fn lives(faults: &[&Interval]) -> usize {
    let mut lives: Vec<_> = faults.iter().map(|at| (&at.host, at.life)).collect();
    lives.dedup();
    lives.len()
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("One {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// To the tenth of a second, which is what people compare.
fn go(nanos: i64) -> GoDuration {
    let tenth = nanos.max(0) / (SECOND / 10) * (SECOND / 10);
    GoDuration(Duration::from_nanos(tenth.unsigned_abs()))
}
