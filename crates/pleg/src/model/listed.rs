//! The rows of the runtime's two lists, alone and by pod.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::id::{Id, PodRef};
use crate::model::wall_time::WallTime;

/// A container's state in CRI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerState {
    /// Created, not started.
    Created,
    /// Its process runs.
    Running,
    /// Its process has exited.
    Exited,
    /// Unknown to the runtime, or a number that CRI does not define.
    Unknown,
}

impl ContainerState {
    /// All states, in the order in which they are counted and shown.
    pub const ALL: [Self; 4] = [Self::Running, Self::Exited, Self::Created, Self::Unknown];

    /// The state's name in metrics and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Unknown => "unknown",
        }
    }
}

/// A sandbox's state in CRI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxState {
    /// The sandbox runs.
    Ready,
    /// It has stopped.
    NotReady,
    /// A number that CRI does not define.
    Unknown,
}

impl SandboxState {
    /// The state's name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotReady => "notReady",
            Self::Unknown => "unknown",
        }
    }
}

/// A row of `ListPodSandbox`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedSandbox {
    /// The sandbox's id.
    pub id: Id,
    /// Its pod; `None` for a sandbox without metadata, which the kubelet skips.
    pub pod: Option<PodRef>,
    /// Its state.
    pub state: SandboxState,
    /// The number of this sandbox in its pod, from 0.
    pub attempt: u32,
    /// When it was created.
    pub created_at: Option<WallTime>,
}

/// A row of `ListContainers`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedContainer {
    /// The container's id.
    pub id: Id,
    /// The sandbox that it runs in.
    pub sandbox_id: Id,
    /// The pod that the container's labels name; `None` if they name none.
    pub pod: Option<PodRef>,
    /// Its name in the pod.
    pub name: Arc<str>,
    /// Its state.
    pub state: ContainerState,
    /// The number of this container among the pod's containers of this name, from 0.
    pub attempt: u32,
    /// When it was created.
    pub created_at: Option<WallTime>,
}

/// What rows of both lists have in common.
pub trait Row: Clone {
    /// The type of the state.
    type State: Copy + Eq;

    /// The id of the container or sandbox.
    fn id(&self) -> &Id;
    /// Its state.
    fn state(&self) -> Self::State;
    /// Sets a newer state.
    fn set_state(&mut self, state: Self::State);
    /// The rows of this kind in a pod.
    fn of(pod: &ListedPod) -> &[Arc<Self>];
    /// The rows of this kind in a pod, to change them.
    fn of_mut(pod: &mut ListedPod) -> &mut Vec<Arc<Self>>;
}

impl Row for ListedSandbox {
    type State = SandboxState;

    fn id(&self) -> &Id {
        &self.id
    }

    fn state(&self) -> SandboxState {
        self.state
    }

    fn set_state(&mut self, state: SandboxState) {
        self.state = state;
    }

    fn of(pod: &ListedPod) -> &[Arc<Self>] {
        &pod.sandboxes
    }

    fn of_mut(pod: &mut ListedPod) -> &mut Vec<Arc<Self>> {
        &mut pod.sandboxes
    }
}

impl Row for ListedContainer {
    type State = ContainerState;

    fn id(&self) -> &Id {
        &self.id
    }

    fn state(&self) -> ContainerState {
        self.state
    }

    fn set_state(&mut self, state: ContainerState) {
        self.state = state;
    }

    fn of(pod: &ListedPod) -> &[Arc<Self>] {
        &pod.containers
    }

    fn of_mut(pod: &mut ListedPod) -> &mut Vec<Arc<Self>> {
        &mut pod.containers
    }
}

/// A pod as it was listed. Newest first: sandboxes by attempt, containers by age, as the
/// kubelet sorts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPod {
    /// Which pod.
    pub pod: PodRef,
    /// Its sandboxes.
    pub sandboxes: Vec<Arc<ListedSandbox>>,
    /// Its containers.
    pub containers: Vec<Arc<ListedContainer>>,
}

impl ListedPod {
    /// A pod without rows.
    pub fn empty(pod: PodRef) -> Self {
        Self {
            pod,
            sandboxes: Vec::new(),
            containers: Vec::new(),
        }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// Adds the rows of `known` that `requested` does not have.
    pub(crate) fn extend_beyond(&mut self, known: &Self, requested: &Self) {
        let is_other = |id: &Id| !requested.names(id);
        let sandboxes = known.sandboxes.iter().filter(|row| is_other(&row.id));
        self.sandboxes.extend(sandboxes.cloned());
        let containers = known.containers.iter().filter(|row| is_other(&row.id));
        self.containers.extend(containers.cloned());
        self.sort();
    }

    /// Sorts the rows into the kubelet's order, and rows of the same age by id. This gives events the same
    /// order in every run, although a runtime may list in any order.
    pub(crate) fn sort(&mut self) {
        self.sandboxes.sort_by(|a, b| {
            (b.attempt, b.created_at)
                .cmp(&(a.attempt, a.created_at))
                .then_with(|| a.cmp(b))
        });
        self.containers
            .sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.cmp(b)));
    }

    /// Whether a container or sandbox of the pod has this id.
    pub fn names(&self, id: &Id) -> bool {
        self.ids().any(|row| row == id)
    }

    /// The ids of its containers and sandboxes.
    pub fn ids(&self) -> impl Iterator<Item = &Id> {
        let containers = self.containers.iter().map(|row| &row.id);
        containers.chain(self.sandboxes.iter().map(|row| &row.id))
    }

    /// The name of the container with this id, if the id is a container's.
    pub fn container_name(&self, id: &Id) -> Option<&Arc<str>> {
        let container = self.containers.iter().find(|row| row.id == *id);
        container.map(|row| &row.name)
    }

    /// Whether a sandbox of the pod runs.
    pub fn is_running(&self) -> bool {
        let mut sandboxes = self.sandboxes.iter();
        sandboxes.any(|sandbox| sandbox.state == SandboxState::Ready)
    }
}
