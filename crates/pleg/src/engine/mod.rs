//! The engine: what is asked of the runtime, when, and what is made of the answers.
//!
//! ```text
//!   driver: one task that owns the engine, asks the runtime, reads the stream, waits for deaths
//!      |  Input: an answer, an event, a death, time       ^  Action: ask, open, watch
//!      v                                                  |
//!   engine: pure; knows no clock and does no IO ----------/
//!      relister    when the two lists are due      list_history  how each was answered
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
//! [`Pleg::start`](crate::Pleg::start) runs all of it. The [`Ledger`] alone is public, for those
//! who make calls of their own, as the guard does:
//!
//! ```
//! use std::time::Duration;
//!
//! use pleg::Config;
//! use pleg::engine::Ledger;
//! use pleg::runtime::{About, Rpc};
//! use tokio::time::Instant;
//!
//! let (now, second) = (Instant::now(), Duration::from_secs(1));
//! let mut ledger = Ledger::new(&Config::default(), now);
//! ledger.begin(About::node(Rpc::ListContainers), now);
//! ledger.pass(now + second);
//! assert_eq!(ledger.silent_since(), Some(now));
//!
//! ledger.answered(&(Rpc::ListContainers, None), now + 2 * second);
//! assert_eq!(ledger.silent_since(), None);
//! ```

mod answers;
mod births;
mod call;
mod calls;
mod commits;
mod coverage;
mod differing;
mod doubts;
pub(crate) mod driver;
mod evidence;
mod failures;
mod hint_budget;
mod hints;
mod inspector;
mod kernel_hints;
mod ledger;
mod limits;
mod list_history;
mod list_times;
mod lists;
mod losses;
mod passes;
mod processes;
mod proof;
mod quarantine;
mod relister;
mod relists;
mod report;
mod reporter;
mod review;
mod settling;
mod state;
mod stream;
mod sweeper;
mod sweeps;
mod unobserved;

pub use call::Key;
pub use ledger::Ledger;
pub use limits::{LATE, SMALLEST_WINDOW, STUCK_FACTOR, SUSPECT};
