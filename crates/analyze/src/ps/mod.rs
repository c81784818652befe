//! Listings of processes: `ps auxf`, `ps -ef`, `ps -elf`, or columns by name.
//!
//! ```
//! use analyze::ps::{PsReader, evidence};
//!
//! let listing = "  PID  PPID STAT WCHAN  CMD
//!  1810     1 D    rpc_wait_bit_killable  df -h
//! ";
//! let mut reader = PsReader::default();
//! for (number, line) in (1..).zip(listing.lines()) {
//!     reader.line(line, number);
//! }
//! let rows = reader.take_rows();
//! assert_eq!((rows[0].pid, rows[0].state.as_deref()), (1810, Some("D")));
//! assert_eq!(evidence(&rows)[0].cause.id(), "storage-unresponsive");
//! ```

mod columns;
mod row;
mod rules;
mod tables;

pub use row::{PsReader, Row};
pub(crate) use rules::name;
pub use rules::{ProcessRule, evidence};
pub use tables::{is_runc_asleep, tables};
