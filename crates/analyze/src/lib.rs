//! Explains why a node is NotReady, from logs, goroutine dumps and other files saved from it.
//!
//! ```text
//!   files, pipes, folders          input: the edge, where bytes become lines
//!        |
//!        v
//!   line: without what carried it -----> series      what "last seen active" proves
//!        |                          |--> signs       lines that prove a cause
//!        |  analysis: by its form   |--> goroutines  piles, and which one blocks the others
//!        |                          |--> kernel, ps, metrics, output
//!        v                          v
//!   analysis: one pattern, one likely holder, one chain, findings
//! ```
//!
//! Everything but `input` is pure: lines and times come in as arguments, what was found is
//! plain data. Whatever the input, memory is bounded, and what did not fit is counted.

pub mod input;
pub mod kind;
pub mod line;

pub mod series;
pub mod signs;

pub mod goroutines;
pub mod kernel;
pub mod metrics;
pub mod output;
pub mod ps;

pub mod proof;

pub mod analysis;
