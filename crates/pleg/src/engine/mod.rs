//! The engine: what is asked of the runtime, when, and what is made of the answers.
//!
//! ```text
//!   driver: one task that owns the engine, asks the runtime, reads the stream, waits for deaths
//!      |  Input: an answer, an event, a death, time       ^  Action: ask, open, watch
//!      v                                                  |
//!   engine: pure; knows no clock and does no IO ----------/
//!      relister    when the two lists are due      standing    which is late, fails or hangs
//!      sweeper     in its place: known ids, one by one
//!      inspector   the pods that differ, side by side
//!      processes, births  the kernel's hints        stream, proof    the runtime's hints
//!      ledger    how much may be outstanding, who is stuck, whether anybody answers
//!      quarantine  the calls during which the connection was lost, one at a time
//!      losses      how long a call that may crash the runtime is not sent
//!      rounds      what amounts to a look    reporter         what is told of our health
//!      settling    what waits to be read after a pause of this process
//! ```
//!
//! Each part owns its state and is told the time. Nothing here waits for the runtime: calls
//! run in tasks of their own and report by message, so whatever hangs, the loop turns.
//!
//! [`Pleg::start`](crate::Pleg::start) runs all of it. The ledger is [`base::ledger`], for the guard
//! uses it, too.

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
mod list_times;
mod lists;
mod looks;
mod losses;
mod processes;
mod proof;
mod quarantine;
mod relister;
mod relists;
mod report;
mod reporter;
mod rounds;
mod settling;
mod standing;
mod state;
mod stream;
mod sweeper;
mod sweeps;
mod unobserved;

pub use limits::{LATE, SMALLEST_WINDOW, STUCK_FACTOR, SUSPECT};
