//! Describes in one sentence what the series shows.

use std::time::Duration;

use pleg_text::GoDuration;
use pleg_text::WallTime;

use super::pattern::{CALL_TIMEOUT, LONG, calls, is_multiple};
use super::{Around, Interval, Pattern, SECOND};
use crate::words::count;

/// What this pattern shows, as a sentence.
pub fn sentence(pattern: Pattern, intervals: &[Interval], around: &Around) -> String {
    let faults: Vec<&Interval> = intervals.iter().filter(|at| !at.is_startup()).collect();
    let longest = faults.iter().map(|at| at.peak()).max().unwrap_or(0);
    let lines = faults.iter().map(|at| at.lines).sum::<u64>();
    let is_of_many = matches!(pattern, Pattern::StuckContainers | Pattern::Overload);
    if is_of_many && lines < MIN_LINES {
        return format!(
            "The PLEG is not healthy: the last relist was {} ago; too few lines to show a pattern.",
            rounded(longest),
        );
    }
    match pattern {
        Pattern::None => "No line reports that the PLEG is not healthy.".to_owned(),
        Pattern::Startup => {
            "The PLEG was unhealthy only before its first relist, as at every start of a kubelet."
                .to_owned()
        }
        Pattern::NeverRelisted => format!(
            "The kubelet has not completed a relist since it started, at least {} ago: {}.",
            rounded(longest),
            why_no_list(around),
        ),
        Pattern::Stall => format!(
            "The kubelet itself did not run for about {} and then continued normally: the machine \
             was paused, its clock was changed or it got no CPU time; no call hung.",
            rounded(longest)
        ),
        Pattern::RestartLoop => format!(
            "The kubelet was started {} times and became unhealthy again soon after each start: \
             something hangs from the start, and restarting the kubelet only resets its timer.",
            lives(&faults)
        ),
        Pattern::ListNeverSucceeds => list_never_succeeds(&faults, longest, around),
        Pattern::StuckContainers => stuck_containers(&faults, around),
        Pattern::Overload => format!(
            "{} of up to {} and of different lengths, each followed by a successful relist: \
             relists are slow, but nothing hangs.",
            count(faults.len() as u64, "unhealthy interval"),
            rounded(longest)
        ),
    }
}

/// The minimum number of lines: fewer do not show a pattern.
const MIN_LINES: u64 = 3;

fn list_never_succeeds(faults: &[&Interval], longest: i64, around: &Around) -> String {
    if longest == 0 {
        return "The PLEG is not healthy, but the lines are cut off before they show for how long."
            .to_owned();
    }
    let worst = faults.iter().max_by_key(|at| at.peak());
    let since = worst.and_then(|at| WallTime::from_unix_nanos(at.relist_began()?));
    let since = since.map_or_else(String::new, |time| format!(" (since {time})"));
    let open = worst.is_some_and(|at| !at.closed);
    let multiple = around.lists_failed == 0 && open && longest < CALL_TIMEOUT * 2 + 10 * SECOND;
    let caveat = match multiple {
        true => {
            "; the lines end before four minutes, so it may still be one relist in which two \
             calls time out"
        }
        false if around.lists_failed == 0 && longest < LONG => {
            "; a relist in which several calls time out looks the same until it ends"
        }
        false => "",
    };
    let why = why_no_list(around);
    let longest = rounded(longest);
    match faults.iter().map(|at| at.lines).sum::<u64>() {
        1 => format!(
            "No relist has completed its list calls for {longest}{since}: {why}{caveat}; one line \
             alone does not show a pattern."
        ),
        _ => format!(
            "No relist has completed its list calls for {longest}{since}, and the time since the \
             last relist grows without a reset: {why}{caveat}."
        ),
    }
}

/// The minimum number of other lines: with fewer, the input is an excerpt, and lines may be missing.
const MIN_OTHER_LINES: u64 = 20;

fn why_no_list(around: &Around) -> &'static str {
    match around {
        _ if around.lists_late > 0 => "the runtime does not answer a list call within its deadline",
        _ if around.lists_failed > 0 => "the runtime repeatedly answers a list call with an error",
        _ if around.lists_refused > 1 => "the runtime cannot be reached",
        _ if around.other_lines >= MIN_OTHER_LINES => {
            "no list call times out, so the relist is blocked in a call that has no deadline"
        }
        _ => {
            "a list call hangs, or the relist is blocked in a call that has no deadline (these \
             lines alone do not show which)"
        }
    }
}

fn stuck_containers(faults: &[&Interval], around: &Around) -> String {
    // The last interval may be incomplete.
    let has_closed = faults.iter().any(|at| at.closed);
    let shown = faults.iter().filter(|at| at.closed || !has_closed);
    let peaks = shown.map(|at| at.peak());
    let (low, high) = (peaks.clone().min().unwrap_or(0), peaks.max().unwrap_or(0));
    let counted = count(faults.len() as u64, "unhealthy interval");
    let peaks = match rounded(low) == rounded(high) {
        true => format!("{counted} with a peak of {}", rounded(high)),
        false => format!(
            "{counted} with peaks from {} to {}",
            rounded(low),
            rounded(high)
        ),
    };
    let why = match is_multiple(high) {
        true => format!(
            "each relist completes its list calls, then waits for {} status calls until they time \
             out after 2m0s",
            calls(high)
        ),
        false => {
            "each relist completes its list calls, then waits for status calls until they time out"
                .to_owned()
        }
    };
    let seen = match around.statuses_late {
        0 => "",
        _ => " (their errors are in the log)",
    };
    let share = (high - 180 * SECOND).max(0) as f64 / high.max(1) as f64 * 100.0;
    format!(
        "{peaks}: {why}{seen}. One or a few containers are stuck, and the node is NotReady for \
         {share:.0} % of the time."
    )
}

fn lives(faults: &[&Interval]) -> usize {
    let mut lives: Vec<_> = faults.iter().map(|at| (&at.host, at.life)).collect();
    lives.dedup();
    lives.len()
}

/// The duration, rounded down to a tenth of a second.
fn rounded(nanos: i64) -> GoDuration {
    let tenth = nanos.max(0) / (SECOND / 10) * (SECOND / 10);
    GoDuration(Duration::from_nanos(tenth.unsigned_abs()))
}
