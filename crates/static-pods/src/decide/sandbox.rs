//! The pod's sandbox: whether there is one to run in, and how it is replaced.
//!
//! ```text
//!   live containers --kill--> sandboxes --stop--> init containers and sidecars --remove--> create
//! ```
//!
//! A status does not tell which sandbox a container is in. As nothing that has not exited, and no
//! init container, outlives the step before `create`, all of them are known to be in the new one.

use std::sync::Arc;

use pleg::model::id::Id;

use super::attempts::Creation;
use super::draft::Draft;
use super::ending::Termination;
use super::keep::removal;
use super::memory::Memory;
use super::slot::{Known, Life};
use super::step::{Planned, Step};
use super::view::Sight;
use super::why::Why;
use crate::collect::{self, Dead};
use crate::spec::{Network, PodSpec, Role};

/// Whether the pod needs a sandbox.
pub(super) enum Need {
    /// It has this one.
    Nothing { id: Id, attempt: u32 },
    /// Not now.
    Wait(Why),
    /// It needs one, and its containers start anew in it.
    Another(Why),
}

impl Memory {
    pub(super) fn sandbox_need(&self, spec: &PodSpec) -> Need {
        let ready: Vec<_> = self.sandboxes.ready().collect();
        let newest = self.sandboxes.newest();
        match (ready.as_slice(), newest) {
            ([(id, known)], Some((newest, _))) if *id == newest => {
                let wants_address = spec.network != Network::Host;
                if wants_address && known.ips.is_empty() && known.is_fresh() && self.sees() {
                    Need::Another(Why::SandboxHasNoAddress)
                } else {
                    let (id, attempt) = ((*id).clone(), known.attempt);
                    Need::Nothing { id, attempt }
                }
            }
            ([_, _, ..], _) => Need::Another(Why::SecondSandbox),
            _ => match self.sandboxes.attempts.creation() {
                Creation::UnderWay { .. } => Need::Wait(Why::ContainerCreating),
                Creation::Lost { .. } => Need::Wait(Why::AnswerLost),
                Creation::Idle if !self.sees() => Need::Wait(Why::NotSeen),
                Creation::Idle if newest.is_some() => Need::Another(Why::SandboxNotReady),
                Creation::Idle => Need::Another(Why::PodAdded),
            },
        }
    }

    pub(super) fn sees(&self) -> bool {
        self.sight != Sight::Blind
    }

    /// Ends what is left of the old sandbox; once nothing is, creates a new one.
    pub(super) fn replace_sandbox(&self, spec: &PodSpec, why: &Why, draft: &mut Draft) {
        if !self.sees() {
            return draft.sandbox_waits(Why::NotSeen);
        }
        let pod = Termination::from(spec);
        if !self.stop_all(&pod, why, draft) || !self.purge(spec, draft) {
            return;
        }
        if let Some(since) = self.sandboxes.death() {
            let crashes = &self.sandboxes.crashes;
            let (delay, until) = (crashes.delay(since), crashes.until(since));
            if draft.now < until {
                return draft.sandbox_waits(Why::SandboxBackOff { until, delay });
            }
        }
        if let Some(failure) = self.sandboxes.creations.holds(draft.now) {
            let (until, message) = (failure.until, failure.message.clone());
            return draft.sandbox_waits(Why::CreateSandboxError { until, message });
        }
        match self.sandboxes.vacancy(self.sight) {
            Some(attempt) => draft.step(Step::CreateSandbox { attempt }, why.clone()),
            None => draft.sandbox_waits(Why::NotSeen),
        }
    }

    /// Stops all sandboxes that were not stopped yet; tells whether none is left.
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

    /// Removes what must not be taken for a part of the new sandbox; tells whether none is left.
    fn purge(&self, spec: &PodSpec, draft: &mut Draft) -> bool {
        let is_before = |name: &str| {
            let container = spec.container(name);
            container.is_some_and(|container| container.role != Role::Container)
        };
        let mut is_done = true;
        for (name, slot) in &self.slots {
            if !matches!(slot.attempts.creation(), Creation::Idle) {
                is_done = false;
                let why = Why::AnswerLost;
                draft.waits(name, why);
            }
            for (id, known) in &slot.known {
                if known.life.is_over() && !is_before(name) {
                    continue;
                }
                is_done = false;
                if let Some(unseen) = self.why_unseen(id) {
                    draft.waits(name, unseen.clone());
                } else {
                    self.remove(name, id, known, Why::SandboxChanged, draft);
                }
            }
        }
        is_done
    }

    /// Removes dead containers and sandboxes that are not needed, while the pod exists.
    pub(super) fn collect_garbage(&self, draft: &mut Draft) {
        if !self.sees() {
            return;
        }
        let dead = self.slots.iter().flat_map(|(name, slot)| {
            let dead = slot.known.iter();
            let dead = dead.filter(|(_, known)| known.life.is_over());
            dead.map(move |(id, known)| Dead {
                id,
                name,
                attempt: known.attempt,
            })
        });
        let garbage: Vec<Id> = collect::containers(dead).into_iter().cloned().collect();
        for (name, slot) in &self.slots {
            for (id, known) in &slot.known {
                let is_seen = self.why_unseen(id).is_none();
                if garbage.contains(id) && is_seen && !is_planned(draft, id) {
                    self.remove_quietly(name, id, known, draft);
                }
            }
        }
        let newest = self.sandboxes.newest().map(|(id, _)| id.clone());
        for (id, known) in &self.sandboxes.known {
            let is_old = Some(id) != newest.as_ref() && !known.is_ready && !known.is_busy;
            if !is_old || self.may_hold_containers(id) || is_planned(draft, id) {
                continue;
            }
            if let Some(failure) = known.retry.holds(draft.now) {
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

    /// Nobody waits for the removal, so its failure is not shown as what the container waits for.
    fn remove_quietly(&self, name: &Arc<str>, id: &Id, known: &Known, draft: &mut Draft) {
        if let Some(failure) = known.retry.holds(draft.now) {
            draft.wake(failure.until);
        } else if known.doing.is_none() {
            draft.steps.push(Planned {
                step: removal(name, id, known),
                why: Why::GarbageCollected,
            });
        }
    }

    /// Removing a sandbox removes its containers, also those whose logs are kept.
    fn may_hold_containers(&self, sandbox: &Id) -> bool {
        let mut containers = self.slots.values().flat_map(|slot| slot.known.keys());
        containers.any(|id| {
            let known = self.sandbox_of.get(id);
            known.is_none_or(|known| known == sandbox)
        })
    }

    /// Kills all live containers and then stops the sandboxes; tells whether all is still.
    pub(super) fn stop_all(&self, pod: &Termination, why: &Why, draft: &mut Draft) -> bool {
        self.kill_all(pod, why, draft) && self.stop_sandboxes(why, draft) && {
            // What a kill did not end, the end of its sandbox did.
            let is_still = |life: Life| !life.is_live();
            let mut lives = self.slots.values().flat_map(|slot| slot.known.values());
            let is_still = lives.all(|known| is_still(known.life) || known.life == Life::Unknown);
            draft.wants_look |= !is_still;
            is_still
        }
    }
}

fn is_planned(draft: &Draft, id: &Id) -> bool {
    draft.steps.iter().any(|planned| match &planned.step {
        Step::StopSandbox { id: planned }
        | Step::RemoveSandbox { id: planned }
        | Step::StartContainer { id: planned, .. }
        | Step::KillContainer { id: planned, .. }
        | Step::RemoveContainer { id: planned, .. } => planned == id,
        _ => false,
    })
}
