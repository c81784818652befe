//! Text that is safe to display and to save, and times as text.
//!
//! ```text
//!   a name, a message, a page --> escape --> without characters that control a terminal
//!   a line of a log, an error --> redact --> without credentials
//!   WallTime                  --> RFC 3339, in UTC with nanoseconds
//!   GoDuration                <-> as Go prints and parses durations: 3m0s
//! ```
//!
//! ```
//! use pleg_text::{GoDuration, GoDurationError, WallTime};
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

pub mod escape;
mod go_duration;
mod redact;
mod wall_time;

pub use go_duration::{GoDuration, GoDurationError};
pub use redact::{REDACTED, redact, redacted};
pub use wall_time::WallTime;
