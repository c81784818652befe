//! Ending a pod, from any state, and from any state again.
//!
//! ```text
//!   containers: preStop, SIGTERM, SIGKILL after the grace period    all at once
//!   sidecars:   the same with what is left of it                    the last one first
//!   sandboxes:  stop
//!   containers, then sandboxes: remove
//!   nothing is left, as of a complete look: volumes: remove
//! ```
//!
//! A pod that has finished by itself goes only as far as the sandboxes' stop: what is dead stays,
//! to be looked at.

use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use serde::{Deserialize, Serialize};

use super::attempts::Creation;
use super::draft::Draft;
use super::keep::is_free;
use super::memory::{Memory, Volumes};
use super::slot::{Known, Life};
use super::step::Step;
use super::view::Sight;
use super::why::Why;
use crate::spec::{ContainerSpec, PodSpec, Role};

/// What it takes to end a pod whose manifest may be gone: small enough to be kept with the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// `terminationGracePeriodSeconds`.
    pub grace_period: Duration,
    /// The containers that are not ended like any other, in the order of the manifest.
    pub containers: Vec<LastContainer>,
}

/// What it takes to end a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastContainer {
    /// Its name.
    pub name: String,
    /// It ends after those that are not sidecars.
    pub is_sidecar: bool,
    /// What runs in it before it is asked to end.
    pub pre_stop: Option<Vec<String>>,
}

impl Default for Termination {
    /// A kubelet's.
    fn default() -> Self {
        Self {
            grace_period: Duration::from_secs(30),
            containers: Vec::new(),
        }
    }
}

impl From<&PodSpec> for Termination {
    fn from(spec: &PodSpec) -> Self {
        let last = |container: &ContainerSpec| LastContainer {
            name: container.name.clone(),
            is_sidecar: container.role == Role::Sidecar,
            pre_stop: container.pre_stop.clone(),
        };
        let is_special = |last: &LastContainer| last.is_sidecar || last.pre_stop.is_some();
        Self {
            grace_period: spec.grace_period,
            containers: spec
                .containers
                .iter()
                .map(last)
                .filter(is_special)
                .collect(),
        }
    }
}

impl Termination {
    fn of(&self, name: &str) -> Option<&LastContainer> {
        self.containers.iter().find(|last| last.name == name)
    }

    /// The place of a sidecar: the last one ends first.
    fn sidecar(&self, name: &str) -> Option<usize> {
        let mut sidecars = self.containers.iter().filter(|last| last.is_sidecar);
        sidecars.position(|last| last.name == name)
    }
}

impl Memory {
    /// Ends the pod and removes all of it.
    pub(super) fn end(&mut self, pod: &Termination, why: &Why, draft: &mut Draft) {
        self.ending_since.get_or_insert(draft.now);
        if !self.stop_all(pod, why, draft) || self.is_creating(draft) {
            return;
        }
        if self.remove_containers(why, draft) && self.remove_sandboxes(why, draft) {
            self.remove_volumes(why, draft);
        }
    }

    /// Ends what runs of a pod that is over; the dead stay.
    pub(super) fn wind_down(&mut self, pod: &Termination, why: &Why, draft: &mut Draft) {
        if !self.sees() || !self.stop_all(pod, why, draft) {
            return;
        }
        for (name, slot) in &self.slots {
            let rest = slot.known.iter();
            for (id, known) in rest.filter(|(_, known)| !known.life.is_over()) {
                if self.why_unseen(id).is_none() {
                    self.remove(name, id, known, why.clone(), draft);
                }
            }
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.volumes == Volumes::Removed && self.is_empty()
    }

    fn is_empty(&self) -> bool {
        let is_idle = |creation| creation == Creation::Idle;
        let mut slots = self.slots.values();
        self.sandboxes.known.is_empty()
            && is_idle(self.sandboxes.attempts.creation())
            && slots.all(|slot| slot.known.is_empty() && is_idle(slot.attempts.creation()))
    }

    /// Kills what runs; tells whether nothing does any more that a kill could end.
    pub(super) fn kill_all(&self, pod: &Termination, why: &Why, draft: &mut Draft) -> bool {
        // A grace period may be longer than an instant can say: then nothing is late.
        let since = self.ending_since;
        let deadline = since.and_then(|since| since.checked_add(pod.grace_period));
        // What of the pod has not ended, by its turn: 0 is that of all that are no sidecars.
        let sidecars = pod.containers.iter().filter(|last| last.is_sidecar).count();
        let turn = |name: &str| pod.sidecar(name).map_or(0, |place| sidecars - place);
        let rest = self.slots.iter().flat_map(|(name, slot)| {
            let rest = slot.live().filter(|(_, known)| !is_stopped(known));
            let turn = turn(name);
            rest.map(move |(id, known)| (turn, name, id, known))
        });
        let mut rest: Vec<_> = rest.collect();
        rest.sort_by_key(|(turn, ..)| *turn);
        let Some((first, ..)) = rest.first().copied() else {
            return true;
        };
        for (turn, name, id, known) in rest {
            // Sidecars wait for the others, but not longer than the pod's grace period.
            let is_late = deadline.is_some_and(|deadline| draft.now >= deadline);
            if turn > first && !is_late {
                if let Some(deadline) = deadline {
                    draft.wake(deadline);
                }
                draft.waits(name, Why::Terminating);
            } else if let Some(why) = self.why_unseen(id) {
                draft.waits(name, why.clone());
            } else {
                self.kill_last(pod, name, id, known, why, draft);
            }
        }
        false
    }

    fn kill_last(
        &self,
        pod: &Termination,
        name: &Arc<str>,
        id: &Id,
        known: &Known,
        why: &Why,
        draft: &mut Draft,
    ) {
        let pre_stop = pod.of(name).and_then(|last| last.pre_stop.clone());
        if is_free(name, known, draft) {
            let step = Step::KillContainer {
                container: name.clone(),
                id: id.clone(),
                grace: self.grace_left(pod.grace_period, draft.now),
                pre_stop: pre_stop.filter(|_| known.life == Life::Running),
            };
            draft.step(step, why.clone());
        }
    }

    /// Whether something of the pod is being created, or may be.
    fn is_creating(&self, draft: &mut Draft) -> bool {
        let slots = self.slots.values().map(|slot| &slot.attempts);
        let mut creations = slots
            .chain([&self.sandboxes.attempts])
            .map(|attempts| attempts.creation())
            .filter(|creation| *creation != Creation::Idle);
        let creation = creations.next();
        draft.wants_look |= matches!(creation, Some(Creation::Lost { .. }));
        creation.is_some()
    }

    /// Removes all containers; tells whether none is left.
    fn remove_containers(&self, why: &Why, draft: &mut Draft) -> bool {
        let mut is_done = true;
        for (name, slot) in &self.slots {
            for (id, known) in &slot.known {
                is_done = false;
                if let Some(unseen) = self.why_unseen(id) {
                    draft.waits(name, unseen.clone());
                } else {
                    self.remove(name, id, known, why.clone(), draft);
                }
            }
        }
        is_done
    }

    /// Removes all sandboxes; tells whether none is left.
    fn remove_sandboxes(&self, why: &Why, draft: &mut Draft) -> bool {
        for (id, known) in &self.sandboxes.known {
            if !known.is_busy {
                draft.end_step(Step::RemoveSandbox { id: id.clone() }, &known.retry, why);
            }
        }
        self.sandboxes.known.is_empty()
    }

    /// Removes the volumes, but never under something that may live.
    fn remove_volumes(&self, why: &Why, draft: &mut Draft) {
        if self.sight != Sight::Complete {
            draft.sandbox_waits(Why::NotSeen);
            return;
        }
        if self.volumes == Volumes::Kept {
            draft.end_step(Step::RemoveVolumes, &self.volume_errors, why);
        }
    }
}

/// A kill has ended it, whether or not that was seen yet; of one that is seen to run after that
/// the kill was not the end.
fn is_stopped(known: &Known) -> bool {
    known.was_stopped && (known.life == Life::Unknown || !known.is_fresh())
}
