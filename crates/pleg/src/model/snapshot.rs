//! Snapshots: both lists of one relist, grouped by pod.
//!
//! ```
//! use pleg::model::listed::ContainerState;
//! use pleg::model::snapshot::Snapshot;
//! use pleg::runtime::Runtime;
//! use tokio::time::Instant;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), pleg::runtime::CallError> {
//! let runtime = sim::Sim::new();
//! runtime.run("web-0", &["app", "proxy"]);
//!
//! let taken = Instant::now();
//! let sandboxes = runtime.list_sandboxes().await?.rows;
//! let containers = runtime.list_containers().await?.rows;
//! let snapshot = Snapshot::new(taken, &sandboxes, &containers);
//! assert_eq!(snapshot.counts.pods, 1);
//! assert_eq!(snapshot.counts.containers(ContainerState::Running), 2);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use crate::model::grouping::Grouping;
use crate::model::id::PodUid;
use crate::model::listed::{ContainerState, ListedContainer, ListedPod, ListedSandbox};

/// Pods by UID.
pub type ListedPods = BTreeMap<PodUid, Arc<ListedPod>>;

/// Both lists of one relist, by pod.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When the first list was requested: later changes may be missing.
    pub taken: Instant,
    /// The pods, in the order of their UIDs.
    pub pods: Arc<ListedPods>,
    /// The numbers of pods and containers.
    pub counts: Counts,
    /// Rows that belong to no pod: sandboxes without metadata, containers with neither a
    /// known sandbox nor labels, and anything without an id.
    pub orphaned: usize,
}

impl Snapshot {
    /// Groups the rows by pod.
    ///
    /// A container belongs to its sandbox's pod. If the sandbox is not listed, it belongs to the pod in
    /// its labels, so a container without a sandbox still has a pod. An id that is listed twice in one
    /// pod counts once.
    pub fn new(
        taken: Instant,
        sandboxes: &[Arc<ListedSandbox>],
        containers: &[Arc<ListedContainer>],
    ) -> Self {
        let grouping = Grouping::new(taken, sandboxes.into(), containers.into());
        grouping.snapshot().clone()
    }
}

/// The numbers of pods, and of containers in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods of any kind.
    pub pods: usize,
    /// Pods with a sandbox that runs.
    pub running_pods: usize,
    /// Containers by state.
    containers: [usize; 4],
}

impl Counts {
    /// Counts the pods and their containers. A state without containers counts 0, so that a metric does
    /// not keep its last value.
    pub fn of<'a>(pods: impl IntoIterator<Item = &'a ListedPod>) -> Self {
        let mut counts = Self::default();
        for pod in pods {
            counts.pods += 1;
            counts.running_pods += usize::from(pod.is_running());
            for container in &pod.containers {
                counts.containers[container.state as usize] += 1;
            }
        }
        counts
    }

    /// The number of containers in `state`.
    pub fn containers(&self, state: ContainerState) -> usize {
        self.containers[state as usize]
    }
}
