//! Measurements: the library exports no metrics, and reports to an [`Observer`].

use std::time::Duration;

use crate::model::event::{EventType, Source};
use crate::model::snapshot::Counts;
use crate::out::coverage::Pass;
use crate::runtime::{CallError, Rpc};

/// Receives each [`Measurement`]. Called from the task that does the work: return quickly.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use pleg::{Measurement, Observer};
///
/// #[derive(Default)]
/// struct FailedCalls(AtomicU64);
///
/// impl Observer for FailedCalls {
///     fn observe(&self, measurement: &Measurement) {
///         if let Measurement::CallEnded { error: Some(_), .. } = measurement {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Observer: Send + Sync {
    /// Receives a measurement.
    fn observe(&self, measurement: &Measurement);
}

/// Something that happened, with its figures.
#[derive(Clone, Debug)]
pub enum Measurement {
    /// A call was answered, or failed with an error.
    CallEnded {
        /// Which call.
        call: Rpc,
        /// The time since it was sent.
        took: Duration,
        /// Why it failed; `None` if it was answered successfully.
        error: Option<CallError>,
    },
    /// A list was received.
    ListReceived {
        /// Which list.
        call: Rpc,
        /// Its size.
        bytes: usize,
    },
    /// A relist ended after this time because a list failed. All other relists end in [`Self::Seen`];
    /// together they are the kubelet's `relist_duration`.
    RelistFailed(Duration),
    /// A relist began, this long after the last successful one. The kubelet's `relist_interval`.
    RelistBegan(Duration),
    /// One pod was inspected because of a hint that arrived this long ago.
    PodRelistEnded(Duration),
    /// A relist or sweep is complete, with these counts. The status report shows its beginning as
    /// `lastSeen`.
    Seen(Pass, Counts),
    /// An event was reported.
    Event {
        /// What it is.
        event_type: EventType,
        /// Which source caused it.
        source: Source,
        /// The time since the runtime's own time stamp, if there is one.
        latency: Option<Duration>,
    },
    /// The event stream was opened.
    StreamOpened,
    /// The event stream could not be opened, or ended.
    StreamFailed,
    /// An event of the stream arrived, this long after the runtime created it.
    StreamEvent(Option<Duration>),
    /// This many events were merged for a slow subscriber.
    Conflated(u64),
}

/// Measures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&self, _: &Measurement) {}
}
