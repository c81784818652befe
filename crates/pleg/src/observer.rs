//! Measurements: the library has no metrics of its own, and reports to an [`Observer`].

use std::time::Duration;

use crate::model::event::{EventType, Source};
use crate::model::snapshot::Counts;
use crate::out::coverage::Pass;
use crate::runtime::{CallError, Rpc};

/// Receives what happens. Called from the task that does the work: return quickly.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// use pleg::Observer;
/// use pleg::runtime::{CallError, Rpc};
///
/// #[derive(Default)]
/// struct FailedCalls(AtomicU64);
///
/// impl Observer for FailedCalls {
///     fn call_ended(&self, _call: Rpc, _took: Duration, error: Option<&CallError>) {
///         self.0.fetch_add(u64::from(error.is_some()), Ordering::Relaxed);
///     }
/// }
/// ```
pub trait Observer: Send + Sync {
    /// A call was answered, or failed.
    fn call_ended(&self, _call: Rpc, _took: Duration, _error: Option<&CallError>) {}

    /// A list of this many bytes was received.
    fn list_received(&self, _call: Rpc, _bytes: usize) {}

    /// A relist failed to list. Others end in [`Self::seen`]; together they are the kubelet's
    /// `relist_duration`.
    fn relist_failed(&self, _took: Duration) {}

    /// A relist began this long after the last successful one. The kubelet's `relist_interval`.
    fn relist_interval(&self, _since_last: Duration) {}

    /// One pod was inspected because of a hint that arrived this long ago.
    fn pod_relist_ended(&self, _took: Duration) {}

    /// A relist or sweep is complete, with these counts. Its beginning is `last_seen`.
    fn seen(&self, _look: &Pass, _counts: Counts) {}

    /// An event was reported, this long after the runtime's own time stamp, if there is one.
    fn event(&self, _event_type: EventType, _source: Source, _latency: Option<Duration>) {}

    /// The event stream was opened.
    fn stream_opened(&self) {}

    /// The event stream could not be opened, or ended.
    fn stream_failed(&self) {}

    /// An event of the stream arrived, this long after the runtime created it.
    fn stream_event(&self, _latency: Option<Duration>) {}

    /// This many events were merged for a slow subscriber.
    fn conflated(&self, _events: u64) {}
}

/// Counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
