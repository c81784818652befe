//! Plain data: ids, listed rows, statuses, events, and times.
//!
//! ```
//! use pleg::model::id::{Id, PodRef};
//!
//! let pod = PodRef {
//!     uid: "0b1c".into(),
//!     namespace: "default".into(),
//!     name: "web-0".into(),
//! };
//! assert_eq!(pod.to_string(), "default/web-0");
//! assert_eq!(Id::from("61ac7eca54e9").as_str(), "61ac7eca54e9");
//! ```

pub use base::id;

pub mod backoff;
pub mod event;
pub mod grouping;
pub mod listed;
pub mod run_clock;
pub mod snapshot;
pub mod status;
pub mod wall_time;
