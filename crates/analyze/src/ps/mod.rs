//! Listings of processes: `ps auxf`, `ps -ef`, `ps -elf`, or columns by name.

mod row;
mod rules;

pub use row::{PsReader, Row};
pub use rules::{plugin, proofs};
