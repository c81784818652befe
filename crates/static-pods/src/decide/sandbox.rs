//! Whether a pod needs a sandbox, how its sandbox is replaced, and the removal of old containers
//! and sandboxes.
//!
//! ```text
//!   live containers: kill --> sandboxes: stop --> init containers and sidecars: remove --> create
//! ```
//!
//! A status does not show which sandbox a container is in. So before a new sandbox is created, all
//! containers must have exited, and all init containers and sidecars are removed: any that exist
//! later are in the new sandbox.

use pleg::model::id::Id;

use super::attempts::Creation;
use super::draft::Draft;
use super::ending::Termination;
use super::memory::Memory;
use super::sandboxes::KnownSandbox;
use super::slot::{KnownContainer, Life};
use super::step::{Planned, Step};
use super::why::Why;
use crate::spec::{Network, PodSpec, Role};

/// Whether the pod needs a sandbox.
pub(super) enum SandboxNeed<'a> {
    /// The pod needs no other sandbox than this one, which it has.
    Ready(&'a KnownSandbox),
    /// It is not known yet, for this reason.
    Wait(Why),
    /// The pod needs a new sandbox, in which its containers start again.
    Create(Why),
}

impl Memory {
    pub(super) fn sandbox_need(&self, spec: &PodSpec) -> SandboxNeed<'_> {
        let newest = self.sandboxes.newest();
        let mut ready = self.sandboxes.ready();
        match (ready.next(), ready.next(), newest) {
            (Some(_), Some(_), _) => SandboxNeed::Create(Why::SecondSandbox),
            (Some(known), None, Some(newest)) if known.id == newest.id => {
                let wants_address = spec.network != Network::Host;
                if wants_address && known.ips.is_empty() && known.is_fresh() && self.can_observe() {
                    SandboxNeed::Create(Why::SandboxHasNoAddress)
                } else {
                    SandboxNeed::Ready(known)
                }
            }
            _ => match self.sandboxes.attempts.creation.wait_reason() {
                Some(why) => SandboxNeed::Wait(why),
                None if !self.can_observe() => SandboxNeed::Wait(Why::NotSeen),
                None if newest.is_some() => SandboxNeed::Create(Why::SandboxNotReady),
                None => SandboxNeed::Create(Why::PodAdded),
            },
        }
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
        if let Some(pause) = self.sandboxes.pause(draft.now) {
            return draft.sandbox_waits(Why::SandboxBackOff(pause));
        }
        if let Some(failure) = self.sandboxes.creations.blocked_by(draft.now) {
            return draft.sandbox_waits(Why::CreateSandboxError(failure.clone()));
        }
        match self.sandboxes.vacancy(self.visibility) {
            Some(attempt) => draft.step(Step::CreateSandbox { attempt }, why.clone()),
            None => draft.sandbox_waits(Why::NotSeen),
        }
    }

    /// Plans the stop of all sandboxes. Returns whether all are stopped.
    fn stop_sandboxes(&self, why: &Why, draft: &mut Draft) -> bool {
        let known = self.sandboxes.known.values();
        let live: Vec<_> = known.filter(|known| !known.was_stopped).collect();
        for known in live.iter().filter(|known| !known.is_busy) {
            let id = known.id.clone();
            draft.end_step(Step::StopSandbox { id }, &known.retry, why);
        }
        live.is_empty()
    }

    /// Plans the removal of all containers that could be mistaken for containers of the new
    /// sandbox. Returns true if none exists or may be created.
    fn remove_before_new_sandbox(&self, spec: &PodSpec, draft: &mut Draft) -> bool {
        let starts_first = |name: &str| {
            let container = spec.container(name);
            container.is_some_and(|container| container.role != Role::Container)
        };
        let mut is_done = true;
        for slot in self.slots.values() {
            if slot.attempts.creation != Creation::Idle {
                is_done = false;
                draft.container_waits(&slot.name, Why::AnswerLost);
            }
            for known in slot.known.values() {
                if !known.life.is_over() || starts_first(&slot.name) {
                    is_done = false;
                    self.remove_observed(known, &Why::SandboxChanged, draft);
                }
            }
        }
        is_done
    }

    /// Plans the removal of what a wanted pod no longer needs: the exited containers of each name,
    /// except for the newest one, and the old sandboxes without containers. Nothing waits for these
    /// removals, so a failure is not shown as a wait.
    pub(super) fn collect_garbage(&self, draft: &mut Draft) {
        if !self.can_observe() {
            return;
        }
        for known in self.slots.values().flat_map(|slot| slot.garbage()) {
            if self.why_unobserved(known).is_some() || has_step(draft, &known.id) {
                continue;
            }
            if let Some(failure) = known.retry.blocked_by(draft.now) {
                draft.wake(failure.until);
            } else if known.operation.is_none() {
                draft.steps.push(Planned {
                    step: known.removal(),
                    why: Why::GarbageCollected,
                });
            }
        }
        let newest = self.sandboxes.newest().map(|newest| &newest.id);
        for known in self.sandboxes.known.values() {
            let is_old = Some(&known.id) != newest && !known.is_ready && !known.is_busy;
            if !is_old || self.may_hold_containers(&known.id) || has_step(draft, &known.id) {
                continue;
            }
            if let Some(failure) = known.retry.blocked_by(draft.now) {
                draft.wake(failure.until);
                continue;
            }
            let id = known.id.clone();
            let step = match known.was_stopped {
                true => Step::RemoveSandbox { id },
                false => Step::StopSandbox { id },
            };
            draft.step(step, Why::GarbageCollected);
        }
    }

    /// Whether the sandbox may have containers. Its removal would remove those too.
    fn may_hold_containers(&self, sandbox: &Id) -> bool {
        let sandbox_of = |known: &KnownContainer| self.sandbox_of.get(&known.id);
        self.containers()
            .any(|known| sandbox_of(known).is_none_or(|of| of == sandbox))
    }

    /// Plans the kills of all live containers and then the stop of the sandboxes. Returns whether
    /// everything is stopped.
    pub(super) fn stop_all(&self, pod: &Termination, why: &Why, draft: &mut Draft) -> bool {
        if !self.kill_all(pod, why, draft) || !self.stop_sandboxes(why, draft) {
            return false;
        }
        // The stop of a sandbox ends containers that a kill did not end.
        let is_stopped = self.containers().all(|known| known.life != Life::Running);
        draft.needs_view |= !is_stopped;
        is_stopped
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
