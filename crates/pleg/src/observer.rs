//! Whoever wants to count: the library knows no metrics, it tells an [`Observer`].

use std::time::Duration;

use crate::model::event::{EventType, Source};
use crate::model::snapshot::Counts;
use crate::out::coverage::Pass;
use crate::runtime::{CallError, Rpc};

/// Is told what goes on. Called from the task that does the work: return quickly.
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

    /// A list came, of so many bytes.
    fn list_received(&self, _call: Rpc, _bytes: usize) {}

    /// A relist could not list. Others end in [`Self::seen`]; together they are the
    /// kubelet's `relist_duration`.
    fn relist_failed(&self, _took: Duration) {}

    /// A relist began so long after the last good one did. The kubelet's `relist_interval`.
    fn relist_interval(&self, _since_last: Duration) {}

    /// One pod was inspected out of turn, because of a hint that came so long ago.
    fn pod_relist_ended(&self, _took: Duration) {}

    /// A look is complete, and this is what there is. Its beginning is our `last_seen`.
    fn seen(&self, _look: &Pass, _counts: Counts) {}

    /// An event was told, so long after the runtime's own time stamp where there is one.
    fn event(&self, _event_type: EventType, _source: Source, _latency: Option<Duration>) {}

    /// The event stream was opened.
    fn stream_opened(&self) {}

    /// The event stream could not be opened, or ended.
    fn stream_failed(&self) {}

    /// The stream brought an event, so long after the runtime made it.
    fn stream_event(&self, _latency: Option<Duration>) {}

    /// So many events were conflated for a slow subscriber.
    fn conflated(&self, _events: u64) {}
}

/// Counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
