//! Whether a pod needs a sandbox, how its sandbox is replaced, and the removal of old containers
//! and sandboxes.
//!
//! ```text
//!   live containers: kill --> sandboxes: stop --> init containers and sidecars: remove --> create
//! ```
//!
//! A status does not contain the sandbox of a container. Before a new sandbox is created, all
//! containers have exited and all init containers are removed, so any that exist later are in the
//! new one.

use std::sync::Arc;

use pleg::model::id::Id;

use super::attempts::Creation;
use super::container::removal;
use super::draft::Draft;
use super::ending::Termination;
use super::memory::Memory;
use super::slot::{KnownContainer, Life};
use super::step::{Planned, Step};
use super::view::Visibility;
use super::why::Why;
use crate::garbage::{self, DeadContainer};
use crate::spec::{Network, PodSpec, Role};

/// Whether the pod needs a sandbox.
pub(super) enum Need {
    /// No, it has this one.
    Nothing { id: Id, attempt: u32 },
    /// Unknown yet.
    Wait(Why),
    /// Yes, and its containers start again in it.
    Another(Why),
}

impl Memory {
    pub(super) fn sandbox_need(&self, spec: &PodSpec) -> Need {
        let ready: Vec<_> = self.sandboxes.ready().collect();
        let newest = self.sandboxes.newest();
        match (ready.as_slice(), newest) {
            ([(id, known)], Some((newest, _))) if *id == newest => {
                let wants_address = spec.network != Network::Host;
                if wants_address && known.ips.is_empty() && known.is_fresh() && self.can_observe() {
                    Need::Another(Why::SandboxHasNoAddress)
                } else {
                    let (id, attempt) = ((*id).clone(), known.attempt);
                    Need::Nothing { id, attempt }
                }
            }
            ([_, _, ..], _) => Need::Another(Why::SecondSandbox),
            _ => match self.sandboxes.attempts.creation() {
                Creation::Outstanding { .. } => Need::Wait(Why::ContainerCreating),
                Creation::Lost { .. } => Need::Wait(Why::AnswerLost),
                Creation::Idle if !self.can_observe() => Need::Wait(Why::NotSeen),
                Creation::Idle if newest.is_some() => Need::Another(Why::SandboxNotReady),
                Creation::Idle => Need::Another(Why::PodAdded),
            },
        }
    }

    pub(super) fn can_observe(&self) -> bool {
        self.visibility != Visibility::Blind
    }

    /// Plans the end of the old sandbox, and then the creation of a new one.
    pub(super) fn replace_sandbox(&self, spec: &PodSpec, why: &Why, draft: &mut Draft) {
        if !self.can_observe() {
            return draft.sandbox_waits(Why::NotSeen);
        }
        let pod = Termination::from(spec);
        if !self.stop_all(&pod, why, draft) || !self.remove_before_new_sandbox(spec, draft) {
            return;
        }
        if let Some(since) = self.sandboxes.death() {
            let crashes = &self.sandboxes.crashes;
            let (delay, until) = (crashes.delay(since), crashes.until(since));
            if draft.now < until {
                return draft.sandbox_waits(Why::SandboxBackOff { until, delay });
            }
        }
        if let Some(failure) = self.sandboxes.creations.blocked_by(draft.now) {
            let (until, message) = (failure.until, failure.message.clone());
            return draft.sandbox_waits(Why::CreateSandboxError { until, message });
        }
        match self.sandboxes.vacancy(self.visibility) {
            Some(attempt) => draft.step(Step::CreateSandbox { attempt }, why.clone()),
            None => draft.sandbox_waits(Why::NotSeen),
        }
    }

    /// Plans the stop of all sandboxes. Returns whether all are stopped.
    pub(super) fn stop_sandboxes(&self, why: &Why, draft: &mut Draft) -> bool {
        let mut is_done = true;
        for (id, known) in &self.sandboxes.known {
            if known.was_stopped {
                continue;
            }
            is_done = false;
            if !known.is_busy {
                draft.end_step(Step::StopSandbox { id: id.clone() }, &known.retry, why);
            }
        }
        is_done
    }

    /// Plans the removal of all containers that could be mistaken for containers of the new
    /// sandbox. Returns whether none exists.
    fn remove_before_new_sandbox(&self, spec: &PodSpec, draft: &mut Draft) -> bool {
        let is_before = |name: &str| {
            let container = spec.container(name);
            container.is_some_and(|container| container.role != Role::Container)
        };
        let mut is_done = true;
        for (name, slot) in &self.slots {
            if !matches!(slot.attempts.creation(), Creation::Idle) {
                is_done = false;
                let why = Why::AnswerLost;
                draft.container_waits(name, why);
            }
            for (id, known) in &slot.known {
                if known.life.is_over() && !is_before(name) {
                    continue;
                }
                is_done = false;
                if let Some(unobserved) = self.why_unobserved(id) {
                    draft.container_waits(name, unobserved.clone());
                } else {
                    self.remove(name, id, known, Why::SandboxChanged, draft);
                }
            }
        }
        is_done
    }

    /// Plans the removal of dead containers and old sandboxes of a pod that is wanted.
    pub(super) fn collect_garbage(&self, draft: &mut Draft) {
        if !self.can_observe() {
            return;
        }
        let dead = self.slots.iter().flat_map(|(name, slot)| {
            let dead = slot.known.iter();
            let dead = dead.filter(|(_, known)| known.life.is_over());
            dead.map(move |(id, known)| DeadContainer {
                id,
                name,
                attempt: known.attempt,
            })
        });
        let garbage: Vec<Id> = garbage::select_containers(dead)
            .into_iter()
            .cloned()
            .collect();
        for (name, slot) in &self.slots {
            for (id, known) in &slot.known {
                let is_seen = self.why_unobserved(id).is_none();
                if garbage.contains(id) && is_seen && !has_step(draft, id) {
                    self.collect_container(name, id, known, draft);
                }
            }
        }
        let newest = self.sandboxes.newest().map(|(id, _)| id.clone());
        for (id, known) in &self.sandboxes.known {
            let is_old = Some(id) != newest.as_ref() && !known.is_ready && !known.is_busy;
            if !is_old || self.may_hold_containers(id) || has_step(draft, id) {
                continue;
            }
            if let Some(failure) = known.retry.blocked_by(draft.now) {
                draft.wake(failure.until);
                continue;
            }
            let id = id.clone();
            let step = if known.was_stopped {
                Step::RemoveSandbox { id }
            } else {
                Step::StopSandbox { id }
            };
            draft.step(step, Why::GarbageCollected);
        }
    }

    /// Plans the removal of a dead container. Nothing waits for it, so a failure is not shown as a
    /// wait of the container.
    fn collect_container(
        &self,
        name: &Arc<str>,
        id: &Id,
        known: &KnownContainer,
        draft: &mut Draft,
    ) {
        if let Some(failure) = known.retry.blocked_by(draft.now) {
            draft.wake(failure.until);
        } else if known.operation.is_none() {
            draft.steps.push(Planned {
                step: removal(name, id, known),
                why: Why::GarbageCollected,
            });
        }
    }

    /// Whether the sandbox may have containers. Its removal would remove those too.
    fn may_hold_containers(&self, sandbox: &Id) -> bool {
        let mut containers = self.slots.values().flat_map(|slot| slot.known.keys());
        containers.any(|id| {
            let known = self.sandbox_of.get(id);
            known.is_none_or(|known| known == sandbox)
        })
    }

    /// Plans the kills of all live containers and then the stop of the sandboxes. Returns whether
    /// everything is stopped.
    pub(super) fn stop_all(&self, pod: &Termination, why: &Why, draft: &mut Draft) -> bool {
        self.kill_all(pod, why, draft) && self.stop_sandboxes(why, draft) && {
            // The stop of a sandbox ends containers that a kill did not end.
            let mut known = self.slots.values().flat_map(|slot| slot.known.values());
            let is_stopped = known.all(|known| known.life != Life::Running);
            draft.needs_view |= !is_stopped;
            is_stopped
        }
    }
}

fn has_step(draft: &Draft, id: &Id) -> bool {
    draft.steps.iter().any(|planned| match &planned.step {
        Step::StopSandbox { id: planned }
        | Step::RemoveSandbox { id: planned }
        | Step::StartContainer { id: planned, .. }
        | Step::KillContainer { id: planned, .. }
        | Step::RemoveContainer { id: planned, .. } => planned == id,
        _ => false,
    })
}
