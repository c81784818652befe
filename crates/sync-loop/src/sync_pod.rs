//! What a worker does for its pod.

use std::time::Duration;

use pleg::model::id::PodRef;
use pleg::out::cache::Entry;

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
    /// What the runtime has of it, seen since the last sync of this pod ended. Its last inspection
    /// did not fail.
    pub entry: Entry,
    /// Whether the entry has whatever was created before the last sync ended. It has not while
    /// sandboxes or containers cannot be listed: only what it shows is known then, and whatever
    /// it does not show may be there.
    pub is_complete: bool,
    /// Whether the runtime's network is ready: until then only pods on the host's are started.
    pub network_ready: bool,
}

/// How a sync ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What could be done was done.
    Done {
        /// Whether anything was: then the PLEG is asked to look again at once.
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
