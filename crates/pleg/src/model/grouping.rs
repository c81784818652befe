//! Groups the rows of both lists by pod, incrementally.
//!
//! ```text
//!   previous rows, new rows --added, removed--> only their pods are grouped again --> Snapshot
//! ```
//!
//! An unchanged row is the same `Arc` as in the last answer, so differences are found by comparing
//! pointers, and an unchanged pod stays the same `Arc` too.
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

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::id::{Id, PodRef, PodUid};
use super::listed::{ListedContainer, ListedPod, ListedSandbox};
use super::snapshot::{Changes, Counts, ListedPods, Snapshot};

/// If more than one in this number of rows differs, all rows are grouped again.
const ROWS_PER_DIFFERENCE: usize = 4;

/// The last lists, and their snapshot.
#[derive(Debug)]
pub struct Grouping {
    sandboxes: Arc<[Arc<ListedSandbox>]>,
    containers: Arc<[Arc<ListedContainer>]>,
    /// The pod of each sandbox.
    sandbox_pods: HashMap<Id, PodUid>,
    snapshot: Snapshot,
    /// Whether some rows belong to no pod or contradict each other. Which of them count depends on all
    /// rows, so all rows of the next lists are grouped again.
    odd: bool,
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
        let mut odd = !shared.is_empty();
        let mut counts = Counts::default();
        let pods = pods.into_iter().map(|(uid, mut pod)| {
            odd |= !settle(&mut pod);
            counts.add(&pod);
            (uid, Arc::new(pod))
        });
        let pods = Arc::new(pods.collect());
        Self {
            odd: odd || orphaned > 0,
            sandbox_pods,
            sandboxes,
            containers,
            snapshot: Snapshot {
                taken,
                pods,
                counts,
                orphaned,
                changes: None,
            },
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
        if same {
            self.snapshot.taken = taken;
            return self.snapshot.clone();
        }
        let before = self.snapshot.pods.clone();
        let Some(changed) = self.regroup(sandboxes, containers) else {
            *self = Self::new(taken, sandboxes.clone(), containers.clone());
            return self.snapshot.clone();
        };
        self.sandboxes = sandboxes.clone();
        self.containers = containers.clone();
        self.snapshot.taken = taken;
        Snapshot {
            changes: Some(Changes {
                since: before,
                pods: changed,
            }),
            ..self.snapshot.clone()
        }
    }

    /// The snapshot of the last lists.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Groups the pods of added and removed rows again, and returns their UIDs. `None` if these rows
    /// alone do not suffice; then all pods must be grouped again.
    fn regroup(
        &mut self,
        sandboxes: &[Arc<ListedSandbox>],
        containers: &[Arc<ListedContainer>],
    ) -> Option<Vec<PodUid>> {
        if self.odd {
            return None;
        }
        let of_sandboxes = Difference::between(&self.sandboxes, sandboxes);
        let of_containers = Difference::between(&self.containers, containers);
        let differ = of_sandboxes.len() + of_containers.len();
        if differ > (sandboxes.len() + containers.len()) / ROWS_PER_DIFFERENCE {
            return None;
        }
        let mut pods = Regrouped {
            before: &self.snapshot.pods,
            touched: BTreeMap::new(),
        };
        // Sandboxes that changed their pod or were removed: their containers follow, even if their
        // rows are unchanged.
        let mut moved: HashSet<&Id> = HashSet::new();
        let mut added: HashMap<&Id, &PodUid> = HashMap::new();
        for row in &of_sandboxes.added {
            let pod = row.pod.as_ref().filter(|_| !row.id.is_empty())?;
            if added.insert(&row.id, &pod.uid).is_some() {
                return None;
            }
            if self.sandbox_pods.get(&row.id) != Some(&pod.uid) {
                moved.insert(&row.id);
            }
        }
        for row in &of_sandboxes.removed {
            if !added.contains_key(&row.id) {
                moved.insert(&row.id);
            }
        }
        let moves = |row: &&Arc<ListedContainer>| moved.contains(&row.sandbox_id);
        let stays = |row: &&Arc<ListedContainer>| !moves(row);
        let moving = self.containers.iter().filter(moves);
        for row in of_containers.removed.iter().filter(stays).chain(moving) {
            let pod = pods.pod(pod_of(&self.sandbox_pods, row)?, None)?;
            pod.containers.retain(|other| !Arc::ptr_eq(other, row));
        }
        for row in &of_sandboxes.removed {
            let pod = pods.pod(self.sandbox_pods.get(&row.id)?, None)?;
            pod.sandboxes.retain(|other| !Arc::ptr_eq(other, row));
        }
        for row in &of_sandboxes.removed {
            self.sandbox_pods.remove(&row.id);
        }
        for row in &of_sandboxes.added {
            let pod = row.pod.as_ref()?;
            let before = self.sandbox_pods.insert(row.id.clone(), pod.uid.clone());
            // A row with the same id is still listed.
            if before.is_some() {
                return None;
            }
            let listed = pods.pod(&pod.uid, Some(pod))?;
            listed.sandboxes.push(row.clone());
        }
        let moving = containers.iter().filter(moves);
        for row in of_containers.added.iter().filter(stays).chain(moving) {
            if row.id.is_empty() {
                return None;
            }
            let uid = pod_of(&self.sandbox_pods, row)?;
            let listed = pods.pod(uid, row.pod.as_ref())?;
            listed.containers.push(row.clone());
        }
        Some(self.replace(pods.touched))
    }

    /// Replaces the pods that were grouped again, and returns their UIDs.
    fn replace(&mut self, touched: BTreeMap<PodUid, ListedPod>) -> Vec<PodUid> {
        let changed = touched.keys().cloned().collect();
        let Snapshot { pods, counts, .. } = &mut self.snapshot;
        let pods = Arc::make_mut(pods);
        for (uid, mut pod) in touched {
            let before = if pod.is_empty() {
                pods.remove(&uid)
            } else {
                self.odd |= !settle(&mut pod);
                counts.add(&pod);
                pods.insert(uid, Arc::new(pod))
            };
            if let Some(before) = before {
                counts.subtract(&before);
            }
        }
        changed
    }
}

/// The pods with added or removed rows, and their new rows.
struct Regrouped<'a> {
    before: &'a ListedPods,
    touched: BTreeMap<PodUid, ListedPod>,
}

impl Regrouped<'_> {
    /// The pod, with its rows so far; an unknown pod is `new`, without rows.
    fn pod(&mut self, uid: &PodUid, new: Option<&PodRef>) -> Option<&mut ListedPod> {
        if !self.touched.contains_key(uid) {
            let known = self.before.get(uid).map(|pod| ListedPod::clone(pod));
            let pod = known.or_else(|| new.cloned().map(ListedPod::empty))?;
            self.touched.insert(uid.clone(), pod);
        }
        self.touched.get_mut(uid)
    }
}

/// The pod of a container: that of its sandbox, or the one that its labels name.
fn pod_of<'a>(
    sandbox_pods: &'a HashMap<Id, PodUid>,
    row: &'a ListedContainer,
) -> Option<&'a PodUid> {
    let labelled = || row.pod.as_ref().map(|pod| &pod.uid);
    sandbox_pods.get(&row.sandbox_id).or_else(labelled)
}

/// Sorts a pod's rows and removes those whose id is repeated. Returns whether none was removed. The
/// pod's name is that of its newest sandbox, or else of its newest container.
fn settle(pod: &mut ListedPod) -> bool {
    pod.sort();
    let rows = pod.sandboxes.len() + pod.containers.len();
    pod.sandboxes.dedup_by(|a, b| a.id == b.id);
    pod.containers.dedup_by(|a, b| a.id == b.id);
    let uid = pod.pod.uid.clone();
    let sandboxes = pod.sandboxes.iter().map(|row| &row.pod);
    let containers = pod.containers.iter().map(|row| &row.pod);
    let mut names = sandboxes.chain(containers).flatten();
    if let Some(name) = names.find(|name| name.uid == uid) {
        pod.pod = name.clone();
    }
    rows == pod.sandboxes.len() + pod.containers.len()
}

/// The rows that are in only one of two lists.
struct Difference<Row> {
    removed: Vec<Arc<Row>>,
    added: Vec<Arc<Row>>,
}

impl<Row> Difference<Row> {
    /// Compares lists that mostly have the same rows in the same places.
    fn between(before: &[Arc<Row>], after: &[Arc<Row>]) -> Self {
        let differ = |(one, other): &(&Arc<Row>, &Arc<Row>)| !Arc::ptr_eq(one, other);
        let in_place = before.iter().zip(after).filter(differ);
        let (mut removed, mut added): (Vec<_>, Vec<_>) = in_place
            .map(|(one, other)| (one.clone(), other.clone()))
            .unzip();
        removed.extend(before.iter().skip(after.len()).cloned());
        added.extend(after.iter().skip(before.len()).cloned());
        // A row that only moved is in both.
        let mut places: HashMap<*const Row, usize> = HashMap::with_capacity(removed.len());
        for row in &removed {
            *places.entry(Arc::as_ptr(row)).or_default() += 1;
        }
        let mut take = |row: &Arc<Row>| match places.get_mut(&Arc::as_ptr(row)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        };
        added.retain(|row| !take(row));
        removed.retain(|row| take(row));
        Self { removed, added }
    }

    fn len(&self) -> usize {
        self.removed.len() + self.added.len()
    }
}

#[cfg(test)]
mod tests;
