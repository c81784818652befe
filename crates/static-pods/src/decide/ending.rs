//! How a pod is ended, from any state.
//!
//! ```text
//!   1. containers: preStop, SIGTERM, SIGKILL after the grace period     all at once
//!   2. sidecars:   likewise, within the rest of the grace period        the last one first
//!   3. sandboxes:  stop
//!   4. containers, then sandboxes: remove
//!   5. volumes:    remove, once a complete view contains nothing of the pod
//! ```
//!
//! For a pod that has finished by itself, only steps 1 to 3 are done, so that its dead containers
//! can be inspected.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::attempts::Creation;
use super::draft::Draft;
use super::memory::{Memory, Volumes};
use super::slot::{KnownContainer, Life};
use super::step::Step;
use super::view::Visibility;
use super::why::Why;
use crate::spec::{ContainerSpec, PodSpec, Role};

/// What is needed to end a pod, even if its manifest is gone. It is small because it is stored with
/// the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// `terminationGracePeriodSeconds`.
    pub grace_period: Duration,
    /// The sidecars and the containers with a `preStop` hook, in the order of the manifest.
    pub containers: Vec<ContainerTermination>,
}

/// What is needed to end a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerTermination {
    /// Its name.
    pub name: String,
    /// Whether it is a sidecar, which ends after the other containers.
    pub is_sidecar: bool,
    /// The command of its `preStop` hook.
    pub pre_stop: Option<Vec<String>>,
}

impl Default for Termination {
    /// The kubelet's default.
    fn default() -> Self {
        Self {
            grace_period: Duration::from_secs(30),
            containers: Vec::new(),
        }
    }
}

impl From<&PodSpec> for Termination {
    fn from(spec: &PodSpec) -> Self {
        let last = |container: &ContainerSpec| ContainerTermination {
            name: container.name.clone(),
            is_sidecar: container.role == Role::Sidecar,
            pre_stop: container.pre_stop.clone(),
        };
        let is_special = |last: &ContainerTermination| last.is_sidecar || last.pre_stop.is_some();
        let containers = spec.containers.iter().map(last);
        Self {
            grace_period: spec.grace_period,
            containers: containers.filter(is_special).collect(),
        }
    }
}

impl Termination {
    fn of(&self, name: &str) -> Option<&ContainerTermination> {
        self.containers.iter().find(|last| last.name == name)
    }

    /// The position of a sidecar among the sidecars. The last one ends first.
    fn sidecar(&self, name: &str) -> Option<usize> {
        let mut sidecars = self.containers.iter().filter(|last| last.is_sidecar);
        sidecars.position(|last| last.name == name)
    }
}

impl Memory {
    /// Plans the next steps to end the pod and to remove everything that belongs to it.
    pub(super) fn end(&mut self, pod: &Termination, why: &Why, draft: &mut Draft) {
        self.ending_since.get_or_insert(draft.now);
        if !self.stop_all(pod, why, draft) || self.is_creating(draft) {
            return;
        }
        if self.remove_containers(why, draft) && self.remove_sandboxes(why, draft) {
            self.remove_volumes(why, draft);
        }
    }

    /// Plans the next steps to stop what still runs of a finished pod. Containers that have exited
    /// are kept. Others, such as those that never ran, are removed.
    pub(super) fn wind_down(&mut self, pod: &Termination, why: &Why, draft: &mut Draft) {
        if !self.can_observe() || !self.stop_all(pod, why, draft) {
            return;
        }
        for known in self.containers().filter(|known| !known.life.is_over()) {
            if self.why_unobserved(known).is_none() {
                draft.remove(known, why.clone());
            }
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.volumes == Volumes::Removed
            && self.sandboxes.known.is_empty()
            && self.containers().next().is_none()
            && self.creations().all(|it| it == Creation::Idle)
    }

    /// Plans the kills of live containers. Returns true if no container is left to kill.
    pub(super) fn kill_all(&self, pod: &Termination, why: &Why, draft: &mut Draft) -> bool {
        // There is no deadline if the grace period is too long for an `Instant`.
        let since = self.ending_since;
        let deadline = since.and_then(|since| since.checked_add(pod.grace_period));
        let is_late = deadline.is_some_and(|deadline| draft.now >= deadline);
        // Containers that are not sidecars have turn 0, so they end first.
        let sidecars = pod.containers.iter().filter(|last| last.is_sidecar).count();
        let turn = |name: &str| pod.sidecar(name).map_or(0, |place| sidecars - place);
        let rest = self.containers();
        let rest = rest.filter(|known| known.life.is_live() && !is_stopped(known));
        let mut rest: Vec<_> = rest.map(|known| (turn(&known.name), known)).collect();
        rest.sort_by_key(|(turn, _)| *turn);
        let Some((first, _)) = rest.first().copied() else {
            return true;
        };
        for (turn, known) in rest {
            // Sidecars wait for the containers before them, but not beyond the pod's grace period.
            if turn > first && !is_late {
                if let Some(deadline) = deadline {
                    draft.wake(deadline);
                }
                draft.container_waits(&known.name, Why::Terminating);
            } else if let Some(why) = self.why_unobserved(known) {
                draft.container_waits(&known.name, why.clone());
            } else {
                let grace = self.grace_left(pod.grace_period, draft.now);
                let last = pod.of(&known.name);
                let pre_stop = last.and_then(|last| last.pre_stop.as_ref());
                draft.kill(known, grace, pre_stop, why.clone());
            }
        }
        false
    }

    /// Whether something of the pod is being created or may have been created.
    fn is_creating(&self, draft: &mut Draft) -> bool {
        let creation = self.creations().find(|it| *it != Creation::Idle);
        draft.needs_view |= matches!(creation, Some(Creation::Lost { .. }));
        creation.is_some()
    }

    /// Plans the removal of all containers. Returns true if none is left.
    fn remove_containers(&self, why: &Why, draft: &mut Draft) -> bool {
        for known in self.containers() {
            self.remove_observed(known, why, draft);
        }
        self.containers().next().is_none()
    }

    /// Plans the removal of a container, which waits while the container is unobserved.
    pub(super) fn remove_observed(&self, known: &KnownContainer, why: &Why, draft: &mut Draft) {
        match self.why_unobserved(known) {
            Some(unobserved) => draft.container_waits(&known.name, unobserved.clone()),
            None => draft.remove(known, why.clone()),
        }
    }

    /// Plans the removal of all sandboxes. Returns true if none is left.
    fn remove_sandboxes(&self, why: &Why, draft: &mut Draft) -> bool {
        for known in self.sandboxes.known.values().filter(|it| !it.is_busy) {
            let id = known.id.clone();
            draft.end_step(Step::RemoveSandbox { id }, &known.retry, why);
        }
        self.sandboxes.known.is_empty()
    }

    /// Plans the removal of the volumes, once it is certain that no container exists.
    fn remove_volumes(&self, why: &Why, draft: &mut Draft) {
        if self.visibility != Visibility::Complete {
            draft.sandbox_waits(Why::NotSeen);
        } else if self.volumes == Volumes::Kept {
            draft.end_step(Step::RemoveVolumes, &self.volume_errors, why);
        }
    }
}

/// Whether a kill has stopped the container. If a later view shows that it runs, the kill did not
/// stop it.
fn is_stopped(known: &KnownContainer) -> bool {
    known.was_stopped && (known.life == Life::Unknown || !known.is_fresh())
}
