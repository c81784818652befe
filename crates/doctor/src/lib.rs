//! temporary
#![allow(missing_docs)]
pub mod analysis;
pub mod cause;
pub mod finding;
pub mod goroutines;
pub mod input;
pub mod kernel;
pub mod kind;
pub mod line;
pub mod metrics;
pub mod ps;
pub mod series;
pub mod signs;
