//! What happened on a node, and for how long.
//!
//! ```text
//!   saved logs ----- analyze --\
//!   the recorder --- fold ------+--> Episode --> timeline: HTML, SVG, JSON, text
//! ```
//!
//! An [`Episode`] is the unit in which a log and our own recording can be compared: it has a
//! beginning, an end, a kind, an object, a reason, and the line that shows it.
//!
//! ```
//! use episodes::{Episode, What};
//! use pleg_text::WallTime;
//!
//! let from = WallTime::from_unix_nanos(1_700_000_000_000_000_000).unwrap();
//! let to = WallTime::from_unix_nanos(1_700_000_120_000_000_000).unwrap();
//! let call = What::HungCall { call: "ContainerStatus".into() };
//! let episode = Episode::new(from, Some(to), call, "the call did not return for 2m0s");
//! assert_eq!(episode.lasted().unwrap().as_secs(), 120);
//! ```

mod collector;
mod episode;
mod intervals;
mod what;

pub use collector::Collector;
pub use episode::{Episode, Source};
pub use intervals::intervals;
pub use what::{Level, What};
