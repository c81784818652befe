//! The methods on whose calls the core decides.

use cri::Rpc;

use crate::wire::Kind;

/// How the core handles the calls of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// A list of this kind.
    List(Kind),
    /// The status of one id.
    Status(Kind),
    /// A call whose answer depends only on the process of the runtime, not on the request.
    Node,
    /// Statistics, by which a kubelet decides which pods to evict.
    Stats,
    /// A call that changes something.
    Mutation,
    /// A call that creates a sandbox with its containers.
    Restore,
}

impl Method {
    /// Returns `None` for a method whose calls are passed on unread.
    pub(super) fn of(rpc: Rpc) -> Option<Self> {
        Some(match rpc {
            Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => Self::List(Kind::Sandbox),
            Rpc::ListContainers | Rpc::StreamContainers => Self::List(Kind::Container),
            Rpc::PodSandboxStatus => Self::Status(Kind::Sandbox),
            Rpc::ContainerStatus => Self::Status(Kind::Container),
            Rpc::Version | Rpc::RuntimeConfig => Self::Node,
            Rpc::ImageFsInfo => Self::Stats,
            rpc if rpc.is_statistics() => Self::Stats,
            Rpc::RunPodSandbox
            | Rpc::StopPodSandbox
            | Rpc::RemovePodSandbox
            | Rpc::UpdatePodSandboxResources
            | Rpc::CreateContainer
            | Rpc::StartContainer
            | Rpc::StopContainer
            | Rpc::RemoveContainer
            | Rpc::UpdateContainerResources => Self::Mutation,
            Rpc::RestorePod => Self::Restore,
            _ => return None,
        })
    }
}

/// Whether the core decides on calls of this method. All others are passed on unread.
pub fn is_intercepted(rpc: Rpc) -> bool {
    Method::of(rpc).is_some()
}
