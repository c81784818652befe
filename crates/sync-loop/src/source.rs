//! The source of the wanted pods.

use pleg::model::id::PodRef;

/// A change of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<S> {
    /// This pod is wanted. Another pod of the same name and namespace is not wanted any more, and
    /// ends before this one begins.
    Set(PodRef, S),
    /// This pod is not wanted: it ends, whether it was wanted before or was left by an earlier run.
    Remove(PodRef),
}

/// A source of pods, such as a folder of manifests.
pub trait Source: Send + 'static {
    /// What a worker must know of a pod.
    type Spec: Clone + Send + Sync + 'static;

    /// The next change; `None` if no more will follow. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Option<Change<Self::Spec>>> + Send;
}
