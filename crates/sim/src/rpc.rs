//! The methods of CRI that the simulated runtime has.

use cri::Rpc;

/// What can be called, and so be made to go wrong.
pub const SERVED: [Rpc; 23] = [
    Rpc::Version,
    Rpc::Status,
    Rpc::ListPodSandbox,
    Rpc::ListContainers,
    Rpc::PodSandboxStatus,
    Rpc::ContainerStatus,
    Rpc::StreamPodSandboxes,
    Rpc::StreamContainers,
    Rpc::GetContainerEvents,
    Rpc::RunPodSandbox,
    Rpc::StopPodSandbox,
    Rpc::RemovePodSandbox,
    Rpc::CreateContainer,
    Rpc::StartContainer,
    Rpc::StopContainer,
    Rpc::RemoveContainer,
    Rpc::ReopenContainerLog,
    Rpc::ExecSync,
    Rpc::RuntimeConfig,
    Rpc::ListImages,
    Rpc::ImageStatus,
    Rpc::PullImage,
    Rpc::ImageFsInfo,
];
