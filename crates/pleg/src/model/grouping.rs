//! Groups the rows of both lists by pod.
//!
//! An unchanged row is the same `Arc` as in the last answer, so an unchanged pod is found by comparing
//! pointers, and stays the same `Arc` too. If all rows are unchanged, so is the snapshot.
//!
//! ```
//! use pleg::model::grouping::Grouping;
//! use pleg::runtime::Runtime;
//! use tokio::time::Instant;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), pleg::runtime::CallError> {
//! let runtime = sim::Sim::new();
//! runtime.run("web-0", &["app"]);
//! let sandboxes = runtime.list_sandboxes().await?.rows;
//! let containers = runtime.list_containers().await?.rows;
//! let mut grouping = Grouping::new(Instant::now(), sandboxes.clone(), containers);
//! let before = grouping.snapshot().pods.clone();
//!
//! runtime.exit("web-0", "app", 1);
//! let containers = runtime.list_containers().await?.rows;
//! let snapshot = grouping.update(Instant::now(), &sandboxes, &containers);
//! assert_ne!(snapshot.pods, before);
//! # Ok(())
//! # }
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::id::PodUid;
use super::listed::{ListedContainer, ListedPod, ListedSandbox};
use super::snapshot::{Counts, Snapshot};

/// The last lists, and their snapshot.
#[derive(Debug)]
pub struct Grouping {
    sandboxes: Arc<[Arc<ListedSandbox>]>,
    containers: Arc<[Arc<ListedContainer>]>,
    snapshot: Snapshot,
}

impl Grouping {
    /// Groups the rows of both lists.
    pub fn new(
        taken: Instant,
        sandboxes: Arc<[Arc<ListedSandbox>]>,
        containers: Arc<[Arc<ListedContainer>]>,
    ) -> Self {
        let mut orphaned = 0;
        let mut pods: HashMap<PodUid, ListedPod> = HashMap::with_capacity(sandboxes.len());
        let mut sandbox_pods = HashMap::with_capacity(sandboxes.len());
        let mut shared = HashSet::new();
        for sandbox in &*sandboxes {
            let Some(pod) = sandbox.pod.as_ref().filter(|_| !sandbox.id.is_empty()) else {
                orphaned += 1;
                continue;
            };
            let listed = pods.entry(pod.uid.clone());
            let listed = listed.or_insert_with(|| ListedPod::empty(pod.clone()));
            listed.sandboxes.push(sandbox.clone());
            if sandbox_pods
                .insert(sandbox.id.clone(), pod.uid.clone())
                .is_some()
            {
                shared.insert(&sandbox.id);
            }
        }
        for container in &*containers {
            // If a sandbox is listed in several pods, the container's own labels decide.
            let own = container.pod.as_ref().map(|pod| &pod.uid);
            let own = own.filter(|_| shared.contains(&container.sandbox_id));
            let uid = own.or_else(|| sandbox_pods.get(&container.sandbox_id));
            let listed = match (uid.and_then(|uid| pods.get_mut(uid)), &container.pod) {
                _ if container.id.is_empty() => None,
                (Some(listed), _) => Some(listed),
                (None, Some(pod)) => {
                    let listed = pods.entry(pod.uid.clone());
                    Some(listed.or_insert_with(|| ListedPod::empty(pod.clone())))
                }
                (None, None) => None,
            };
            match listed {
                Some(listed) => listed.containers.push(container.clone()),
                None => orphaned += 1,
            }
        }
        pods.values_mut().for_each(settle);
        let counts = Counts::of(pods.values());
        let pods = pods.into_iter().map(|(uid, pod)| (uid, Arc::new(pod)));
        Self {
            snapshot: Snapshot {
                taken,
                pods: Arc::new(pods.collect()),
                counts,
                orphaned,
            },
            sandboxes,
            containers,
        }
    }

    /// Groups the next lists, and returns their snapshot.
    pub fn update(
        &mut self,
        taken: Instant,
        sandboxes: &Arc<[Arc<ListedSandbox>]>,
        containers: &Arc<[Arc<ListedContainer>]>,
    ) -> Snapshot {
        let same =
            Arc::ptr_eq(sandboxes, &self.sandboxes) && Arc::ptr_eq(containers, &self.containers);
        if !same {
            let before = self.snapshot.pods.clone();
            *self = Self::new(taken, sandboxes.clone(), containers.clone());
            for (uid, pod) in Arc::make_mut(&mut self.snapshot.pods) {
                if let Some(known) = before.get(uid).filter(|known| *known == pod) {
                    *pod = known.clone();
                }
            }
        }
        self.snapshot.taken = taken;
        self.snapshot.clone()
    }

    /// The snapshot of the last lists.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

/// Sorts a pod's rows and removes those whose id is repeated. The pod's name is that of its newest
/// sandbox, or else of its newest container.
fn settle(pod: &mut ListedPod) {
    pod.sort();
    pod.sandboxes.dedup_by(|a, b| a.id == b.id);
    pod.containers.dedup_by(|a, b| a.id == b.id);
    let uid = pod.pod.uid.clone();
    let sandboxes = pod.sandboxes.iter().map(|row| &row.pod);
    let containers = pod.containers.iter().map(|row| &row.pod);
    let mut names = sandboxes.chain(containers).flatten();
    if let Some(name) = names.find(|name| name.uid == uid) {
        pod.pod = name.clone();
    }
}

#[cfg(test)]
mod tests;
