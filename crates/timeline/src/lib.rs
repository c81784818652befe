//! A picture of what happened on a node.
//!
//! ```text
//!   episodes --> rows: one for each subject, the culprit first
//!                  |
//!                  +--> html: one file, no network; zoom, hover, keys
//!                  +--> svg:  the same picture, for a README or a ticket
//!                  \--> text: for a terminal
//! ```
//!
//! Nothing here reads files or the clock.
//!
//! ```
//! use episodes::{Episode, What};
//! use timeline::{Picture, text};
//! use pleg_text::WallTime;
//!
//! let from = WallTime::from_unix_nanos(1_700_000_000_000_000_000).unwrap();
//! let to = WallTime::from_unix_nanos(1_700_000_120_000_000_000).unwrap();
//! let episode = Episode::new(from, Some(to), What::NotReady, "the PLEG was not healthy");
//! let picture = Picture::new("The node was NotReady.", vec![episode]).unwrap();
//! assert!(text(&picture, 100).contains("NotReady"));
//! ```

mod html;
mod picture;
mod rows;
mod scale;
mod summary;
mod svg;
mod text;

pub use html::html;
pub use picture::{Advice, Picture};
pub use summary::summary;
pub use svg::svg;
pub use text::text;
