//! The work for one pod.

use std::time::Duration;

use pleg::model::id::{PodRef, PodUid};
use pleg::model::status::PodStatus;
use pleg::out::cache::Entry;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The goal for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal<S> {
    /// The pod runs as specified.
    Run(S),
    /// The pod ends, and nothing of it is left.
    End,
}

/// One sync of one pod.
#[derive(Clone, Debug)]
pub struct Turn<S> {
    /// The pod.
    pub pod: PodRef,
    /// The goal.
    pub goal: Goal<S>,
    /// The status of the pod in the runtime, as of `since` or later. If its last inspection failed,
    /// it is the last known status: see [`Self::status`].
    pub entry: Entry,
    /// When the last sync with a change ended; before the first one, when the loop began.
    pub since: Instant,
    /// Whether the entry has everything that was created before `since`. It is not complete while
    /// sandboxes or containers cannot be listed, or while a listed one is not found: what it does
    /// not show may then exist.
    pub is_complete: bool,
    /// Whether the runtime's network is ready. Until then only pods on the host's network are
    /// started.
    pub network_ready: bool,
    /// Causes one more sync of this pod.
    pub waker: Waker,
}

impl<S> Turn<S> {
    /// The status, if the last inspection succeeded; otherwise the outcome of a sync that depends
    /// on it.
    pub fn status(&self) -> Result<&PodStatus, Outcome> {
        match &self.entry.error {
            None => Ok(&self.entry.status),
            Some(error) => Err(Outcome::Failed(format!(
                "error determining status: {error}"
            ))),
        }
    }
}

/// Wakes a pod: it is synced once more, soon. For work that continues after a sync has ended.
#[derive(Clone, Debug)]
pub struct Waker {
    pub(crate) pod: PodUid,
    pub(crate) woken: mpsc::UnboundedSender<PodUid>,
}

impl Waker {
    /// Wakes the pod. Has no effect once the loop has ended.
    pub fn wake(&self) {
        let _ = self.woken.send(self.pod.clone());
    }
}

/// How a sync ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was possible was done.
    Done {
        /// Whether something was changed. Then the PLEG inspects the pod at once, and the next sync
        /// has a status that is newer than the end of this one.
        changed: bool,
        /// When more is to be done, such as at the end of a back-off, if nothing happens before.
        again_in: Option<Duration>,
    },
    /// The pod was to end, and nothing of it is left.
    Ended,
    /// It failed, and is retried after some time.
    Failed(String),
    /// It failed because the runtime's network is not ready, and is retried soon.
    NetworkNotReady,
}

/// Changes a pod to its goal.
pub trait SyncPod: Send + Sync + 'static {
    /// What it must know of a pod.
    type Spec: Clone + Send + Sync + 'static;

    /// Performs one sync. It has its own deadlines: until it ends, this pod has no other sync, and
    /// no other pod waits for it.
    fn sync(&self, turn: Turn<Self::Spec>) -> impl Future<Output = Outcome> + Send;
}
