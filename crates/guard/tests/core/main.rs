//! The core alone, in virtual time.

mod confirmed;
mod faults;
mod large;
mod missing;
mod node;
mod parallel;
mod recurring;
mod restarts;
mod slow;
mod statistics;
