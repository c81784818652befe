//! Where the pods come from that are wanted.

use pleg::model::id::PodRef;

/// What a source tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<S> {
    /// This pod is wanted. Another of the same name and namespace is not any more, and ends
    /// before this one begins.
    Set(PodRef, S),
    /// This pod is not wanted: it ends, whether it was ever wanted before or was found as what an
    /// earlier run left.
    Remove(PodRef),
}

/// A source of pods: a folder of manifests is one.
pub trait Source: Send + 'static {
    /// What a worker needs to know of a pod.
    type Spec: Clone + Send + Sync + 'static;

    /// The next change; `None` once there will be no more. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Option<Change<Self::Spec>>> + Send;
}
