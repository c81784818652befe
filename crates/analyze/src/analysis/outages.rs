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

/// A period in which the runtime could not be reached.
#[derive(Clone, Debug, Default)]
pub(super) struct Outage {
    lines: u64,
    /// The times of the first and the last line, in nanoseconds.
    between: Option<(i64, i64)>,
    ended: bool,
    quotes: Vec<Quote>,
}

impl Outage {
    pub(super) fn episode(&self) -> Option<Episode> {
        let (first, last) = self.between?;
        let first = WallTime::from_unix_nanos(first)?;
        let last = WallTime::from_unix_nanos(last);
        let ended = last.filter(|_| self.ended);
        let reason = "the runtime could not be reached";
        let episode = Episode::new(first, ended, What::RuntimeUnreachable, reason);
        let mut episode = episode.seen_until(last);
        episode.count = self.lines;
        episode.source = self.quotes.first().cloned().map(Quote::source);
        Some(episode)
    }

    pub(super) fn shift(&mut self, nanoseconds: i64) {
        if let Some((first, last)) = &mut self.between {
            *first += nanoseconds;
            *last += nanoseconds;
        }
        for quote in &mut self.quotes {
            quote.shift(nanoseconds);
        }
    }

    fn seconds(&self) -> Option<i64> {
        self.between.map(|(first, last)| (last - first) / SECOND)
    }
}

/// The outage in one input.
#[derive(Debug, Default)]
pub(super) struct Outages {
    outage: Outage,
    /// The times of the first and the last line that says that a client waits for a starting runtime.
    starts: Option<(i64, i64)>,
    /// How many such lines had no time.
    untimed: u64,
    /// The number of lines since the last such error.
    since: u64,
}

const MAX_QUOTES: usize = 3;
/// After this time without an error, or this many lines if they have no time, the runtime is back.
const SILENCE: i64 = 30 * SECOND;
const OTHER_LINES: u64 = 20;

/// What K3s and RKE2 log while they wait for the runtime that they have started, and how long they usually
/// do.
const STARTS: [(&str, i64); 2] = [
    ("Waiting for cri connection: ", 30 * SECOND),
    ("Waiting for containerd startup: ", 2 * SECOND),
];
/// From this many lines without a time on, they are not of one usual start.
const MAX_UNTIMED: u64 = 3;
/// Lines with a longer time between them are of different starts: in one start there is a line every twenty
/// seconds.
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

impl Outages {
    /// Reads a line that reports that the runtime cannot be reached.
    pub(super) fn complaint(
        &mut self,
        line: &[u8],
        time: Option<i64>,
        quote: impl FnOnce() -> Quote,
    ) {
        let mut starts = STARTS.iter();
        if let Some((_, longest)) = starts.find(|(text, _)| has(line, text)) {
            let is_usual = match time {
                Some(time) => self.has_waited(time) < *longest,
                None => {
                    self.untimed += 1;
                    self.untimed < MAX_UNTIMED
                }
            };
            if is_usual {
                return;
            }
        }
        self.since = 0;
        let outage = &mut self.outage;
        outage.lines += 1;
        outage.ended = false;
        if let Some(time) = time {
            let first = outage.between.map_or(time, |(first, _)| first);
            outage.between = Some((first, time));
        }
        if outage.quotes.len() < MAX_QUOTES {
            outage.quotes.push(quote());
        }
    }

    /// How long clients have waited for the runtime at its last start, in nanoseconds.
    fn has_waited(&mut self, time: i64) -> i64 {
        let is_same = |(_, last): &(i64, i64)| time.saturating_sub(*last) < ANOTHER_START;
        let first = self.starts.filter(is_same).map_or(time, |(first, _)| first);
        self.starts = Some((first, time));
        time.saturating_sub(first)
    }

    pub(super) fn answered(&mut self) {
        self.outage.ended = true;
    }

    pub(super) fn other_line(&mut self) {
        self.since += 1;
    }

    /// Ends the input, whose last line has this time.
    pub(super) fn end(self, end: Option<i64>) -> Option<Outage> {
        let mut outage = self.outage;
        let quiet = outage.between.zip(end).map(|((_, last), end)| end - last);
        outage.ended |= match quiet {
            Some(quiet) => quiet > SILENCE,
            None => self.since > OTHER_LINES,
        };
        (outage.lines > 0).then_some(outage)
    }
}

pub(super) fn conclude(results: &mut Results) {
    for outage in std::mem::take(&mut results.outages) {
        let episode = outage.episode().into_iter();
        episode.for_each(|episode| results.episodes.add(episode));
        let seconds = outage.seconds();
        let long = match seconds {
            Some(seconds) if seconds > 0 => format!(" for at least {seconds} s"),
            _ => String::new(),
        };
        let row = TableRow::new("outages", 0)
            .text("lines", &*count(outage.lines, "line"))
            .number("count", outage.lines as f64)
            .text("long", &*long)
            .number("seconds", seconds.map(|seconds| seconds as f64))
            .text("ended", outage.ended.then_some("yes"));
        if results.collected.add_row(&row, &outage.quotes) {
            for quote in outage.quotes {
                results.add_to_timeline(quote);
            }
        }
    }
}
