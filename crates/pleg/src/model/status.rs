//! The result of an inspection: a [`PodStatus`].
//!
//! ```
//! use std::time::Duration;
//!
//! use pleg::model::listed::ContainerState;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), pleg::out::cache::Stopped> {
//! let sim = sim::Sim::new();
//! sim.run("web-0", &["app"]);
//! sim.exit("web-0", "app", 3);
//! # let environment = pleg::Environment::new("sim", sim.clock());
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), Default::default(), environment);
//! tokio::time::sleep(Duration::from_secs(1)).await;
//!
//! let status = &pleg.cache().all()[0].status;
//! assert_eq!(status.pod().to_string(), "default/web-0");
//! assert_eq!(status.containers[0].state, ContainerState::Exited);
//! assert_eq!(status.containers[0].exit_code, Some(3));
//! # Ok(())
//! # }
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::id::{Id, PodRef, PodUid};
use crate::model::listed::{
    ContainerState, ListedContainer, ListedPod, ListedSandbox, Row, SandboxState,
};
use crate::model::wall_time::WallTime;

/// The answer to `PodSandboxStatus`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxStatus {
    /// The sandbox's id.
    pub id: Id,
    /// Its state.
    pub state: SandboxState,
    /// The number of this sandbox in its pod, from 0.
    pub attempt: u32,
    /// When it was created.
    pub created_at: Option<WallTime>,
    /// Its addresses, the primary one first; empty for a pod on the host's network.
    pub ips: Vec<IpAddr>,
    /// Its pod; not serialised, and absent in a [`PodStatus`].
    #[serde(skip)]
    pub pod: Option<Box<PodRef>>,
    /// Its containers, if the runtime includes them (CRI-O with pod events); not serialised.
    #[serde(skip)]
    pub containers: Vec<ContainerStatus>,
}

/// The answer to `ContainerStatus`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    /// The container's id.
    pub id: Id,
    /// Its name in the pod.
    pub name: Arc<str>,
    /// Its state.
    pub state: ContainerState,
    /// The number of this container among the pod's containers of this name, from 0.
    pub attempt: u32,
    /// The exit code, once the container has exited.
    pub exit_code: Option<i32>,
    /// The runtime's reason why it is not running (`Error`, `OOMKilled`, `Completed`).
    pub reason: Option<Arc<str>>,
    /// When it was created.
    pub created_at: Option<WallTime>,
    /// When it was started.
    pub started_at: Option<WallTime>,
    /// When it exited.
    pub finished_at: Option<WallTime>,
    /// The image, as in the pod's specification.
    pub image: Arc<str>,
    /// The pod that the container's labels name; not serialised, and absent in a [`PodStatus`].
    #[serde(skip)]
    pub pod: Option<Box<PodRef>>,
}

impl SandboxStatus {
    /// The status of a sandbox of which only the id is known.
    pub(crate) fn unknown(id: Id) -> Self {
        Self {
            id,
            state: SandboxState::Unknown,
            attempt: 0,
            created_at: None,
            ips: Vec::new(),
            pod: None,
            containers: Vec::new(),
        }
    }
}

impl ContainerStatus {
    /// The status of a container of which only the id and the name are known.
    pub fn unknown(id: Id, name: Arc<str>) -> Self {
        Self {
            id,
            name,
            state: ContainerState::Unknown,
            attempt: 0,
            exit_code: None,
            reason: None,
            created_at: None,
            started_at: None,
            finished_at: None,
            image: "".into(),
            pod: None,
        }
    }

    /// Whether it has exited with an unknown exit code: CRI-O reports -1 until the exit file exists.
    pub fn lacks_exit_code(&self) -> bool {
        self.exit_code == Some(-1)
    }
}

/// The status of a pod that was not inspected yet: what the lists show.
impl From<&ListedPod> for PodStatus {
    fn from(listed: &ListedPod) -> Self {
        let sandboxes = listed.sandboxes.iter().map(|row| SandboxStatus {
            state: row.state,
            attempt: row.attempt,
            created_at: row.created_at,
            ..SandboxStatus::unknown(row.id.clone())
        });
        let containers = listed.containers.iter().map(|row| ContainerStatus {
            state: row.state,
            attempt: row.attempt,
            created_at: row.created_at,
            ..ContainerStatus::unknown(row.id.clone(), row.name.clone())
        });
        Self {
            uid: listed.pod.uid.clone(),
            namespace: listed.pod.namespace.clone(),
            name: listed.pod.name.clone(),
            sandboxes: sandboxes.collect(),
            containers: containers.collect(),
        }
    }
}

/// What statuses of both kinds have in common.
pub trait Status: Sized + Into<Self::Listed> {
    /// The type of the corresponding row in a list.
    type Listed: Row;

    /// Its id.
    fn id(&self) -> &Id;
    /// Its state.
    fn state(&self) -> <Self::Listed as Row>::State;
    /// The pod that its labels name, if there is one.
    fn pod(&self) -> Option<&PodRef>;
    /// Removes what is not serialised.
    fn shown(self) -> Self;
    /// The statuses of this kind in a pod's status.
    fn of_mut(pod: &mut PodStatus) -> &mut Vec<Self>;
}

impl Status for SandboxStatus {
    type Listed = ListedSandbox;

    fn id(&self) -> &Id {
        &self.id
    }

    fn state(&self) -> SandboxState {
        self.state
    }

    fn pod(&self) -> Option<&PodRef> {
        self.pod.as_deref()
    }

    fn shown(self) -> Self {
        Self {
            pod: None,
            containers: Vec::new(),
            ..self
        }
    }

    fn of_mut(pod: &mut PodStatus) -> &mut Vec<Self> {
        &mut pod.sandboxes
    }
}

impl Status for ContainerStatus {
    type Listed = ListedContainer;

    fn id(&self) -> &Id {
        &self.id
    }

    fn state(&self) -> ContainerState {
        self.state
    }

    fn pod(&self) -> Option<&PodRef> {
        self.pod.as_deref()
    }

    fn shown(self) -> Self {
        Self { pod: None, ..self }
    }

    fn of_mut(pod: &mut PodStatus) -> &mut Vec<Self> {
        &mut pod.containers
    }
}

/// The row in a list that corresponds to the status.
impl From<SandboxStatus> for ListedSandbox {
    fn from(status: SandboxStatus) -> Self {
        Self {
            id: status.id,
            pod: status.pod.map(|pod| *pod),
            state: status.state,
            attempt: status.attempt,
            created_at: status.created_at,
        }
    }
}

/// The row in a list that corresponds to the status, without the sandbox, which a status does not name.
impl From<ContainerStatus> for ListedContainer {
    fn from(status: ContainerStatus) -> Self {
        Self {
            id: status.id,
            sandbox_id: "".into(),
            pod: status.pod.map(|pod| *pod),
            name: status.name,
            state: status.state,
            attempt: status.attempt,
            created_at: status.created_at,
        }
    }
}

/// The result of one inspection of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodStatus {
    /// The pod's UID.
    pub uid: PodUid,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its sandboxes, newest first.
    pub sandboxes: Vec<SandboxStatus>,
    /// Its containers, newest first.
    pub containers: Vec<ContainerStatus>,
}

impl PodStatus {
    /// The status of a pod of which only the UID is known: the kubelet's default for a pod that the
    /// runtime does not have.
    pub fn unknown(uid: PodUid) -> Self {
        Self {
            uid,
            namespace: "".into(),
            name: "".into(),
            sandboxes: Vec::new(),
            containers: Vec::new(),
        }
    }

    /// A reference to the pod.
    pub fn pod(&self) -> PodRef {
        PodRef {
            uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The addresses of the pod: those of its newest sandbox with addresses.
    pub fn ips(&self) -> &[IpAddr] {
        let mut ips = self.sandboxes.iter().map(|sandbox| &*sandbox.ips);
        ips.find(|ips| !ips.is_empty()).unwrap_or_default()
    }

    /// The status of the container with this id.
    pub fn container(&self, id: &Id) -> Option<&ContainerStatus> {
        self.containers.iter().find(|container| container.id == *id)
    }

    /// Whether it has a sandbox or container with this id.
    pub(crate) fn contains(&self, id: &Id) -> bool {
        let mut sandboxes = self.sandboxes.iter();
        sandboxes.any(|sandbox| sandbox.id == *id) || self.container(id).is_some()
    }

    /// Keeps known exit codes that this status lacks.
    ///
    /// CRI-O reports -1 for a container whose exit file was removed, even if it reported the code before.
    pub fn keep_exit_codes_of(&mut self, last_good: &PodStatus) {
        for container in &mut self.containers {
            let known = last_good.container(&container.id);
            if container.lacks_exit_code()
                && let Some(known) = known.filter(|known| known.exit_code.is_some())
            {
                container.exit_code = known.exit_code;
                container.reason.clone_from(&known.reason);
            }
        }
    }

    /// Copies from the last successful status each listed sandbox and container that has no status
    /// now.
    pub fn keep_parts_of(&mut self, last_good: &PodStatus, listed: &ListedPod) {
        keep(
            &mut self.sandboxes,
            last_good.sandboxes.clone(),
            &listed.sandboxes,
        );
        let mut containers = last_good.containers.clone();
        // The list shows the exit, without the exit code.
        for status in &mut containers {
            let row = row_of(status, &listed.containers);
            let has_ended = row.is_some_and(|row| row.state == ContainerState::Exited);
            if has_ended && status.state == ContainerState::Running {
                status.state = ContainerState::Exited;
            }
        }
        keep(&mut self.containers, containers, &listed.containers);
    }

    /// Whether it has everything that is listed, in the same states.
    pub(crate) fn is_as_listed(&self, listed: &ListedPod) -> bool {
        are_as_listed(&self.containers, &listed.containers)
            && are_as_listed(&self.sandboxes, &listed.sandboxes)
    }

    /// Copies the listed states.
    pub(crate) fn take_states_of(&mut self, listed: &ListedPod) {
        for status in &mut self.containers {
            if let Some(row) = row_of(status, &listed.containers) {
                status.state = row.state;
            }
        }
        for status in &mut self.sandboxes {
            if let Some(row) = row_of(status, &listed.sandboxes) {
                status.state = row.state;
            }
        }
    }

    /// Keeps the addresses of the last successful status if this one has none and no sandbox runs: a
    /// terminating pod is still known by its address.
    ///
    /// The kubelet does the same (`getPodIPs`), but loses the addresses if an inspection fails in
    /// between.
    pub fn keep_ips_of(&mut self, last_good: &PodStatus) {
        let runs = |sandbox: &SandboxStatus| sandbox.state == SandboxState::Ready;
        if self.ips().is_empty()
            && !self.sandboxes.iter().any(runs)
            && let Some(newest) = self.sandboxes.first_mut()
        {
            newest.ips = last_good.ips().to_vec();
        }
    }
}

/// The row of a container or sandbox.
fn row_of<'a, S: Status>(status: &S, rows: &'a [Arc<S::Listed>]) -> Option<&'a Arc<S::Listed>> {
    rows.iter().find(|row| row.id() == status.id())
}

/// Whether there is a status for each row, with the same state.
fn are_as_listed<S: Status>(statuses: &[S], rows: &[Arc<S::Listed>]) -> bool {
    rows.iter().all(|row| {
        let mut statuses = statuses.iter();
        statuses.any(|status| status.id() == row.id() && status.state() == row.state())
    })
}

/// Copies the statuses that have a row and are not `found`, and sorts all of them like the rows.
fn keep<S: Status>(found: &mut Vec<S>, last_good: Vec<S>, rows: &[Arc<S::Listed>]) {
    let place = |status: &S| rows.iter().position(|row| row.id() == status.id());
    let is_found = |status: &S| found.iter().any(|found| found.id() == status.id());
    let is_missing = |status: &S| place(status).is_some() && !is_found(status);
    let kept: Vec<S> = last_good.into_iter().filter(is_missing).collect();
    if !kept.is_empty() {
        found.extend(kept);
        found.sort_by_key(place);
    }
}
