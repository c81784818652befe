//! A kubelet's metrics text: what a relist costs, which call dominates, how far it is from
//! trouble. Today's names (seconds, histograms) and those until 1.13 (microseconds, summaries).
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
