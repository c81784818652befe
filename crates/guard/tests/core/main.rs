//! The core alone, in virtual time.

mod confirmed;
mod faults;
mod large;
mod missing;
mod node;
mod recurring;
mod slow;
mod statistics;
