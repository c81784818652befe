//! The settings and the environment. A setting that a kubelet has too has the kubelet's default.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use base::host::{IdSource, no_ids};
use base::ledger::Places;

use crate::kernel::Kernel;
use crate::model::wall_time::WallClock;
use crate::observer::{NoObserver, Observer};
use crate::out::health::RELIST_THRESHOLD;

/// How changes are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Changes are found by the runtime's events, if it has them, and by relists.
    #[default]
    Auto,
    /// Changes are found by relists, as the kubelet finds them.
    Generic,
    /// Like `Auto`, with a warning for a runtime without events.
    Evented,
}

/// The settings. [`Default`] suits a node.
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
    /// The time from the end of one relist to the next; the kubelet's 1 s.
    pub relist_period: Duration,
    /// The longest time between relists, which is used while the stream or the kernel announces all
    /// changes. A change that is not announced is observed within this time.
    pub relist_ceiling: Duration,
    /// How long it may be since a pod was last observed before the node is Unhealthy; the kubelet's 3 min.
    pub relist_threshold: Duration,
    /// The time after which a list is overdue. If lists take longer on the node, it is overdue after four
    /// times their 95th percentile instead, at most 3.5 s.
    pub list_overdue: Duration,
    /// The time after which a status call is overdue if any other call is answered. If others of its kind
    /// are answered, it is suspect after [`SUSPECT_AFTER`](crate::engine::SUSPECT_AFTER).
    pub status_overdue: Duration,
    /// How many pods are inspected at once.
    pub max_inspections: usize,
    /// How many status calls of one pod are outstanding at once.
    pub calls_per_pod: usize,
    /// How many calls may be outstanding at once. Stuck calls are counted separately, up to
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
    /// The limits of the ledger of calls.
    pub(crate) fn places(&self) -> Places {
        Places {
            outstanding_calls: self.max_outstanding_calls,
            status_overdue: self.status_overdue,
        }
    }
}

/// What the generator needs besides the runtime.
#[derive(Clone)]
pub struct Environment {
    /// Where the runtime listens, for display.
    pub endpoint: Arc<str>,
    /// The time of day.
    pub clock: WallClock,
    /// Receives what happens, for metrics.
    pub observer: Arc<dyn Observer>,
    /// Returns the ids that the host knows, for sweeps.
    pub ids: IdSource,
    /// The source of the kernel's hints; `None` if they are not used.
    pub kernel: Option<Arc<dyn Kernel>>,
}

impl Environment {
    /// An environment without an observer, ids of the host or hints of the kernel.
    pub fn new(endpoint: impl Into<Arc<str>>, clock: WallClock) -> Self {
        Self {
            endpoint: endpoint.into(),
            clock,
            observer: Arc::new(NoObserver),
            ids: no_ids(),
            kernel: None,
        }
    }
}
