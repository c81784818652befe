//! What can be set, with the kubelet's figures where it has them, and what comes from
//! outside.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use base::host::IdSource;
use base::ledger::Places;

use crate::kernel::Kernel;
use crate::model::wall_time::WallClock;
use crate::observer::Observer;
use crate::out::health::RELIST_THRESHOLD;

/// How changes are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// By the runtime's events where it has them, and by relisting.
    #[default]
    Auto,
    /// By relisting, as the kubelet does.
    Generic,
    /// As `Auto`, and a runtime without events is worth a warning.
    Evented,
}

/// How to relist. [`Default`] is what a node wants.
///
/// ```
/// use std::time::Duration;
///
/// use pleg::{Config, Mode};
///
/// let config = Config {
///     mode: Mode::Generic,
///     relist_period: Duration::from_secs(2),
///     ..Config::default()
/// };
/// assert_eq!(config.relist_threshold, Duration::from_secs(180));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How changes are found.
    pub mode: Mode,
    /// From the end of one pair of lists to the next; the kubelet's 1 s.
    pub relist_period: Duration,
    /// How far that may grow while the event stream has proved itself. A change that a
    /// proved stream does not announce, and a runtime that stops with nobody dying, is seen after
    /// this time at the latest.
    pub relist_ceiling: Duration,
    /// For how long nobody may have been seen before we are Unhealthy; the kubelet's 3 min.
    pub relist_threshold: Duration,
    /// When a list counts as overdue, unless our own lists have been slower: then at four
    /// times their 95th percentile.
    pub list_overdue: Duration,
    /// When a status call counts as overdue if any other call is answered. If others of its
    /// kind are, it is suspect after [`SUSPECT`](crate::engine::SUSPECT).
    pub status_overdue: Duration,
    /// How many pods are inspected at once.
    pub max_inspections: usize,
    /// How many status calls of one pod are outstanding at once.
    pub calls_per_pod: usize,
    /// How many calls may be outstanding at once. Those that are stuck while others of their
    /// kind are answered are counted apart, up to
    /// [`STUCK_FACTOR`](crate::engine::STUCK_FACTOR) times as many in all.
    pub max_outstanding_calls: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            relist_period: Duration::from_secs(1),
            relist_ceiling: Duration::from_secs(30),
            relist_threshold: RELIST_THRESHOLD,
            list_overdue: Duration::from_secs(2),
            status_overdue: Duration::from_secs(5),
            max_inspections: 16,
            calls_per_pod: 8,
            max_outstanding_calls: 64,
        }
    }
}

impl Config {
    /// What bounds the ledger.
    pub(crate) fn places(&self) -> Places {
        Places {
            outstanding_calls: self.max_outstanding_calls,
            status_overdue: self.status_overdue,
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
    /// Who knows which processes live; `None` where nobody is to be asked.
    pub kernel: Option<Arc<dyn Kernel>>,
}
