//! What to make status calls for: listed objects, those that an agent knows, and ids without a
//! name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causes::finding::PodName;
use cri::Rpc;
use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ContainerState, ListedContainer, ListedSandbox, SandboxState};
use pleg::model::status::PodStatus;

use super::bounded::bounded;
use crate::facts::probes::Rows;

/// More than any node has; the others are counted.
const MAX_TARGETS: usize = 20_000;

/// A container or a sandbox to make a status call for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub call: Rpc,
    pub id: Id,
    pub pod: Option<PodName>,
    pub container: Option<String>,
    /// Only its id is known, from a directory: it may be of the other kind, or gone.
    pub guessed: bool,
}

/// What is known before the first status call.
#[derive(Default)]
pub(super) struct Known {
    pub sandboxes: Option<Arc<[Arc<ListedSandbox>]>>,
    pub containers: Option<Arc<[Arc<ListedContainer>]>>,
    pub agent: Vec<PodStatus>,
    pub ids: Vec<Id>,
    /// Ids from directories that are not containers'.
    pub maybe_sandboxes: Vec<Target>,
}

impl Known {
    /// How many of the two lists were answered.
    pub fn lists(&self) -> usize {
        usize::from(self.sandboxes.is_some()) + usize::from(self.containers.is_some())
    }

    /// The ids that the lists show.
    pub fn listed(&self) -> BTreeSet<String> {
        let sandboxes = self.sandboxes.iter().flat_map(|rows| rows.iter());
        let containers = self.containers.iter().flat_map(|rows| rows.iter());
        let listed = sandboxes.map(|row| row.id.as_str());
        let listed = listed.chain(containers.map(|row| row.id.as_str()));
        listed.map(bounded).collect()
    }

    /// The targets, and how many more there are.
    pub fn targets(&self) -> (Vec<Target>, usize) {
        let mut targets = BTreeMap::new();
        for pod in &self.agent {
            let of = Some(pod_name(&pod.pod()));
            for sandbox in &pod.sandboxes {
                let target = sandbox_target(&sandbox.id, of.clone());
                targets.insert(sandbox.id.clone(), target);
            }
            for container in &pod.containers {
                let target = container_target(&container.id, of.clone(), &container.name);
                targets.insert(container.id.clone(), target);
            }
        }
        let pods = self.pods();
        for row in self.sandboxes.iter().flat_map(|rows| rows.iter()) {
            let target = sandbox_target(&row.id, row.pod.as_ref().map(pod_name));
            targets.insert(row.id.clone(), target);
        }
        for row in self.containers.iter().flat_map(|rows| rows.iter()) {
            let pod = row.pod.as_ref().or(pods.get(&row.sandbox_id).copied());
            let target = container_target(&row.id, pod.map(pod_name), &row.name);
            targets.insert(row.id.clone(), target);
        }
        // If both lists were answered, an id that is in neither is gone.
        if self.sandboxes.is_none() || self.containers.is_none() {
            for id in &self.ids {
                targets.entry(id.clone()).or_insert_with(|| Target {
                    guessed: true,
                    ..container_target(id, None, "")
                });
            }
        }
        let beyond = targets.len().saturating_sub(MAX_TARGETS);
        (targets.into_values().take(MAX_TARGETS).collect(), beyond)
    }

    /// The names of ids that a list or an agent has shown.
    pub fn names(&self) -> BTreeMap<Id, Target> {
        let (targets, _) = self.targets();
        let named = targets.into_iter().filter(|target| target.pod.is_some());
        named.map(|target| (target.id.clone(), target)).collect()
    }

    /// There is no container with this id, so it may be a sandbox's.
    pub fn may_be_a_sandbox(&mut self, id: &str) {
        if self.sandboxes.is_none() {
            self.maybe_sandboxes.push(Target {
                guessed: true,
                ..sandbox_target(&Id::from(id), None)
            });
        }
    }

    /// The containers that are listed as running.
    pub fn running(&self) -> BTreeSet<Id> {
        let sandboxes = self.sandboxes.iter().flat_map(|rows| rows.iter());
        let ready = sandboxes.filter(|row| row.state == SandboxState::Ready);
        let containers = self.containers.iter().flat_map(|rows| rows.iter());
        let running = containers.filter(|row| row.state == ContainerState::Running);
        let running = running.map(|row| row.id.clone());
        ready.map(|row| row.id.clone()).chain(running).collect()
    }

    fn pods(&self) -> BTreeMap<&Id, &PodRef> {
        let rows = self.sandboxes.iter().flat_map(|rows| rows.iter());
        rows.filter_map(|row| Some((&row.id, row.pod.as_ref()?)))
            .collect()
    }

    /// The counts, if either list was answered or an agent knows them.
    pub fn rows(&self) -> Option<Rows> {
        if self.sandboxes.is_none() && self.containers.is_none() && self.agent.is_empty() {
            return None;
        }
        let mut rows = Rows::default();
        let mut dead: BTreeMap<String, usize> = BTreeMap::new();
        let mut dies = |namespace: &str| *dead.entry(bounded(namespace)).or_default() += 1;
        let pods = self.pods();
        match &self.sandboxes {
            Some(listed) => {
                rows.sandboxes = listed.len();
                for row in listed.iter().filter(|row| row.state != SandboxState::Ready) {
                    rows.dead_sandboxes += 1;
                    dies(row.pod.as_ref().map_or("", |pod| &pod.namespace));
                }
            }
            None => rows.sandboxes = self.agent.iter().map(|pod| pod.sandboxes.len()).sum(),
        }
        match &self.containers {
            Some(listed) => {
                rows.containers = listed.len();
                let exited = |row: &&Arc<ListedContainer>| row.state == ContainerState::Exited;
                for row in listed.iter().filter(exited) {
                    rows.exited += 1;
                    let pod = row.pod.as_ref().or(pods.get(&row.sandbox_id).copied());
                    dies(pod.map_or("", |pod| &pod.namespace));
                }
            }
            None => rows.containers = self.agent.iter().map(|pod| pod.containers.len()).sum(),
        }
        rows.most_dead = dead.into_iter().max_by_key(|(_, count)| *count);
        Some(rows)
    }
}

pub(super) fn pod_name(pod: &PodRef) -> PodName {
    PodName {
        uid: Some(bounded(pod.uid.as_str())),
        namespace: Some(bounded(&pod.namespace)),
        name: Some(bounded(&pod.name)),
    }
}

fn sandbox_target(id: &Id, pod: Option<PodName>) -> Target {
    Target {
        call: Rpc::PodSandboxStatus,
        id: id.clone(),
        pod,
        container: None,
        guessed: false,
    }
}

fn container_target(id: &Id, pod: Option<PodName>, name: &str) -> Target {
    Target {
        call: Rpc::ContainerStatus,
        id: id.clone(),
        pod,
        container: (!name.is_empty()).then(|| bounded(name)),
        guessed: false,
    }
}
