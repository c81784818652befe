//! Times as text: the time of day as RFC 3339 ([`WallTime`]), and durations as Go prints and parses
//! them ([`GoDuration`]).
//!
//! ```
//! use times::{GoDuration, GoDurationError, WallTime};
//!
//! let threshold: GoDuration = "3m0s".parse()?;
//! assert_eq!(threshold.0.as_secs(), 180);
//! assert_eq!(threshold.to_string(), "3m0s");
//!
//! let time = WallTime::from_unix_nanos(1_700_000_000_120_000_000);
//! let shown = time.map(|time| time.to_string());
//! assert_eq!(shown.as_deref(), Some("2023-11-14T22:13:20.120000000Z"));
//! # Ok::<(), GoDurationError>(())
//! ```

mod go_duration;
mod wall_time;

pub use go_duration::{GoDuration, GoDurationError};
pub use wall_time::WallTime;
