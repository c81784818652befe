//! A [`Snapshot`]: both lists of one moment, grouped by pod.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::time::Instant;

use crate::id::{Id, PodRef, PodUid};
use crate::listed::{ContainerState, ListedContainer, ListedPod, ListedSandbox};

/// Pods by UID.
pub type ListedPods = BTreeMap<PodUid, Arc<ListedPod>>;

/// What the runtime listed, by pod.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When the first of the lists was asked for: what happened later may be missing.
    pub taken: Instant,
    /// The pods, in the order of their UIDs.
    pub pods: Arc<ListedPods>,
    /// How many there are of what.
    pub counts: Counts,
    /// Rows that belong to no pod: sandboxes without metadata, containers with neither a
    /// known sandbox nor labels, and anything without an id.
    pub homeless: usize,
}

impl Snapshot {
    /// Groups the rows by pod.
    ///
    /// A container belongs to its sandbox's pod; where the sandbox is not listed, to the
    /// pod that its labels name, so a container without a sandbox still makes a pod. An
    /// id that is listed twice in one pod counts once.
    pub fn new(
        taken: Instant,
        sandboxes: &[Arc<ListedSandbox>],
        containers: &[Arc<ListedContainer>],
    ) -> Self {
        let mut homeless = 0;
        let mut pods: Vec<ListedPod> = Vec::new();
        let mut by_uid: HashMap<PodUid, usize> = HashMap::new();
        let mut by_sandbox: HashMap<Id, usize> = HashMap::with_capacity(sandboxes.len());

        let mut index_of = |pods: &mut Vec<ListedPod>, pod: &PodRef| {
            *by_uid.entry(pod.uid.clone()).or_insert_with(|| {
                pods.push(ListedPod::empty(pod.clone()));
                pods.len() - 1
            })
        };
        for sandbox in sandboxes {
            let Some(pod) = sandbox.pod.as_ref().filter(|_| !sandbox.id.is_empty()) else {
                homeless += 1;
                continue;
            };
            let index = index_of(&mut pods, pod);
            by_sandbox.insert(sandbox.id.clone(), index);
            pods[index].sandboxes.push(sandbox.clone());
        }
        for container in containers {
            if container.id.is_empty() {
                homeless += 1;
                continue;
            }
            let index = match (by_sandbox.get(&container.sandbox_id), &container.pod) {
                (Some(&index), _) => index,
                (None, Some(pod)) => index_of(&mut pods, pod),
                (None, None) => {
                    homeless += 1;
                    continue;
                }
            };
            pods[index].containers.push(container.clone());
        }

        for pod in &mut pods {
            pod.sort();
            pod.sandboxes.dedup_by(|a, b| a.id == b.id);
            pod.containers.dedup_by(|a, b| a.id == b.id);
        }
        let counts = Counts::of(&pods);
        let pods = pods
            .into_iter()
            .map(|pod| (pod.pod.uid.clone(), Arc::new(pod)));
        Self {
            taken,
            pods: Arc::new(pods.collect()),
            counts,
            homeless,
        }
    }
}

/// How many pods run, and how many containers there are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods of any kind.
    pub pods: usize,
    /// Pods with a sandbox that runs.
    pub running_pods: usize,
    /// Containers by state, in the order of [`ContainerState::ALL`].
    containers: [usize; 4],
}

impl Counts {
    /// Counts the pods and their containers. A state that no container is in counts 0:
    /// it is never left at its last figure.
    pub fn of<'a>(pods: impl IntoIterator<Item = &'a ListedPod>) -> Self {
        let mut counts = Self::default();
        for pod in pods {
            counts.pods += 1;
            counts.running_pods += usize::from(pod.is_running());
            for container in &pod.containers {
                counts.containers[index(container.state)] += 1;
            }
        }
        counts
    }

    /// The number of containers in `state`.
    pub fn containers(&self, state: ContainerState) -> usize {
        self.containers[index(state)]
    }

    /// The number of containers in any state.
    pub fn all_containers(&self) -> usize {
        self.containers.iter().sum()
    }
}

fn index(state: ContainerState) -> usize {
    match state {
        ContainerState::Running => 0,
        ContainerState::Exited => 1,
        ContainerState::Created => 2,
        ContainerState::Unknown => 3,
    }
}
