//! The flight recorder: records on disk what happens on a node, so that an incident can be examined
//! afterwards.
//!
//! ```text
//!   events, health --------------\
//!   StatusReport --> changes -----+--> Recorder: a bounded queue --> store: segments on disk
//!   pods, times of lists --------/                                          |
//!                                                                   store::read: entries
//!                                                                           |
//!               `pleg top` <-- replay: the state at a given time <----------+
//!              timelines <-- fold: episodes, with start and end <-----------+
//!                a ticket <-- snapshot: with the doctor's evidence <--------/
//! ```
//!
//! The unit is an [`Entry`]: one recorded fact, with its wall-clock time. Recording must not disturb
//! the daemon: a queue that is full drops what does not fit, a disk that hangs blocks one thread,
//! and what is lost is counted and recorded later.

pub mod changes;
pub mod fold;
mod record;
mod recorder;
pub mod replay;
pub mod snapshot;
pub mod store;
mod unrecorded;

pub use record::{
    Began, Diagnosed, Entry, Finding, ListTimes, Loss, Lost, Published, Recorded, Status,
};
pub use recorder::{Recorder, SyncFile, WRITE_INTERVAL, Written};
pub use unrecorded::Unrecorded;
