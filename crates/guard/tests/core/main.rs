//! The core alone, in virtual time.

mod faults;
mod large;
mod node;
mod statistics;
