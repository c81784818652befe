//! The core alone, in virtual time.

mod confirmed;
mod creations;
mod faults;
mod large;
mod missing;
mod node;
mod own_calls;
mod parallel;
mod phases;
mod recurring;
mod restarts;
mod shared_reads;
mod slow;
mod statistics;
