//! What a worker does for its pod.

use std::time::Duration;

use pleg::model::id::{PodRef, PodUid};
use pleg::model::status::PodStatus;
use pleg::out::cache::Entry;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What is to become of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal<S> {
    /// It runs as this wants it.
    Run(S),
    /// It ends, and leaves nothing.
    End,
}

/// One sync of one pod.
#[derive(Clone, Debug)]
pub struct Turn<S> {
    /// Which pod.
    pub pod: PodRef,
    /// What is to become of it.
    pub goal: Goal<S>,
    /// What the runtime has of it, seen after `since`. If its last inspection failed, it shows what
    /// was known before: see [`Self::status`].
    pub entry: Entry,
    /// When the last sync ended that changed something; before the first one, when the loop began.
    pub since: Instant,
    /// Whether the entry has whatever was created before `since`. It has not while sandboxes or
    /// containers cannot be listed, or while one that is listed is not found: only what it shows
    /// is known then, and whatever it does not show may be there.
    pub is_complete: bool,
    /// Whether the runtime's network is ready: until then only pods on the host's are started.
    pub network_ready: bool,
    /// Has this pod synced once more.
    pub waker: Waker,
}

impl<S> Turn<S> {
    /// The status, if the last inspection was good; or else the outcome with which a sync ends that
    /// depends on it.
    pub fn status(&self) -> Result<&PodStatus, Outcome> {
        match &self.entry.error {
            None => Ok(&self.entry.status),
            Some(error) => Err(Outcome::Failed(format!(
                "error determining status: {error}"
            ))),
        }
    }
}

/// Wakes a pod: it is synced once more, soon. For whatever goes on after a sync has ended.
#[derive(Clone, Debug)]
pub struct Waker {
    pub(crate) pod: PodUid,
    pub(crate) woken: mpsc::UnboundedSender<PodUid>,
}

impl Waker {
    /// Wakes the pod. Without effect once the loop has ended.
    pub fn wake(&self) {
        let _ = self.woken.send(self.pod.clone());
    }
}

/// How a sync ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What could be done was done.
    Done {
        /// Whether anything was: then the PLEG is asked to look again at once, and the next sync
        /// is by a status that is newer than this one's end.
        changed: bool,
        /// When there is more to do, such as the end of a back-off, if nothing happens before.
        again_in: Option<Duration>,
    },
    /// The pod was to end, and nothing of it is left.
    Ended,
    /// It failed, and is tried again after a while.
    Failed(String),
    /// It failed because the runtime's network is not ready, and is tried again soon.
    NetworkNotReady,
}

/// Brings a pod to what is wanted of it.
pub trait SyncPod: Send + Sync + 'static {
    /// What it needs to know of a pod.
    type Spec: Clone + Send + Sync + 'static;

    /// Does one sync. It has deadlines of its own: until it ends, this pod has no other, and no
    /// other pod waits for it.
    fn sync(&self, turn: Turn<Self::Spec>) -> impl Future<Output = Outcome> + Send;
}
