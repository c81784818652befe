//! The core alone, in virtual time.

mod faults;
mod large;
mod missing;
mod node;
mod statistics;
