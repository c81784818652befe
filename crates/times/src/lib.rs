//! How times are written: the time of day as RFC 3339 ([`WallTime`]), and durations as Go
//! prints and parses them ([`GoDuration`]).

mod go_duration;
mod wall_time;

pub use go_duration::{GoDuration, GoDurationError};
pub use wall_time::WallTime;
