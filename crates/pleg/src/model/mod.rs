//! Plain data: ids, listed rows, statuses, events, and times.

pub use base::id;

pub mod backoff;
pub mod event;
pub mod grouping;
pub mod listed;
pub mod run_clock;
pub mod snapshot;
pub mod status;
pub mod wall_time;
