//! The core alone, in virtual time.

mod faults;
mod large;
mod missing;
mod confirmed;
mod node;
mod slow;
mod statistics;
