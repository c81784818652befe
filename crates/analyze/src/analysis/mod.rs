//! The analysis of files saved from a node.
//!
//! ```text
//!   inputs: lines --> input: by the form of each line, to
//!                       |    series · rules · calls · goroutines · kernel · ps · metrics
//!                       v
//!                     Analyzer: the evidence of all inputs, in limited memory
//!                       v
//!                     conclude: one pattern, one likely holder, one chain, findings
//! ```
//!
//! Nothing here reads files or the clock: lines, and the time of the last one, are passed in.
//!
//! ```
//! use analyze::analysis::Analyzer;
//! use causes::Cause;
//! use pleg_text::WallTime;
//!
//! let mut analyzer = Analyzer::new();
//! analyzer.begin("kern.log", WallTime::now());
//! let line = b"[450528.01] unregister_netdevice: waiting for lo to become free. Usage count = 1";
//! analyzer.line(line, false);
//! let analysis = analyzer.finish();
//! let cause = analysis.leading().map(|finding| finding.cause);
//! assert_eq!(cause, Some(Cause::RtnlStuck));
//! ```

mod calls;
mod chain;
mod collected;
mod conclude;
mod episodes;
mod errors;
#[cfg(test)]
mod every_text;
mod heads;
mod input;
mod json;
mod late_calls;
mod log_line;
mod names;
mod outages;
mod quote;
mod repeated;
mod results;
mod route;
mod services;
mod stalls;
mod structured;
mod summary;
mod unexplained;
mod wrapped_lines;

use ::episodes::Episode;
use pleg_text::WallTime;
use serde::Serialize;

pub use chain::{Chain, Link};
pub use errors::LoggedError;
pub use quote::Quote;

use crate::goroutines::Goroutines;
use crate::kind::Kind;
use crate::metrics::MetricsReading;
use crate::series::PlegReading;
use causes::finding::{Finding, Verdict};
use input::Input;
use results::Results;
use wrapped_lines::WrappedLines;

/// What was read of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputReport {
    /// The path of the input, as given.
    pub path: String,
    /// The kind of the input.
    pub kind: Kind,
    /// How many lines the input has.
    pub lines: u64,
    /// How many lines could not be read.
    pub unread_lines: u64,
    /// The time of the first line that has one.
    #[serde(skip)]
    pub read_from: Option<WallTime>,
    /// The time of the last line that has one.
    #[serde(skip)]
    pub read_until: Option<WallTime>,
    /// Whether the times have no date: each is taken for the last one before the file was modified.
    #[serde(skip)]
    pub lacks_dates: bool,
    /// Whether the times have no year, and no other line shows it: the year in which the file was modified
    /// is assumed.
    #[serde(skip)]
    pub lacks_year: bool,
    /// Why the input could not be read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How much was read but not kept, because it exceeded the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dropped {
    /// The number of kernel stacks.
    pub kernel_stacks: u64,
    /// The number of rows of process listings.
    pub processes: u64,
    /// The number of episodes.
    #[serde(skip)]
    pub episodes: u64,
}

impl Dropped {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The result of the analysis of all inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Analysis {
    /// A summary in one sentence.
    pub summary: String,
    /// What was read of each input.
    pub inputs: Vec<InputReport>,
    /// What the kubelet's series shows; null without a kubelet's log.
    pub pleg: Option<PlegReading>,
    /// The goroutines; null if there are none.
    pub goroutines: Option<Goroutines>,
    /// The chain of waits from one daemon to the next; null if there is none.
    pub chain: Option<Chain>,
    /// What the metrics show; null if there are none.
    pub metrics: Option<MetricsReading>,
    /// The relevant lines in chronological order.
    pub timeline: Vec<Quote>,
    /// The findings, those with the highest confidence first.
    pub findings: Vec<Finding>,
    /// Problems without a known cause, with file and line in front.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unexplained: Vec<String>,
    /// If nothing else was found: the errors in the logs, the most frequent first. The logs of a healthy
    /// node contain some, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<LoggedError>,
    /// How many lines report errors of kinds beyond the limit.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub other_errors: u64,
    /// How much was not kept, because it exceeded the limits.
    #[serde(skip_serializing_if = "Dropped::is_nothing")]
    pub dropped: Dropped,
    /// The episodes, for a timeline, in order of time.
    #[serde(skip)]
    pub episodes: Vec<Episode>,
}

impl Analysis {
    /// Whether there is any problem.
    pub fn has_problem(&self) -> bool {
        let is_unhealthy = self.pleg.iter().any(|pleg| pleg.pattern.is_fault());
        let mut goroutines = self.goroutines.iter();
        let has_holder = goroutines.any(|all| all.likely_holder.is_some());
        is_unhealthy || has_holder || !self.findings.is_empty() || !self.unexplained.is_empty()
    }

    /// Whether there is a problem whose cause is not known.
    pub fn lacks_the_cause(&self) -> bool {
        self.has_problem() && self.findings.is_empty()
    }

    /// Whether something was recognised, and neither a problem nor an error was found.
    pub fn is_clean(&self) -> bool {
        !self.has_problem() && self.errors.is_empty() && self.is_recognised()
    }

    /// Whether at least one line was recognised.
    fn is_recognised(&self) -> bool {
        let mut inputs = self.inputs.iter();
        inputs.any(|input| input.unread_lines < input.lines)
    }

    /// The first finding that is a problem; if there is none, the first one that is only suspected.
    pub fn leading(&self) -> Option<&Finding> {
        let mut findings = self.findings.iter();
        let problem = findings.find(|finding| finding.verdict == Verdict::Problem);
        problem.or(self.findings.first())
    }
}

/// Analyzes inputs that are passed in line by line, or that were read before, possibly in parallel.
#[derive(Debug, Default)]
pub struct Analyzer {
    results: Results,
    reading: Option<Reading>,
}

/// An input that is being read, in any thread.
#[derive(Debug)]
pub struct Reading {
    wrapped: WrappedLines,
    input: Input,
}

/// An input that was read.
#[derive(Debug)]
pub struct Read(Results);

impl Reading {
    /// Begins an input whose last line is not much later than `latest`.
    pub fn begin(path: &str, latest: WallTime) -> Self {
        Self {
            wrapped: WrappedLines::default(),
            input: Input::new(path, latest),
        }
    }

    /// Adds the next line of the input; `cut` is set if the line was longer and the rest is missing.
    pub fn line(&mut self, line: &[u8], cut: bool) {
        let mut each = |line: &[u8], of| self.input.lines(line, of, false);
        if cut {
            // No terminal is that wide, so the previous line does not continue here.
            self.wrapped.end(&mut each);
            return self.input.lines(line, 1, true);
        }
        self.wrapped.line(line, &mut each);
    }

    /// Ends the input, possibly because of a read error.
    pub fn end(mut self, error: Option<String>) -> Read {
        let mut each = |line: &[u8], of| self.input.lines(line, of, false);
        self.wrapped.end(&mut each);
        Read(self.input.end(error))
    }
}

impl Read {
    /// The result of reading an input that could not be read at all.
    pub fn nothing(path: &str, error: String) -> Self {
        let mut results = Results::default();
        results.inputs.push(InputReport {
            path: path.to_owned(),
            error: Some(error),
            ..InputReport::default()
        });
        Self(results)
    }
}

impl Analyzer {
    /// An analyzer without inputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input that was read. The order matters if not everything can be kept.
    pub fn add(&mut self, read: Read) {
        self.results.absorb(read.0);
    }

    /// Begins an input whose last line is not much later than `latest`.
    pub fn begin(&mut self, path: &str, latest: WallTime) {
        self.end(None);
        self.reading = Some(Reading::begin(path, latest));
    }

    /// Adds the next line of the input; `cut` is set if the line was longer and the rest is missing.
    pub fn line(&mut self, line: &[u8], cut: bool) {
        if let Some(reading) = &mut self.reading {
            reading.line(line, cut);
        }
    }

    /// Ends the input, possibly because of a read error.
    pub fn end(&mut self, error: Option<String>) {
        if let Some(reading) = self.reading.take() {
            self.add(reading.end(error));
        }
    }

    /// Ends the last input, and returns the result of the analysis.
    pub fn finish(mut self) -> Analysis {
        self.end(None);
        conclude::conclude(self.results)
    }
}
