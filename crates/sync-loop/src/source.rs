//! The source of the wanted pods.

use pleg::model::id::PodRef;

/// A change of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<S> {
    /// This pod is wanted. Another pod with its namespace and name is no longer wanted, and ends
    /// before this one starts.
    Set(PodRef, S),
    /// This pod is not wanted, and must end. It was set before, or an earlier run left it.
    Remove(PodRef),
}

/// A source of pods, such as a folder of manifests.
pub trait Source: Send + 'static {
    /// The specification of a pod, for [`SyncPod`](crate::SyncPod).
    type Spec: Clone + Send + Sync + 'static;

    /// Waits for the next change; `None` if there are no more. Dropping the future loses no change.
    fn next(&mut self) -> impl Future<Output = Option<Change<Self::Spec>>> + Send;
}
