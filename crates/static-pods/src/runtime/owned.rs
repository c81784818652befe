//! What the lists tell of our sandboxes and containers, a manifest or not.

use std::sync::Arc;
use std::time::Duration;

use cri::v1;
use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::model::wall_time::WallTime;

use super::metadata::{self, Map};
use crate::spec::Role;

/// A sandbox of ours, as its row and its annotations tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedSandbox {
    /// Its id.
    pub id: Id,
    /// Its pod.
    pub pod: PodRef,
    /// Which sandbox of its pod it is, from 0.
    pub attempt: u32,
    /// Its state.
    pub state: SandboxState,
    /// When it was created.
    pub created_at: Option<WallTime>,
    /// The pod's grace period.
    pub grace_period: Duration,
}

/// A container of ours, as its row and its annotations tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedContainer {
    /// Its id.
    pub id: Id,
    /// The sandbox that it runs in.
    pub sandbox_id: Id,
    /// Its pod.
    pub pod: PodRef,
    /// Its name in the pod.
    pub name: Arc<str>,
    /// Which of that name it is, from 0.
    pub attempt: u32,
    /// Its state.
    pub state: ContainerState,
    /// When it was created.
    pub created_at: Option<WallTime>,
    /// When it runs in its pod.
    pub role: Role,
    /// Which of the pod's containers it is, from 0.
    pub position: usize,
    /// The pod's grace period.
    pub grace_period: Duration,
    /// What runs in it before it is asked to end.
    pub pre_stop: Option<Vec<String>>,
}

impl OwnedSandbox {
    /// A row of ours; `None` for any other, which a runtime that does not filter may list.
    pub(super) fn read(row: v1::PodSandbox, owner: &str) -> Option<Self> {
        let state = match v1::PodSandboxState::try_from(row.state) {
            Ok(v1::PodSandboxState::SandboxReady) => SandboxState::Ready,
            Ok(v1::PodSandboxState::SandboxNotready) => SandboxState::NotReady,
            Err(_) => SandboxState::Unknown,
        };
        Some(Self {
            pod: pod(&row.labels, owner)?,
            id: row.id.into(),
            attempt: row.metadata?.attempt,
            state,
            created_at: WallTime::from_unix_nanos(row.created_at),
            grace_period: metadata::grace_period(&row.annotations),
        })
    }
}

impl OwnedContainer {
    /// The same for a container.
    pub(super) fn read(row: v1::Container, owner: &str) -> Option<Self> {
        let state = match v1::ContainerState::try_from(row.state) {
            Ok(v1::ContainerState::ContainerCreated) => ContainerState::Created,
            Ok(v1::ContainerState::ContainerRunning) => ContainerState::Running,
            Ok(v1::ContainerState::ContainerExited) => ContainerState::Exited,
            Ok(v1::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
        };
        let metadata = row.metadata?;
        Some(Self {
            pod: pod(&row.labels, owner)?,
            id: row.id.into(),
            sandbox_id: row.pod_sandbox_id.into(),
            name: metadata.name.into(),
            attempt: metadata.attempt,
            state,
            created_at: WallTime::from_unix_nanos(row.created_at),
            role: metadata::role(&row.annotations),
            position: metadata::position(&row.annotations),
            grace_period: metadata::grace_period(&row.annotations),
            pre_stop: metadata::pre_stop(&row.annotations),
        })
    }
}

/// The pod by the labels of what is ours.
fn pod(labels: &Map, owner: &str) -> Option<PodRef> {
    let label = |name: &str| labels.get(name).map(String::as_str);
    (label(metadata::OWNER)? == owner).then_some(())?;
    Some(PodRef {
        uid: label(metadata::POD_UID)?.into(),
        namespace: label(metadata::POD_NAMESPACE)?.into(),
        name: label(metadata::POD_NAME)?.into(),
    })
}
