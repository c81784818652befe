//! The methods of CRI that the simulated runtime implements.

use cri::Rpc;

/// The implemented methods. Each of them can have faults.
pub const SERVED: [Rpc; 33] = [
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
    Rpc::UpdateContainerResources,
    Rpc::UpdatePodSandboxResources,
    Rpc::ReopenContainerLog,
    Rpc::ExecSync,
    Rpc::RuntimeConfig,
    Rpc::ContainerStats,
    Rpc::ListContainerStats,
    Rpc::StreamContainerStats,
    Rpc::PodSandboxStats,
    Rpc::ListPodSandboxStats,
    Rpc::StreamPodSandboxStats,
    Rpc::ListPodSandboxMetrics,
    Rpc::StreamPodSandboxMetrics,
    Rpc::ListImages,
    Rpc::ImageStatus,
    Rpc::PullImage,
    Rpc::ImageFsInfo,
];

/// The lists of statistics, whole and as streams.
pub const STATISTICS: [Rpc; 6] = [
    Rpc::ListContainerStats,
    Rpc::StreamContainerStats,
    Rpc::ListPodSandboxStats,
    Rpc::StreamPodSandboxStats,
    Rpc::ListPodSandboxMetrics,
    Rpc::StreamPodSandboxMetrics,
];
