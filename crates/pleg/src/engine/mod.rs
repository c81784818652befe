//! The engine: which calls are made to the runtime, when, and how the answers are used.
//!
//! ```text
//!   driver: one task that owns the engine, makes the calls, reads the stream, watches processes
//!      |  Input: an answer, an event, an exit, a birth, time     ^  Action: send, open, watch, publish
//!      v                                                         |
//!   engine: holds all state; uses no clock, and writes only the cache
//!      wants       lister                one list: when it is due, and how it was answered
//!                  relister              both lists, the connection, and when a relist is complete
//!                  sweeper               replaces a list: requests the status of each known id
//!                  inspector             requests the statuses of the pods that differ
//!                  processes, births     hints of the kernel: exits, new containers
//!                  stream, stream_trust  hints of the runtime: events, and whether they are reliable
//!      calls       calls                 the one place that decides what is sent: the next call of each component
//!                  ledger, evidence      how many calls may be outstanding, and which are stuck
//!                  quarantine, losses    calls during which the connection was lost
//!      answers     list_answers          what lists and `Version` change
//!                  sweep_answers         what a sweep changes
//!                  commits               what the statuses of a pod change: the cache, events
//!      reports     passes, pass_ends     relists and sweeps: when they are over, and which observed a pod
//!                  unobserved, coverage  which pods are not observed, and why
//!                  reporter              when a change of health is reported
//!                  settling              after a pause of this process: waiting answers are taken in first
//! ```
//!
//! Each part owns its state and receives the time as an argument. The engine never waits for the
//! runtime: each call runs in its own task and reports by message, so a stuck call does not stop
//! the engine.
//!
//! [`Pleg::start`](crate::Pleg::start) runs the driver and the engine. The ledger is
//! [`base::ledger`], because the guard uses it too.

mod answers;
mod births;
mod call;
mod calls;
mod commits;
mod coverage;
mod differing;
mod doubts;
pub(crate) mod driver;
mod failures;
mod hint_budget;
mod hints;
mod inspector;
mod kernel_hints;
mod limits;
mod list_answers;
mod list_times;
mod lister;
mod lists;
mod losses;
mod pass_ends;
mod passes;
mod processes;
mod quarantine;
mod relister;
mod reporter;
mod settling;
mod state;
mod status;
mod stream;
mod stream_trust;
mod stuck;
mod sweep_answers;
mod sweeper;
mod unobserved;

pub use limits::{MIN_WINDOW, OVERDUE_AT_LATEST, STUCK_FACTOR, SUSPECT_AFTER};
