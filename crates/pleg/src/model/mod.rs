//! The vocabulary of the library: ids, listed rows, snapshots and how rows are grouped into them, statuses,
//! events; wall time, the run clock, and pauses that grow.

pub use base::id;

pub mod backoff;
pub mod event;
pub mod grouping;
pub mod listed;
pub mod run_clock;
pub mod snapshot;
pub mod status;
pub mod wall_time;
