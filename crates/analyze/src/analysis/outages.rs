//! The runtime cannot be reached: no process listens on its socket, or the connection is closed.
//!
//! A kubelet without a runtime logs an error every second. So a log that continues without such
//! errors shows that the runtime is back.

use causes::facts::facts;
use episodes::{Episode, What};
use pleg_text::WallTime;

use super::{Quote, Results};
use crate::line::{after, has, until};
use crate::series::SECOND;
use crate::table::TableRow;
use crate::words::count;

/// The outages of the runtime in one input.
#[derive(Clone, Debug, Default)]
pub(super) struct Outages {
    /// How many lines report that the runtime cannot be reached.
    lines: u64,
    /// Each outage with a time, the oldest first.
    periods: Vec<Period>,
    /// Whether the last outage has ended.
    ended: bool,
    quotes: Vec<Quote>,
}

/// One outage: the times of its first and its last error, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Period {
    first: i64,
    last: i64,
    lines: u64,
}

impl Outages {
    fn episodes(&self) -> Vec<Episode> {
        let is_open = |at: usize| at + 1 == self.periods.len() && !self.ended;
        let periods = self.periods.iter().enumerate();
        let episodes = periods.filter_map(|(at, period)| {
            let first = WallTime::from_unix_nanos(period.first)?;
            let last = WallTime::from_unix_nanos(period.last);
            let ended = last.filter(|_| !is_open(at));
            let reason = "the runtime could not be reached";
            let episode = Episode::new(first, ended, What::RuntimeUnreachable, reason);
            let mut episode = episode.seen_until(last);
            episode.count = period.lines;
            episode.source = self.quotes.first().cloned().map(Quote::source);
            Some(episode)
        });
        episodes.collect()
    }

    pub(super) fn shift(&mut self, nanoseconds: i64) {
        for period in &mut self.periods {
            period.first += nanoseconds;
            period.last += nanoseconds;
        }
        for quote in &mut self.quotes {
            quote.shift(nanoseconds);
        }
    }

    /// How many seconds the longest outage lasted at least.
    fn seconds(&self) -> Option<i64> {
        let periods = self.periods.iter();
        periods.map(|it| (it.last - it.first) / SECOND).max()
    }
}

/// Finds the outages of the runtime in the lines of one input.
#[derive(Debug, Default)]
pub(super) struct OutageReader {
    found: Outages,
    /// The times of the first and the last line in which a client waits for a starting runtime.
    waits: Option<(i64, i64)>,
    /// How many lines about such a wait had no time.
    untimed_waits: u64,
    lines_since_error: u64,
}

const MAX_QUOTES: usize = 3;
/// How many outages are distinguished. Later ones count as part of the last one.
const MAX_PERIODS: usize = 64;
/// After this time without an error, the runtime is back.
const REACHABLE_AFTER: i64 = 30 * SECOND;
const OTHER_LINES: u64 = 20;

/// What K3s and RKE2 log while they wait for the runtime that they have started, and the duration up to
/// which such a wait is usual.
const STARTUP_WAITS: [(&str, i64); 2] = [
    ("Waiting for cri connection: ", 30 * SECOND),
    ("Waiting for containerd startup: ", 2 * SECOND),
];
/// How many lines about such a wait a usual start logs. If they have no time, each further one is an error.
const USUAL_UNTIMED_WAITS: u64 = 2;
/// Lines about a wait that are at least this far apart belong to different starts: during one start there
/// is a line every twenty seconds.
const ANOTHER_START: i64 = 60 * SECOND;

/// Whether a line about a failed connection is about the runtime.
pub(super) fn is_about_the_runtime(line: &[u8]) -> bool {
    let known = &facts().runtime_connections;
    known["about"].iter().any(|text| has(line, text))
        && !known["others"].iter().any(|text| has(line, text))
        && !dials_another(line)
}

/// Whether the line is about a socket of another program, to which the runtime failed to connect:
/// `dial unix /var/run/cilium/cilium.sock: connect: …`.
fn dials_another(line: &[u8]) -> bool {
    let Some(path) = after(line, "dial unix /") else {
        return false;
    };
    let path = until(path, b":\\\" ");
    let mut sockets = facts().runtime_connections["sockets"].iter();
    !sockets.any(|socket| path.ends_with(socket.as_bytes()))
}

impl OutageReader {
    /// Reads a line that reports that the runtime cannot be reached.
    pub(super) fn error(&mut self, line: &[u8], time: Option<i64>, quote: impl FnOnce() -> Quote) {
        let mut waits = STARTUP_WAITS.iter();
        if let Some((_, longest_usual)) = waits.find(|(text, _)| has(line, text)) {
            let is_usual = match time {
                Some(time) => self.record_wait(time) < *longest_usual,
                None => {
                    self.untimed_waits += 1;
                    self.untimed_waits <= USUAL_UNTIMED_WAITS
                }
            };
            if is_usual {
                return;
            }
        }
        if let Some(time) = time {
            self.add(time);
        }
        self.lines_since_error = 0;
        self.found.lines += 1;
        self.found.ended = false;
        if self.found.quotes.len() < MAX_QUOTES {
            self.found.quotes.push(quote());
        }
    }

    /// Adds an error to the last outage, or to a new one if the runtime has answered since, or if the log
    /// continued without errors.
    fn add(&mut self, time: i64) {
        let periods = &mut self.found.periods;
        let is_full = periods.len() >= MAX_PERIODS;
        let has_continued = self.lines_since_error > 0;
        let is_same = |period: &Period| {
            let was_quiet = has_continued && time - period.last > REACHABLE_AFTER;
            is_full || !self.found.ended && !was_quiet
        };
        match periods.last_mut().filter(|period| is_same(period)) {
            Some(period) => {
                period.last = time;
                period.lines += 1;
            }
            None => periods.push(Period {
                first: time,
                last: time,
                lines: 1,
            }),
        }
    }

    /// Records that a client waits for a starting runtime. Returns how long the client has been waiting at
    /// this start, in nanoseconds.
    fn record_wait(&mut self, time: i64) -> i64 {
        let is_same = |(_, last): &(i64, i64)| time.saturating_sub(*last) < ANOTHER_START;
        let first = self.waits.filter(is_same).map_or(time, |(first, _)| first);
        self.waits = Some((first, time));
        time.saturating_sub(first)
    }

    /// Reads a line that shows that the runtime answers.
    pub(super) fn answered(&mut self) {
        self.found.ended = true;
    }

    pub(super) fn other_line(&mut self) {
        self.lines_since_error += 1;
    }

    /// Ends the input, whose last line has this time.
    pub(super) fn end(self, end: Option<i64>) -> Option<Outages> {
        let mut found = self.found;
        let last = found.periods.last();
        let quiet = last.zip(end).map(|(period, end)| end - period.last);
        found.ended |= match quiet {
            Some(quiet) => quiet > REACHABLE_AFTER,
            None => self.lines_since_error > OTHER_LINES,
        };
        (found.lines > 0).then_some(found)
    }
}

pub(super) fn conclude(results: &mut Results) {
    for outages in std::mem::take(&mut results.outages) {
        for episode in outages.episodes() {
            results.episodes.add(episode);
        }
        let seconds = outages.seconds();
        let long = match seconds {
            Some(seconds) if seconds > 0 => format!(" for at least {seconds} s"),
            _ => String::new(),
        };
        let row = TableRow::new("outages", 0)
            .text("lines", &*count(outages.lines, "line"))
            .number("count", outages.lines as f64)
            .text("long", &*long)
            .number("seconds", seconds.map(|seconds| seconds as f64))
            .text("ended", outages.ended.then_some("yes"));
        let is_evidence = results.collected.add_row(&row, &outages.quotes);
        if is_evidence {
            for quote in outages.quotes {
                results.add_to_timeline(quote);
            }
        }
    }
}
