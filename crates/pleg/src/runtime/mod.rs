//! The runtime as the rest of the library sees it: a few calls, their answers in our own
//! types, and why a call failed. [`grpc`] is the door to a real one.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::listed::{ListedContainer, ListedSandbox};
use crate::status::{ContainerStatus, SandboxStatus};

pub mod grpc;

mod announced;
mod conditions;
mod convert;
mod failure;
mod list;
mod rows;

pub use announced::{Announced, AnnouncedSandbox, Announcements};
pub use conditions::{Condition, Conditions};
pub use failure::CallError;

/// The calls that are made, by CRI's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Which runtime is this.
    Version,
    /// All sandboxes.
    ListPodSandbox,
    /// All containers.
    ListContainers,
    /// One sandbox.
    PodSandboxStatus,
    /// One container.
    ContainerStatus,
    /// The stream of events.
    GetContainerEvents,
}

impl Call {
    /// The calls that have an end, in the order in which they are shown.
    pub const ALL: [Self; 5] = [
        Self::Version,
        Self::ListPodSandbox,
        Self::ListContainers,
        Self::PodSandboxStatus,
        Self::ContainerStatus,
    ];

    /// CRI's method name.
    pub fn method(self) -> &'static str {
        match self {
            Self::Version => "Version",
            Self::ListPodSandbox => "ListPodSandbox",
            Self::ListContainers => "ListContainers",
            Self::PodSandboxStatus => "PodSandboxStatus",
            Self::ContainerStatus => "ContainerStatus",
            Self::GetContainerEvents => "GetContainerEvents",
        }
    }

    /// The name under which the kubelet counts it (label `operation_type`).
    pub fn operation_type(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::ListPodSandbox => "list_podsandbox",
            Self::ListContainers => "list_containers",
            Self::PodSandboxStatus => "podsandbox_status",
            Self::ContainerStatus => "container_status",
            Self::GetContainerEvents => "get_container_events",
        }
    }

    /// Whether it lists the whole node.
    pub fn is_list(self) -> bool {
        matches!(self, Self::ListPodSandbox | Self::ListContainers)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method())
    }
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeVersion {
    /// `containerd`, `cri-o`.
    pub name: Arc<str>,
    /// Its version, as it says it.
    pub version: Arc<str>,
    /// The generation of CRI that we speak with it: `v1` or `v1alpha2`.
    pub api_version: Arc<str>,
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, CRI {}",
            self.name, self.version, self.api_version
        )
    }
}

/// A list and what it weighed on the wire.
#[derive(Clone, Debug)]
pub struct Listing<Row> {
    /// The rows. One that is as it was in the last answer is the same `Arc`; where all
    /// are, so may be the whole.
    pub rows: Arc<[Arc<Row>]>,
    /// The answer's size in bytes.
    pub bytes: usize,
}

/// A container runtime. Calls have no deadline of their own: who calls watches over them
/// (see [`crate::calls`]).
pub trait Runtime: Send + Sync + 'static {
    /// Asks who answers.
    fn version(&self) -> impl Future<Output = Result<RuntimeVersion, CallError>> + Send;

    /// Lists all sandboxes.
    fn list_sandboxes(
        &self,
    ) -> impl Future<Output = Result<Listing<ListedSandbox>, CallError>> + Send;

    /// Lists all containers.
    fn list_containers(
        &self,
    ) -> impl Future<Output = Result<Listing<ListedContainer>, CallError>> + Send;

    /// Inspects a sandbox.
    fn sandbox_status(
        &self,
        id: &Id,
    ) -> impl Future<Output = Result<SandboxStatus, CallError>> + Send;

    /// Inspects a container.
    fn container_status(
        &self,
        id: &Id,
    ) -> impl Future<Output = Result<ContainerStatus, CallError>> + Send;

    /// The pid of a container's init process, by a verbose `ContainerStatus`; `None` where
    /// the runtime does not tell it, or the container has no process.
    fn container_pid(&self, id: &Id)
    -> impl Future<Output = Result<Option<u32>, CallError>> + Send;

    /// Opens the stream of events. A runtime may answer only with the first of them, so
    /// one that does not return has not failed.
    fn announcements(&self) -> impl Future<Output = Result<Announcements, CallError>> + Send;
}
