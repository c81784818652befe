//! The pods of an earlier run, and how they are ended when no manifest tells it any more.

use std::collections::BTreeMap;
use std::time::Duration;

use pleg::model::id::{PodRef, PodUid};
use pleg::model::listed::ContainerState;

use super::{OwnedContainer, OwnedSandbox};
use crate::spec::Role;

/// A pod of ours that was found in the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Which pod.
    pub pod: PodRef,
    /// Its grace period.
    pub grace_period: Duration,
    /// Its sandboxes, the newest first.
    pub sandboxes: Vec<OwnedSandbox>,
    /// Its containers, the newest first.
    pub containers: Vec<OwnedContainer>,
}

/// The pods of what was listed, by UID.
pub fn adopted(
    sandboxes: Vec<OwnedSandbox>,
    containers: Vec<OwnedContainer>,
) -> BTreeMap<PodUid, Adopted> {
    let mut pods = BTreeMap::<PodUid, Adopted>::new();
    for sandbox in sandboxes {
        let pod = Adopted::entry(&mut pods, &sandbox.pod, sandbox.grace_period);
        pod.sandboxes.push(sandbox);
    }
    for container in containers {
        let pod = Adopted::entry(&mut pods, &container.pod, container.grace_period);
        pod.containers.push(container);
    }
    for pod in pods.values_mut() {
        pod.sandboxes
            .sort_by(|a, b| b.attempt.cmp(&a.attempt).then_with(|| a.id.cmp(&b.id)));
        let age = |it: &OwnedContainer| (it.created_at, it.attempt);
        pod.containers
            .sort_by(|a, b| age(b).cmp(&age(a)).then_with(|| a.id.cmp(&b.id)));
    }
    pods
}

impl Adopted {
    fn entry<'a>(
        pods: &'a mut BTreeMap<PodUid, Self>,
        pod: &PodRef,
        grace_period: Duration,
    ) -> &'a mut Self {
        pods.entry(pod.uid.clone()).or_insert_with(|| Self {
            pod: pod.clone(),
            grace_period,
            sandboxes: Vec::new(),
            containers: Vec::new(),
        })
    }

    /// What runs still, in the steps in which it is ended: first all containers of one step side
    /// by side, then each sidecar alone, the last to be started first.
    pub fn steps_to_end(&self) -> Vec<Vec<&OwnedContainer>> {
        let has_process = |it: &&OwnedContainer| {
            matches!(it.state, ContainerState::Running | ContainerState::Unknown)
        };
        let running: Vec<_> = self.containers.iter().filter(has_process).collect();
        let (mut sidecars, others): (Vec<_>, Vec<_>) =
            running.into_iter().partition(|it| it.role == Role::Sidecar);
        sidecars.sort_by_key(|it| std::cmp::Reverse(it.position));
        let first = Some(others).filter(|others| !others.is_empty());
        first
            .into_iter()
            .chain(sidecars.into_iter().map(|it| vec![it]))
            .collect()
    }
}
