//! What was saved of a node, and what it tells.
//!
//! ```text
//!   inputs: lines --> input: by the form of each line, to
//!                       |    series · signs · calls · goroutines · kernel · ps · metrics
//!                       v
//!                     Analyzer: what all inputs have told, within bounds
//!                       v
//!                     conclude: one pattern, one likely holder, one chain, findings
//! ```
//!
//! Nothing here reads files or knows the time: lines and the time of the last one come in.
//!
//! ```
//! use analyze::analysis::Analyzer;
//! use causes::Cause;
//! use times::WallTime;
//!
//! let mut analyzer = Analyzer::new();
//! analyzer.begin("kern.log", WallTime::now());
//! let line = b"[450528.01] unregister_netdevice: waiting for lo to become free. Usage count = 1";
//! analyzer.line(line, false);
//! let analysis = analyzer.finish();
//! let cause = analysis.leading().map(|finding| finding.cause);
//! assert_eq!(cause, Some(Cause::RtnlStuck));
//! ```

mod alike;
mod calls;
mod chain;
mod collected;
mod conclude;
mod gone;
mod input;
mod json;
mod late_calls;
mod log_line;
mod names;
mod quote;
mod route;
mod services;
mod told;
mod unexplained;

use std::sync::Arc;

use serde::Serialize;
use times::WallTime;

pub use chain::{Chain, Link};
pub use quote::Quote;

use crate::goroutines::Goroutines;
use crate::kind::Kind;
use crate::metrics::MetricsReading;
use crate::series::PlegReading;
use crate::signs::Signs;
use causes::finding::{Finding, Verdict};
use input::Input;
use told::Told;

/// An input, and what was read of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputReport {
    /// As it was named.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// How many lines it has.
    pub lines: u64,
    /// How many of them could not be read.
    pub unread_lines: u64,
    /// Why it could not be read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What was read, but did not fit into the bounds of what is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dropped {
    /// Stacks of the kernel.
    pub kernel_stacks: u64,
    /// Rows of listings.
    pub processes: u64,
}

impl Dropped {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What all inputs together tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Analysis {
    /// All of it in one sentence.
    pub summary: String,
    /// Each input.
    pub inputs: Vec<InputReport>,
    /// What the kubelet's series proves; null where no kubelet has written anything.
    pub pleg: Option<PlegReading>,
    /// Null where there are none.
    pub goroutines: Option<Goroutines>,
    /// The way from one daemon to the next; null where there is none.
    pub chain: Option<Chain>,
    /// Null where there are none.
    pub metrics: Option<MetricsReading>,
    /// The lines that matter in the order of time.
    pub story: Vec<Quote>,
    /// What was found, the surest first.
    pub findings: Vec<Finding>,
    /// What is wrong without a known cause; with file and line in front.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unexplained: Vec<String>,
    /// What did not fit.
    #[serde(skip_serializing_if = "Dropped::is_nothing")]
    pub dropped: Dropped,
}

impl Analysis {
    /// Whether anything is wrong.
    pub fn has_problem(&self) -> bool {
        let unhealthy = self
            .pleg
            .as_ref()
            .is_some_and(|pleg| pleg.pattern.is_fault());
        let held = self
            .goroutines
            .as_ref()
            .is_some_and(|all| all.likely_holder.is_some());
        unhealthy || held || !self.findings.is_empty() || !self.unexplained.is_empty()
    }

    /// The finding to begin with.
    pub fn leading(&self) -> Option<&Finding> {
        let problem = self
            .findings
            .iter()
            .find(|finding| finding.verdict == Verdict::Problem);
        problem.or(self.findings.first())
    }
}

/// Takes inputs: line by line, or as they were read beside each other.
#[derive(Debug)]
pub struct Analyzer {
    signs: Arc<Signs>,
    told: Told,
    reading: Option<Reading>,
}

/// An input that is being read, by whatever thread.
#[derive(Debug)]
pub struct Reading {
    signs: Arc<Signs>,
    input: Input,
    told: Told,
}

/// An input that was read.
#[derive(Debug)]
pub struct Read(Told);

impl Reading {
    /// An input begins, whose last line is not much later than `latest`.
    pub fn begin(path: &str, latest: WallTime, signs: Arc<Signs>) -> Self {
        Self {
            signs,
            input: Input::new(path, latest),
            told: Told::default(),
        }
    }

    /// Its next line; `cut` is set where the line was longer and its rest is missing.
    pub fn line(&mut self, line: &[u8], cut: bool) {
        self.input.line(line, cut, &self.signs, &mut self.told);
    }

    /// The input ends, perhaps because it could not be read further.
    pub fn end(mut self, error: Option<String>) -> Read {
        self.input.end(error, &mut self.told);
        Read(self.told)
    }
}

impl Read {
    /// An input that could not be read at all.
    pub fn nothing(path: &str, error: String) -> Self {
        let mut told = Told::default();
        told.inputs.push(InputReport {
            path: path.to_owned(),
            error: Some(error),
            ..InputReport::default()
        });
        Self(told)
    }
}

impl Analyzer {
    /// An analyzer without inputs.
    pub fn new() -> Self {
        Self {
            signs: Arc::default(),
            told: Told::default(),
            reading: None,
        }
    }

    /// What inputs are searched for.
    pub fn signs(&self) -> Arc<Signs> {
        self.signs.clone()
    }

    /// Takes an input in that was read. The order matters where not all of it can be kept.
    pub fn add(&mut self, read: Read) {
        self.told.absorb(read.0);
    }

    /// An input begins, whose last line is not much later than `latest`.
    pub fn begin(&mut self, path: &str, latest: WallTime) {
        self.end(None);
        self.reading = Some(Reading::begin(path, latest, self.signs()));
    }

    /// Its next line; `cut` is set where the line was longer and its rest is missing.
    pub fn line(&mut self, line: &[u8], cut: bool) {
        if let Some(reading) = &mut self.reading {
            reading.line(line, cut);
        }
    }

    /// The input ends, perhaps because it could not be read further.
    pub fn end(&mut self, error: Option<String>) {
        if let Some(reading) = self.reading.take() {
            self.add(reading.end(error));
        }
    }

    /// What all of it tells.
    pub fn finish(mut self) -> Analysis {
        self.end(None);
        conclude::conclude(self.told, &self.signs)
    }
}

impl Default for Analyzer {
    fn default() -> Self {
        Self::new()
    }
}
