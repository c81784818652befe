//! The nouns: what was listed, what was inspected, what was inferred, and how things are
//! named. Plain data without behaviour of its own.

pub mod event;
pub mod grouping;
pub mod id;
pub mod listed;
pub mod snapshot;
pub mod status;
pub mod wall_time;
