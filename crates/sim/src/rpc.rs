//! The methods of CRI that the simulated runtime implements.

use cri::Rpc;

/// The implemented methods. Each of them can have faults.
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
