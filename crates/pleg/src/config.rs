//! What can be set, with the kubelet's figures where it has them, and what comes from
//! outside.

use std::sync::Arc;
use std::time::Duration;

use crate::health::RELIST_THRESHOLD;
use crate::id::Id;
use crate::observer::Observer;
use crate::wall_time::WallClock;

/// How to relist. [`Default`] is what a node wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// From the end of one pair of lists to the next; the kubelet's 1 s.
    pub relist_period: Duration,
    /// For how long no sweep may complete before we are Unhealthy; the kubelet's 3 min.
    pub relist_threshold: Duration,
    /// When a list counts as overdue, unless our own lists have been slower: then at four
    /// times their 95th percentile.
    pub list_overdue: Duration,
    /// When a status call counts as overdue.
    pub status_overdue: Duration,
    /// How many pods are inspected at once.
    pub max_inspections: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            relist_period: Duration::from_secs(1),
            relist_threshold: RELIST_THRESHOLD,
            list_overdue: Duration::from_secs(2),
            status_overdue: Duration::from_secs(5),
            max_inspections: 16,
        }
    }
}

/// What the generator takes from outside besides the runtime.
#[derive(Clone)]
pub struct Environment {
    /// Where the runtime listens, for display.
    pub endpoint: Arc<str>,
    /// The time of day.
    pub clock: WallClock,
    /// Who counts.
    pub observer: Arc<dyn Observer>,
    /// Ids that the host knows of, asked for while a list does not come.
    pub ids: IdSource,
}

/// Ids of containers and sandboxes from somewhere else than the runtime's lists, such as
/// the runtime's own folders. More than there are does no harm. Must not block.
pub type IdSource = Arc<dyn Fn() -> Vec<Id> + Send + Sync>;

/// For a host of which nothing is known.
pub fn no_ids() -> IdSource {
    Arc::new(Vec::new)
}
