//! Entries in files.
//!
//! ```text
//!   /var/lib/pleg/history/
//!     0000000012-20261122T201500Z.plegrec   a segment: a header, then frames
//!     0000000013-20261123T201500Z.plegrec   the next one: after a day, 4 MB, an error or a restart
//!     lock                                  held by the agent that writes
//!
//!   frame: marker | length | checksum | flags | time | payload (JSON, deflated if it is long)
//! ```
//!
//! Segments are in the order of their sequence numbers, because the clock may be set back. A frame
//! is written with one system call, so `kill -9` loses nothing that was written; a segment whose
//! last frame is torn is never appended to. The caller syncs the current segment, so that it
//! survives a loss of power.

mod clock;
mod frame;
mod limits;
mod read;
mod segment;
mod write;

pub(crate) use clock::Now;
pub(crate) use frame::Framer;
pub use limits::Limits;
pub use read::{Range, Reader, Skipped, read};
pub use segment::{DIRECTORY, is_recording_file};
pub use write::is_being_recorded;
pub(crate) use write::{Store, Unsynced, WriteError};
