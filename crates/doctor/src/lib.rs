//! temporary
#![allow(missing_docs)]
pub mod cause;
pub mod finding;
pub mod goroutines;
pub mod kind;
pub mod line;
pub mod series;
