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
mod late_calls;
mod log_line;
mod names;
mod quote;
mod route;

use serde::Serialize;
use times::WallTime;

pub use chain::{Chain, Link};
pub use quote::Quote;

use crate::goroutines::{Goroutines, Groups};
use crate::kernel::KernelStack;
use crate::kind::Kind;
use crate::metrics::{MetricsReading, Sample};
use crate::proof::Proof;
use crate::ps::Row;
use crate::series::{Around, Interval, PlegReading};
use crate::signs::Signs;
use calls::Calls;
use causes::finding::{Finding, Verdict};
use collected::Collected;
use gone::Outage;
use input::Input;

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

/// Takes inputs line by line.
#[derive(Debug)]
pub struct Analyzer {
    signs: Signs,
    told: Told,
    input: Option<Input>,
}

/// What the inputs have told until now.
#[derive(Debug, Default)]
struct Told {
    inputs: Vec<InputReport>,
    intervals: Vec<Interval>,
    dropped_intervals: u64,
    around: Around,
    groups: Groups,
    collected: Collected,
    calls: Calls,
    signs: std::collections::BTreeMap<usize, Seen>,
    kernel: Vec<(String, KernelStack)>,
    /// Rows, and the number of their input.
    rows: Vec<(usize, Row)>,
    samples: Vec<Sample>,
    story: Vec<Quote>,
    dropped: Dropped,
    /// What commands printed, by input.
    proofs: Vec<(String, Proof)>,
    /// What is wrong without a known cause.
    troubles: Vec<String>,
    /// When the runtime could not be reached.
    gone: Vec<Outage>,
    /// The longest time by which a line's carrier was later than the line, and where.
    lateness: Option<(i64, Quote)>,
}

/// A sign, as often as it was seen.
#[derive(Debug, Default)]
struct Seen {
    lines: u64,
    quotes: Vec<Quote>,
    culprit: causes::finding::Culprit,
}

/// More lines than that are no story.
const LONGEST_STORY: usize = 200;

impl Told {
    fn tell(&mut self, quote: Quote) {
        if self.story.len() < LONGEST_STORY {
            self.story.push(quote);
        }
    }
}

impl Analyzer {
    /// An analyzer without inputs.
    pub fn new() -> Self {
        Self {
            signs: Signs::new(),
            told: Told::default(),
            input: None,
        }
    }

    /// An input begins, whose last line is not much later than `latest`.
    pub fn begin(&mut self, path: &str, latest: WallTime) {
        self.end(None);
        self.input = Some(Input::new(path, latest));
    }

    /// Its next line; `cut` is set where the line was longer and its rest is missing.
    pub fn line(&mut self, line: &[u8], cut: bool) {
        if let Some(input) = &mut self.input {
            input.line(line, cut, &self.signs, &mut self.told);
        }
    }

    /// The input ends, perhaps because it could not be read further.
    pub fn end(&mut self, error: Option<String>) {
        if let Some(input) = self.input.take() {
            input.end(error, &mut self.told);
        }
    }

    /// An input that could not be read at all.
    pub fn unreadable(&mut self, path: &str, error: String) {
        self.end(None);
        self.told.inputs.push(InputReport {
            path: path.to_owned(),
            error: Some(error),
            ..InputReport::default()
        });
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
