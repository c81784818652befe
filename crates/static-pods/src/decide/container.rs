//! The next step for the containers with one name.
//!
//! ```text
//!   none, or exited and needs a restart --back-off--> image --> create
//!   created --> start; if the start fails: remove
//!   running --> kill, if a probe has failed
//!   unknown --> kill; if the state stays unknown: remove
//! ```

use std::sync::Arc;

use pleg::model::id::Id;

use super::attempts::Creation;
use super::draft::Draft;
use super::memory::Memory;
use super::slot::{Image, KnownContainer, Life, Slot, Start};
use super::step::Step;
use super::view::Visibility;
use super::why::Why;
use crate::probe::{FailedProbe, Health, ProbeKind};
use crate::spec::{ContainerSpec, PodSpec, PullPolicy, RestartPolicy, Role};

/// The sandbox in which containers are created.
pub(super) struct TargetSandbox<'a> {
    pub(super) sandbox: &'a Id,
    pub(super) attempt: u32,
}

impl Memory {
    /// Plans the next step for a container of a pod that must run.
    pub(super) fn plan_container(
        &self,
        (pod, spec): (&PodSpec, &ContainerSpec),
        target: &TargetSandbox,
        health: &Health,
        draft: &mut Draft,
    ) {
        let name: Arc<str> = spec.name.as_str().into();
        let empty = Slot::new();
        let slot = self.slots.get(&name).unwrap_or(&empty);
        for (id, known) in slot.others() {
            if self.visibility == Visibility::Blind || self.why_unobserved(id).is_some() {
                continue;
            }
            if known.life.is_live() {
                self.kill(&name, id, known, (pod, spec), Why::SecondContainer, draft);
            } else {
                self.remove(&name, id, known, Why::SecondContainer, draft);
            }
        }
        let Some((id, known)) = slot.current() else {
            return self.create(&name, spec, slot, target, Why::ContainerAdded, draft);
        };
        if let Some(why) = self.why_unobserved(id) {
            return draft.container_waits(&name, why.clone());
        }
        match known.life {
            Life::Exited { code, .. } => {
                if let Some(until) = known.code_pending(draft.now)
                    && needs_exit_code(pod.restart_policy, spec.role)
                {
                    draft.wake(until);
                    draft.container_waits(&name, Why::ExitCodePending);
                } else if needs_restart(pod.restart_policy, spec.role, known) {
                    let why = Why::ContainerDied { exit_code: code };
                    self.create(&name, spec, slot, target, why, draft);
                }
            }
            Life::Created => self.start(&name, id, known, draft),
            Life::Running => {
                if let Some(failed) = health.failed(id)
                    && self.visibility != Visibility::Blind
                {
                    let why = reason_for(failed);
                    self.kill(&name, id, known, (pod, spec), why, draft);
                }
            }
            Life::Unknown => self.resolve_unknown(&name, id, known, (pod, spec), draft),
        }
    }

    fn create(
        &self,
        name: &Arc<str>,
        spec: &ContainerSpec,
        slot: &Slot,
        target: &TargetSandbox,
        why: Why,
        draft: &mut Draft,
    ) {
        match slot.attempts.creation() {
            Creation::Outstanding { .. } => {
                return draft.container_waits(name, Why::ContainerCreating);
            }
            Creation::Lost { .. } => return draft.container_waits(name, Why::AnswerLost),
            Creation::Idle => {}
        }
        let current = slot.current().map(|(id, known)| (id, known.life));
        if let Some((id, Life::Exited { exited_at, .. })) = current
            && slot.waited_for.as_ref() != Some(id)
        {
            let (delay, until) = (slot.crashes.delay(exited_at), slot.crashes.until(exited_at));
            if draft.now < until {
                return draft.container_waits(name, Why::CrashLoopBackOff { until, delay });
            }
        }
        if let Some(failure) = slot.creations.blocked_by(draft.now) {
            let (until, message) = (failure.until, failure.message.clone());
            return draft.container_waits(name, Why::CreateContainerError { until, message });
        }
        let Some(attempt) = slot.vacancy(self.visibility) else {
            // Another container of this name must be removed first, or the pod is not observed.
            return draft.container_waits(name, Why::NotSeen);
        };
        match &slot.image {
            Image::Pulling => draft.container_waits(name, Why::ContainerCreating),
            Image::Present(image) => draft.step(
                Step::CreateContainer {
                    container: name.clone(),
                    attempt,
                    sandbox: target.sandbox.clone(),
                    sandbox_attempt: target.attempt,
                    image: image.clone(),
                    after: current.map(|(id, _)| id.clone()),
                },
                why,
            ),
            image @ (Image::Unchecked | Image::Expected) => {
                match slot.pulls.blocked_by(draft.now) {
                    Some(failure) => {
                        let (until, message) = (failure.until, failure.message.clone());
                        draft.container_waits(name, Why::ImagePullBackOff { until, message });
                    }
                    None => draft.step(
                        Step::EnsureImage {
                            container: name.clone(),
                            image: spec.image.clone(),
                            policy: match (image, spec.pull_policy) {
                                (Image::Expected, PullPolicy::Always) => PullPolicy::IfNotPresent,
                                (_, policy) => policy,
                            },
                        },
                        why,
                    ),
                }
            }
        }
    }

    fn start(&self, name: &Arc<str>, id: &Id, known: &KnownContainer, draft: &mut Draft) {
        if self.visibility == Visibility::Blind {
            return draft.container_waits(name, Why::NotSeen);
        }
        if known.start == Start::Refused {
            if known.is_fresh() {
                let message = known.retry.message().cloned().unwrap_or_default();
                self.remove(name, id, known, Why::StartFailed { message }, draft);
            } else {
                // The runtime may report it as exited.
                draft.container_waits(name, Why::NotSeen);
            }
            return;
        }
        let why = if known.is_ours {
            Why::ContainerCreated
        } else {
            Why::LeftUnstarted
        };
        if can_begin_step(name, known, draft) {
            let step = Step::StartContainer {
                container: name.clone(),
                id: id.clone(),
                attempt: known.attempt,
            };
            draft.step(step, why);
        }
    }

    /// Plans the next step for a container in an unknown state: it is stopped, and removed if its
    /// state stays unknown.
    pub(super) fn resolve_unknown(
        &self,
        name: &Arc<str>,
        id: &Id,
        known: &KnownContainer,
        (pod, spec): (&PodSpec, &ContainerSpec),
        draft: &mut Draft,
    ) {
        if self.visibility == Visibility::Blind || !known.is_fresh() {
            draft.container_waits(name, Why::NotSeen);
        } else if known.was_stopped {
            self.remove(name, id, known, Why::StateUnknown, draft);
        } else {
            self.kill(name, id, known, (pod, spec), Why::StateUnknown, draft);
        }
    }

    fn kill(
        &self,
        name: &Arc<str>,
        id: &Id,
        known: &KnownContainer,
        (pod, spec): (&PodSpec, &ContainerSpec),
        why: Why,
        draft: &mut Draft,
    ) {
        if known.was_stopped && !known.is_fresh() {
            return draft.container_waits(name, Why::NotSeen);
        }
        if can_begin_step(name, known, draft) {
            let step = Step::KillContainer {
                container: name.clone(),
                id: id.clone(),
                grace: grace(pod, spec, &why),
                // A command can only run in a running container.
                pre_stop: spec
                    .pre_stop
                    .clone()
                    .filter(|_| known.life == Life::Running),
            };
            draft.step(step, why);
        }
    }

    pub(super) fn remove(
        &self,
        name: &Arc<str>,
        id: &Id,
        known: &KnownContainer,
        why: Why,
        draft: &mut Draft,
    ) {
        if can_begin_step(name, known, draft) {
            draft.step(removal(name, id, known), why);
        }
    }
}

pub(super) fn removal(name: &Arc<str>, id: &Id, known: &KnownContainer) -> Step {
    Step::RemoveContainer {
        container: name.clone(),
        id: id.clone(),
        attempt: known.attempt,
    }
}

/// Whether a step with a container may start: no other step with it is in progress, and none failed
/// recently. If one failed recently, this notes the wait.
pub(super) fn can_begin_step(name: &Arc<str>, known: &KnownContainer, draft: &mut Draft) -> bool {
    if known.operation.is_some() {
        return false;
    }
    if let Some(failure) = known.retry.blocked_by(draft.now) {
        let (until, message) = (failure.until, failure.message.clone());
        draft.container_waits(name, Why::StopError { until, message });
        return false;
    }
    true
}

/// Whether a container that has exited must be restarted.
pub(super) fn needs_restart(policy: RestartPolicy, role: Role, exited: &KnownContainer) -> bool {
    let failed = !exited.life.succeeded();
    match (role, policy) {
        (Role::Sidecar, _) => true,
        (Role::Init, RestartPolicy::Never) => false,
        (Role::Container, _) if exited.was_unknown => true,
        (Role::Init, _) | (Role::Container, RestartPolicy::OnFailure) => failed,
        (Role::Container, RestartPolicy::Always) => true,
        (Role::Container, RestartPolicy::Never) => false,
    }
}

/// Whether the next step depends on the exit code.
fn needs_exit_code(policy: RestartPolicy, role: Role) -> bool {
    match role {
        Role::Init => true,
        Role::Sidecar => false,
        Role::Container => policy != RestartPolicy::Always,
    }
}

fn reason_for(failed: &FailedProbe) -> Why {
    let message = failed.message.clone();
    match failed.kind {
        ProbeKind::Startup => Why::StartupFailed { message },
        ProbeKind::Liveness | ProbeKind::Readiness => Why::LivenessFailed { message },
    }
}

/// The grace period: that of the failed probe, if it has one, or that of the pod.
fn grace(pod: &PodSpec, spec: &ContainerSpec, why: &Why) -> std::time::Duration {
    let probe = match why {
        Why::LivenessFailed { .. } => spec.probes.liveness.as_ref(),
        Why::StartupFailed { .. } => spec.probes.startup.as_ref(),
        _ => None,
    };
    let own = probe.and_then(|probe| probe.grace_period);
    own.unwrap_or(pod.grace_period)
}
