//! Explains why a node is NotReady, from what was saved of it.
//!
//! ```text
//!   files, pipes, folders          input: the edge, where bytes become lines
//!        |
//!        v
//!   line: without what carried it -----> series      what "last seen active" proves
//!        |                          |--> signs       lines that prove a cause
//!        |  analysis: by its form   |--> goroutines  piles, and who is in their way
//!        |                          |--> kernel, ps, metrics
//!        v                          v
//!   analysis: one pattern, one likely holder, one chain, findings (cause, finding)
//! ```
//!
//! And live, or from a bundle:
//!
//! ```text
//!   collect (probes, host: the edge) --> facts: NodeFacts, plain data
//!                                            |
//!                                            v
//!                          causes: one file each, pure --> diagnosis: findings in order
//! ```
//!
//! Everything but `input` and `collect` is pure: lines and times come in as arguments, what was found is
//! plain data. Whatever the input, memory is bounded, and what did not fit is counted.

pub mod cause;
pub mod finding;

pub mod kind;
pub mod line;

pub mod series;
pub mod signs;

pub mod goroutines;
pub mod kernel;
pub mod metrics;
pub mod ps;

pub mod analysis;

pub mod input;

pub mod facts;

pub mod collect;

pub mod versions;

pub mod causes;
pub mod diagnosis;

pub mod bundle;
pub mod pages;
