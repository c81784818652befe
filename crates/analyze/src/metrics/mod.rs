//! A kubelet's metrics: how long relists take, which call takes the most time, and how far relists
//! are from the threshold. Supports the current names (seconds, histograms) and those up to
//! Kubernetes 1.13 (microseconds, summaries).
//!
//! ```
//! use analyze::metrics::{Exposition, read};
//!
//! let text = "kubelet_pleg_relist_duration_seconds_sum 90
//! kubelet_pleg_relist_duration_seconds_count 20
//! ";
//! let mut exposition = Exposition::default();
//! for line in text.lines() {
//!     exposition.line(line);
//! }
//! let relist = read(exposition.samples()).map(|reading| reading.relist);
//! assert_eq!(relist.and_then(|relist| relist.mean_seconds), Some(4.5));
//! ```

mod exposition;
mod reading;

pub use exposition::{Exposition, Sample};
pub use reading::{MetricsReading, Operation, Spread, read};
