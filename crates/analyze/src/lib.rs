//! Explains why a node is NotReady, from logs, goroutine dumps and other files saved from it.
//!
//! ```text
//!   files, pipes, folders          input: the edge, where bytes become lines
//!        |
//!        v
//!   line: without its prefix      -----> series      what "last seen active" shows
//!        |                          |--> rules       lines that support a cause
//!        |  analysis: by its form   |--> goroutines  groups that wait, and which probably holds the lock
//!        |                          |--> kernel, ps, metrics, output
//!        v                          v
//!   analysis: findings, how "last seen active" changes, the likely holder of a lock
//! ```
//!
//! Everything but `input` is pure: lines and times are arguments, and results are plain data. Memory
//! is bounded, whatever the input is; what does not fit is counted.
//!
//! ```
//! use analyze::analysis::Analyzer;
//! use analyze::input::each_line;
//! use pleg_text::WallTime;
//!
//! let log = br#"
//! E0505 13:59:56.872880    2858 kubelet.go:2055] "Skipping pod synchronization" err="PLEG is not healthy: pleg was last seen active 16m6.5s ago; threshold is 3m0s"
//! "#;
//! let mut analyzer = Analyzer::new();
//! analyzer.begin("kubelet.log", WallTime::now());
//! each_line(&log[..], |line, is_cut| analyzer.line(line, is_cut))?;
//! let analysis = analyzer.finish();
//! assert!(analysis.has_problem());
//! println!("{}", analysis.summary);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod input;
pub mod kind;
pub mod line;

pub mod rules;
pub mod series;

pub mod goroutines;
pub mod kernel;
pub mod metrics;
pub mod output;
pub mod ps;

pub mod evidence;
pub mod table;

pub mod analysis;

mod words;

use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

/// For fields that are left out of the JSON if they are zero.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The value that a word in `facts.yaml` names.
fn named<T: DeserializeOwned>(word: &str) -> T {
    let word: StrDeserializer<'_, Error> = word.into_deserializer();
    T::deserialize(word).unwrap_or_else(|error| panic!("facts.yaml: {error}"))
}
