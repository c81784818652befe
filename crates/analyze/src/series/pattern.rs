//! Determines the pattern of the series, which shows how the PLEG fails.

use serde::Serialize;

use super::{Around, Interval, SECOND};

/// How the PLEG fails, according to its series of "last seen active X ago".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// X grows with the clock and never resets.
    ListNeverSucceeds,
    /// A sawtooth with equal peaks: the same number of calls time out in each relist.
    StuckContainers,
    /// Irregular peaks just above the threshold: slow, but nothing hangs.
    Overload,
    /// The kubelet has not relisted once since it started.
    NeverRelisted,
    /// Unhealthy again three minutes after each start.
    RestartLoop,
    /// The kubelet itself did not run for some time.
    Stall,
    /// The normal start of a kubelet.
    Startup,
    /// No series.
    None,
}

impl Pattern {
    /// The name of the pattern.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ListNeverSucceeds => "list-never-succeeds",
            Self::StuckContainers => "stuck-containers",
            Self::Overload => "overload",
            Self::NeverRelisted => "never-relisted",
            Self::RestartLoop => "restart-loop",
            Self::Stall => "stall",
            Self::Startup => "startup",
            Self::None => "none",
        }
    }

    /// Whether the pattern shows a fault.
    pub fn is_fault(self) -> bool {
        !matches!(self, Self::Startup | Self::None)
    }
}

/// More time than the calls that time out in one relist usually take together.
pub(super) const LONG: i64 = 600 * SECOND;
/// The kubelet's default runtimeRequestTimeout.
pub(super) const CALL_TIMEOUT: i64 = 120 * SECOND;

/// The pattern of these intervals.
pub fn of(intervals: &[Interval], around: &Around) -> Pattern {
    let mut faults: Vec<&Interval> = intervals.iter().filter(|at| !at.is_startup()).collect();
    // Intervals without a time cannot be ordered.
    if faults.iter().any(|at| at.start.is_some()) {
        faults.retain(|at| at.start.is_some());
    }
    let Some(last) = faults.last() else {
        return match intervals.is_empty() {
            true => Pattern::None,
            false => Pattern::Startup,
        };
    };
    if is_restart_loop(&faults) {
        return Pattern::RestartLoop;
    }
    if faults.iter().all(|interval| interval.never) {
        return Pattern::NeverRelisted;
    }
    let relists: Vec<&Interval> = faults.iter().copied().filter(|at| !at.never).collect();
    let list_fails = around.lists_failed > 0;
    if !list_fails && around.statuses_late == 0 && relists.iter().all(|at| at.is_stall()) {
        return Pattern::Stall;
    }
    let still_grows = !last.closed && last.peak() > LONG;
    match *relists {
        _ if still_grows => Pattern::ListNeverSucceeds,
        [only] => of_one(only, around),
        _ => of_teeth(&relists, around),
    }
}

fn is_restart_loop(faults: &[&Interval]) -> bool {
    let mut lives: Vec<(&str, u64)> = faults.iter().map(|at| (&*at.host, at.life)).collect();
    lives.dedup();
    let short = |at: &&&Interval| at.peak() < 2 * LONG;
    // After a start, X exceeds the threshold three minutes later, and is reported from then on.
    let from_the_start = |at: &&&Interval| {
        let times = at.life_began.zip(at.start);
        at.never || times.is_some_and(|(life, start)| start - life < at.threshold + 90 * SECOND)
    };
    let loops = faults.iter().filter(short).filter(from_the_start).count();
    let enough = lives.len() >= 2 && loops >= 2 || loops >= 1 && lives.len() >= 3;
    enough && faults.iter().filter(short).count() * 2 >= faults.len()
}

fn of_one(only: &Interval, around: &Around) -> Pattern {
    let lists = around.lists_failed > 0 && around.lists_failed >= around.statuses_late;
    let statuses = around.statuses_late > 0;
    let peak = only.peak();
    match only.closed {
        _ if lists => Pattern::ListNeverSucceeds,
        _ if statuses => Pattern::StuckContainers,
        true if peak < LONG && is_multiple(peak) => Pattern::StuckContainers,
        true if peak < CALL_TIMEOUT * 2 => Pattern::Overload,
        _ => Pattern::ListNeverSucceeds,
    }
}

fn of_teeth(teeth: &[&Interval], around: &Around) -> Pattern {
    // The last interval may be incomplete.
    let closed = teeth.iter().filter(|at| at.closed);
    let closed: Vec<i64> = closed.map(|at| at.peak()).collect();
    let whole = closed.len() as u64;
    let multiples = closed.iter().filter(|peak| is_multiple(**peak)).count() as u64;
    let (low, high) = (closed.iter().min(), closed.iter().max());
    let spread = high.zip(low).map_or(0, |(high, low)| high - low);
    let equal = whole >= 3 && spread < 7 * SECOND && low.is_some_and(|low| *low > 210 * SECOND);
    let lists = around.lists_late > around.statuses_late;
    if lists && high.is_some_and(|high| *high > LONG) {
        return Pattern::ListNeverSucceeds;
    }
    if equal || multiples * 5 >= whole * 4 || around.statuses_late > 0 {
        return Pattern::StuckContainers;
    }
    match high {
        Some(high) if *high > LONG => Pattern::ListNeverSucceeds,
        _ => Pattern::Overload,
    }
}

/// Whether the peak is a multiple of the call timeout, and at least twice as long. The last line is logged
/// up to five seconds before the peak.
pub(super) fn is_multiple(peak: i64) -> bool {
    let calls = calls(peak);
    let beyond = peak - calls * CALL_TIMEOUT;
    calls >= 2 && (-6 * SECOND..=8 * SECOND).contains(&beyond)
}

/// The number of timed-out calls that a peak corresponds to.
pub(super) fn calls(peak: i64) -> i64 {
    (peak + CALL_TIMEOUT / 2) / CALL_TIMEOUT
}
