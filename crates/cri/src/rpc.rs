//! The methods of CRI: the only table of their names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ApiVersion;

macro_rules! rpcs {
    ($($service:ident { $($name:ident($subject:ident) $operation:literal,)* })*) => {
        /// A method of CRI. Its text and its JSON are CRI's name of the method.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum Rpc {
            $($(#[doc = concat!("`", stringify!($service), ".", stringify!($name), "`")] $name,)*)*
        }

        impl Rpc {
            /// All methods of both services.
            pub const ALL: &[Self] = &[$($(Self::$name,)*)*];

            /// CRI's name of the method.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$name => stringify!($name),)*)*
                }
            }

            /// The service that the method belongs to: `RuntimeService` or `ImageService`.
            pub const fn service(self) -> &'static str {
                match self {
                    $($(Self::$name)|* => stringify!($service),)*
                }
            }

            /// The method's name in the kubelet's metrics (label `operation_type`). A streamed list
            /// has the name of the list. Methods that no kubelet counts yet are named in the same
            /// way.
            pub const fn operation_type(self) -> &'static str {
                match self {
                    $($(Self::$name => $operation,)*)*
                }
            }

            /// What the id in the method's request belongs to.
            pub const fn subject(self) -> Subject {
                match self {
                    $($(Self::$name => Subject::$subject,)*)*
                }
            }
        }
    };
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The node as a whole, or something that has no id yet.
    Node,
    /// One sandbox.
    Sandbox,
    /// One container.
    Container,
}

rpcs! {
    RuntimeService {
        Version(Node) "version",
        Status(Node) "status",
        ListPodSandbox(Node) "list_podsandbox",
        ListContainers(Node) "list_containers",
        PodSandboxStatus(Sandbox) "podsandbox_status",
        ContainerStatus(Container) "container_status",
        StreamPodSandboxes(Node) "list_podsandbox",
        StreamContainers(Node) "list_containers",
        GetContainerEvents(Node) "get_container_events",
        RunPodSandbox(Node) "run_podsandbox",
        StopPodSandbox(Sandbox) "stop_podsandbox",
        RemovePodSandbox(Sandbox) "remove_podsandbox",
        CreateContainer(Sandbox) "create_container",
        StartContainer(Container) "start_container",
        StopContainer(Container) "stop_container",
        RemoveContainer(Container) "remove_container",
        UpdateContainerResources(Container) "update_container",
        UpdatePodSandboxResources(Sandbox) "update_podsandbox_resources",
        ReopenContainerLog(Container) "reopen_container_log",
        CheckpointContainer(Container) "checkpoint_container",
        CheckpointPod(Sandbox) "checkpoint_pod",
        RestorePod(Node) "restore_pod",
        ExecSync(Container) "exec_sync",
        Exec(Container) "exec",
        Attach(Container) "attach",
        PortForward(Sandbox) "port_forward",
        ContainerStats(Container) "container_stats",
        ListContainerStats(Node) "list_container_stats",
        StreamContainerStats(Node) "list_container_stats",
        PodSandboxStats(Sandbox) "podsandbox_stats",
        ListPodSandboxStats(Node) "list_podsandbox_stats",
        StreamPodSandboxStats(Node) "list_podsandbox_stats",
        ListMetricDescriptors(Node) "list_metric_descriptors",
        ListPodSandboxMetrics(Node) "list_podsandbox_metrics",
        StreamPodSandboxMetrics(Node) "list_podsandbox_metrics",
        RuntimeConfig(Node) "runtime_config",
        UpdateRuntimeConfig(Node) "update_runtime_config",
    }
    ImageService {
        ListImages(Node) "list_images",
        StreamImages(Node) "list_images",
        ImageStatus(Node) "image_status",
        PullImage(Node) "pull_image",
        RemoveImage(Node) "remove_image",
        ImageFsInfo(Node) "image_fs_info",
    }
}

impl Rpc {
    /// Whether the method lists all sandboxes or all containers, in one message or as a stream.
    pub const fn is_list(self) -> bool {
        matches!(
            self,
            Self::ListPodSandbox
                | Self::ListContainers
                | Self::StreamPodSandboxes
                | Self::StreamContainers
        )
    }

    /// Whether the method requests the statistics or metrics of all containers or sandboxes, in one message
    /// or as a stream.
    pub const fn is_statistics(self) -> bool {
        matches!(
            self,
            Self::ListContainerStats
                | Self::StreamContainerStats
                | Self::ListPodSandboxStats
                | Self::StreamPodSandboxStats
                | Self::ListPodSandboxMetrics
                | Self::StreamPodSandboxMetrics
        )
    }

    /// Whether the method only reads: it creates, changes and ends nothing, and runs nothing in a
    /// container.
    pub const fn is_read(self) -> bool {
        match self {
            Self::Version
            | Self::Status
            | Self::ListPodSandbox
            | Self::ListContainers
            | Self::PodSandboxStatus
            | Self::ContainerStatus
            | Self::StreamPodSandboxes
            | Self::StreamContainers
            | Self::GetContainerEvents
            | Self::ContainerStats
            | Self::ListContainerStats
            | Self::StreamContainerStats
            | Self::PodSandboxStats
            | Self::ListPodSandboxStats
            | Self::StreamPodSandboxStats
            | Self::ListMetricDescriptors
            | Self::ListPodSandboxMetrics
            | Self::StreamPodSandboxMetrics
            | Self::RuntimeConfig
            | Self::ListImages
            | Self::StreamImages
            | Self::ImageStatus
            | Self::ImageFsInfo => true,
            Self::RunPodSandbox
            | Self::StopPodSandbox
            | Self::RemovePodSandbox
            | Self::CreateContainer
            | Self::StartContainer
            | Self::StopContainer
            | Self::RemoveContainer
            | Self::UpdateContainerResources
            | Self::UpdatePodSandboxResources
            | Self::ReopenContainerLog
            | Self::CheckpointContainer
            | Self::CheckpointPod
            | Self::RestorePod
            | Self::ExecSync
            | Self::Exec
            | Self::Attach
            | Self::PortForward
            | Self::UpdateRuntimeConfig
            | Self::PullImage
            | Self::RemoveImage => false,
        }
    }

    /// The path of the method's HTTP/2 requests: `/runtime.v1.RuntimeService/Version`.
    pub fn path(self, api: ApiVersion) -> String {
        format!("/runtime.{api}.{}/{self}", self.service())
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// CRI has no method of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("CRI has no method of that name")]
pub struct NoSuchRpc;

impl FromStr for Rpc {
    type Err = NoSuchRpc;

    fn from_str(name: &str) -> Result<Self, NoSuchRpc> {
        let named = Self::ALL.iter().find(|rpc| rpc.name() == name);
        named.copied().ok_or(NoSuchRpc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_read_from_its_own_name() {
        for rpc in Rpc::ALL {
            assert_eq!(rpc.to_string().parse(), Ok(*rpc));
            let json = serde_json::to_value(rpc).unwrap();
            assert_eq!(json, rpc.name());
            assert_eq!(serde_json::from_value::<Rpc>(json).unwrap(), *rpc);
        }
        assert_eq!("ListContainer".parse::<Rpc>(), Err(NoSuchRpc));
    }

    #[test]
    fn every_method_of_the_proto_file_is_here_and_in_its_service() {
        let proto = include_str!("../proto/cri.proto");
        let (runtime, images) = proto.split_once("service ImageService").unwrap();
        for (service, text) in [("RuntimeService", runtime), ("ImageService", images)] {
            let methods = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("rpc "));
            for method in methods {
                let (name, _) = method.split_once('(').unwrap();
                assert_eq!(
                    name.parse().map(Rpc::service),
                    Ok(service),
                    "{service}.{name}"
                );
            }
        }
    }

    #[test]
    fn the_path_names_the_version_the_service_and_the_method() {
        assert_eq!(
            Rpc::PullImage.path(ApiVersion::V1Alpha2),
            "/runtime.v1alpha2.ImageService/PullImage"
        );
    }
}
