//! Rows of an artificial node, with names as long as those of a real one.

use std::collections::HashMap;
use std::sync::Arc;

use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ContainerState, ListedContainer, ListedSandbox, SandboxState};
use pleg::model::status::{ContainerStatus, SandboxStatus};
use pleg::model::wall_time::WallTime;

/// Both lists of a node.
#[derive(Clone, Debug)]
pub struct Node {
    pub sandboxes: Vec<Arc<ListedSandbox>>,
    pub containers: Vec<Arc<ListedContainer>>,
    containers_per_pod: usize,
}

impl Node {
    /// Running pods, each with this many running containers.
    pub fn new(pods: usize, containers_per_pod: usize) -> Self {
        let containers = (0..pods * containers_per_pod).map(|number| {
            let pod = number / containers_per_pod;
            container(number, pod, ContainerState::Running)
        });
        Self {
            sandboxes: (0..pods).map(sandbox).collect(),
            containers: containers.collect(),
            containers_per_pod,
        }
    }

    /// The list of containers once the first container in each of this many pods has died. The
    /// other rows are shared, like unchanged rows of two lists.
    pub fn with_change_in(&self, pods: usize) -> Vec<Arc<ListedContainer>> {
        let mut containers = self.containers.clone();
        for row in containers
            .iter_mut()
            .step_by(self.containers_per_pod)
            .take(pods)
        {
            *row = Arc::new(ListedContainer {
                state: ContainerState::Exited,
                ..(**row).clone()
            });
        }
        containers
    }

    pub fn sandbox_statuses(&self) -> HashMap<Id, SandboxStatus> {
        let status = |row: &Arc<ListedSandbox>| SandboxStatus {
            id: row.id.clone(),
            state: row.state,
            attempt: row.attempt,
            created_at: row.created_at,
            ips: vec![[10, 88, 0, 1].into()],
            pod: None,
            containers: Vec::new(),
        };
        let rows = self.sandboxes.iter();
        rows.map(|row| (row.id.clone(), status(row))).collect()
    }

    pub fn container_statuses(&self) -> HashMap<Id, ContainerStatus> {
        let status = |row: &Arc<ListedContainer>| ContainerStatus {
            state: row.state,
            attempt: row.attempt,
            created_at: row.created_at,
            started_at: row.created_at,
            image: "registry.example/shop/web:1".into(),
            pod: row.pod.clone().map(Box::new),
            ..ContainerStatus::unknown(row.id.clone(), row.name.clone())
        };
        let rows = self.containers.iter();
        rows.map(|row| (row.id.clone(), status(row))).collect()
    }
}

fn sandbox(pod: usize) -> Arc<ListedSandbox> {
    Arc::new(ListedSandbox {
        id: id("5a", pod),
        pod: Some(pod_ref(pod)),
        state: SandboxState::Ready,
        attempt: 0,
        created_at: created(pod),
    })
}

pub fn container(number: usize, pod: usize, state: ContainerState) -> Arc<ListedContainer> {
    Arc::new(ListedContainer {
        id: id("c0", number),
        sandbox_id: id("5a", pod),
        pod: Some(pod_ref(pod)),
        name: "main".into(),
        state,
        attempt: 0,
        created_at: created(number),
    })
}

pub fn pod_ref(pod: usize) -> PodRef {
    PodRef {
        uid: format!("3f1b9c58-7a60-4c1e-9d7e-{pod:012x}").into(),
        namespace: "shop".into(),
        name: format!("web-{pod}").into(),
    }
}

/// 64 digits that differ at the beginning, like those of hashes.
fn id(kind: &str, number: usize) -> Id {
    let digits = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{digits:016x}{kind:0>48}").into()
}

fn created(number: usize) -> Option<WallTime> {
    WallTime::from_unix_nanos(1_700_000_000_000_000_000 + number as i64)
}
