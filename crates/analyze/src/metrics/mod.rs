//! A kubelet's metrics text: what a relist costs, which call dominates, how far it is from
//! trouble. Today's names (seconds, histograms) and those until 1.13 (microseconds, summaries).

mod exposition;
mod reading;

pub use exposition::{Exposition, Sample};
pub use reading::{MetricsReading, Operation, Spread, read};
