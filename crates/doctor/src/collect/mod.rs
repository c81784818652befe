//! The edge: where facts are read from a machine. Every step has a deadline, and what may
//! block in the kernel is read by a helper, so that collecting always ends.

pub mod helper;
pub mod host;

mod step;
