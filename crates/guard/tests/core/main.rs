//! The core alone, in virtual time.

mod large;
mod node;
mod statistics;
