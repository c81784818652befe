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
    /// The pod must run by this specification.
    Run(S),
    /// The pod must end, and everything that belongs to it must be removed.
    End,
}

/// The request for one sync of one pod.
#[derive(Clone, Debug)]
pub struct SyncRequest<S> {
    /// The pod.
    pub pod: PodRef,
    /// The goal.
    pub goal: Goal<S>,
    /// The status of the pod, as of `since` or later. If its last inspection failed, this is the
    /// last known status: see [`Self::status`].
    pub entry: Entry,
    /// When the last sync that changed something, or may have, ended; before the first one, when
    /// the loop started.
    pub since: Instant,
    /// Whether the entry contains everything that was created before `since`. It does not while
    /// sandboxes or containers cannot be listed, or while a listed one is not found.
    pub is_complete: bool,
    /// Whether the runtime's network is ready. If not, only pods on the host's network can be
    /// started.
    pub network_ready: bool,
    /// Causes one more sync of this pod.
    pub waker: Waker,
}

impl<S> SyncRequest<S> {
    /// The status, or, if the last inspection failed, the outcome of a sync that needs the status.
    pub fn status(&self) -> Result<&PodStatus, Outcome> {
        match &self.entry.error {
            None => Ok(&self.entry.status),
            Some(error) => Err(Outcome::Failed(format!(
                "error determining status: {error}"
            ))),
        }
    }
}

/// Causes one more sync of a pod. It is for work that continues after a sync has ended.
#[derive(Clone, Debug)]
pub struct Waker {
    pub(crate) pod: PodUid,
    pub(crate) sender: mpsc::UnboundedSender<PodUid>,
}

impl Waker {
    /// Requests the sync. Has no effect once the loop has ended.
    pub fn wake(&self) {
        let _ = self.sender.send(self.pod.clone());
    }
}

/// How a sync ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was possible was done.
    Done {
        /// Whether something was changed. If so, a relist is requested, and the next sync has a
        /// status as of the end of this one or later.
        changed: bool,
        /// The time until the next sync if no event causes an earlier one, such as the rest of a
        /// back-off.
        again_in: Option<Duration>,
    },
    /// The goal was [`Goal::End`], and everything that belongs to the pod is removed.
    Ended,
    /// The sync failed, and is retried after 10 to 15 s.
    Failed(String),
    /// The sync failed because the runtime's network is not ready, and is retried after 1 to 1.5 s.
    NetworkNotReady,
}

/// Brings a pod to its goal.
pub trait SyncPod: Send + Sync + 'static {
    /// The specification of a pod.
    type Spec: Clone + Send + Sync + 'static;

    /// Performs one sync. It must have deadlines of its own: the pod has no other sync until this
    /// one ends. Other pods do not wait for it.
    fn sync(&self, request: SyncRequest<Self::Spec>) -> impl Future<Output = Outcome> + Send;
}
