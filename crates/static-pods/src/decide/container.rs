//! The next step for the containers with one name.
//!
//! ```text
//!   none, or exited and needs a restart --back-off--> image --> create
//!   created --> start; if the start fails: remove
//!   running --> kill, if a probe has failed
//!   unknown --> kill; if the state stays unknown: remove
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::draft::Draft;
use super::memory::Memory;
use super::sandboxes::KnownSandbox;
use super::slot::{Image, KnownContainer, Life, Slot};
use super::step::Step;
use super::why::Why;
use crate::probe::{FailedProbe, Health};
use crate::spec::{ContainerSpec, PodSpec, ProbeKind, PullPolicy, RestartPolicy, Role};

impl Memory {
    /// Plans the next step for a container that must run in `sandbox`.
    pub(super) fn plan_container(
        &self,
        (pod, spec): (&PodSpec, &ContainerSpec),
        sandbox: &KnownSandbox,
        health: &Health,
        draft: &mut Draft,
    ) {
        let name: Arc<str> = spec.name.as_str().into();
        let empty = Slot::new(&name);
        let slot = self.slots.get(&name).unwrap_or(&empty);
        for other in slot.others() {
            if !self.can_observe() || self.why_unobserved(other).is_some() {
                continue;
            }
            if other.life.is_live() {
                kill(other, (pod, spec), Why::SecondContainer, draft);
            } else {
                draft.remove(other, Why::SecondContainer);
            }
        }
        let Some(known) = slot.current() else {
            return self.create(spec, slot, sandbox, Why::ContainerAdded, draft);
        };
        if let Some(why) = self.why_unobserved(known) {
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
                    self.create(spec, slot, sandbox, why, draft);
                }
            }
            Life::Created => self.start(known, draft),
            Life::Running => {
                if let Some(failed) = health.failed(&known.id)
                    && self.can_observe()
                {
                    kill(known, (pod, spec), reason_for(failed), draft);
                }
            }
            Life::Unknown if !self.can_observe() || !known.is_fresh() => {
                draft.container_waits(&name, Why::NotSeen);
            }
            Life::Unknown if known.was_stopped => draft.remove(known, Why::StateUnknown),
            Life::Unknown => kill(known, (pod, spec), Why::StateUnknown, draft),
        }
    }

    fn create(
        &self,
        spec: &ContainerSpec,
        slot: &Slot,
        sandbox: &KnownSandbox,
        why: Why,
        draft: &mut Draft,
    ) {
        let name = &slot.name;
        if let Some(why) = slot.attempts.creation.wait_reason() {
            return draft.container_waits(name, why);
        }
        if let Some(pause) = slot.pause(draft.now) {
            return draft.container_waits(name, Why::CrashLoopBackOff(pause));
        }
        if let Some(failure) = slot.creations.blocked_by(draft.now) {
            return draft.container_waits(name, Why::CreateContainerError(failure.clone()));
        }
        let Some(attempt) = slot.vacancy(self.visibility) else {
            // Another container of this name must be removed first, or the pod is not observed.
            return draft.container_waits(name, Why::NotSeen);
        };
        let step = match &slot.image {
            Image::Pulling => return draft.container_waits(name, Why::ContainerCreating),
            Image::Present(image) => Step::CreateContainer {
                container: name.clone(),
                attempt,
                sandbox: sandbox.id.clone(),
                sandbox_attempt: sandbox.attempt,
                image: image.clone(),
                after: slot.current().map(|known| known.id.clone()),
            },
            image @ (Image::Unchecked | Image::Expected) => {
                if let Some(failure) = slot.pulls.blocked_by(draft.now) {
                    return draft.container_waits(name, Why::ImagePullBackOff(failure.clone()));
                }
                Step::EnsureImage {
                    container: name.clone(),
                    image: spec.image.clone(),
                    policy: match (image, spec.pull_policy) {
                        (Image::Expected, PullPolicy::Always) => PullPolicy::IfNotPresent,
                        (_, policy) => policy,
                    },
                }
            }
        };
        draft.step(step, why);
    }

    fn start(&self, known: &KnownContainer, draft: &mut Draft) {
        // A container whose start was refused may be reported as exited by the next view.
        if !self.can_observe() || (known.start_refused && !known.is_fresh()) {
            draft.container_waits(&known.name, Why::NotSeen);
        } else if known.start_refused {
            let message = known.retry.message().cloned().unwrap_or_default();
            draft.remove(known, Why::StartFailed(message));
        } else if draft.can_begin_step(known) {
            let step = Step::StartContainer {
                container: known.name.clone(),
                id: known.id.clone(),
                attempt: known.attempt,
            };
            let why = match known.is_ours {
                true => Why::ContainerCreated,
                false => Why::LeftUnstarted,
            };
            draft.step(step, why);
        }
    }
}

fn kill(
    known: &KnownContainer,
    (pod, spec): (&PodSpec, &ContainerSpec),
    why: Why,
    draft: &mut Draft,
) {
    let grace = grace_period(pod, spec, &why);
    draft.kill(known, grace, spec.pre_stop.as_ref(), why);
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
        ProbeKind::Startup => Why::StartupFailed(message),
        ProbeKind::Liveness | ProbeKind::Readiness => Why::LivenessFailed(message),
    }
}

/// The grace period of the failed probe, if it has one; otherwise that of the pod.
fn grace_period(pod: &PodSpec, spec: &ContainerSpec, why: &Why) -> Duration {
    let probe = match why {
        Why::LivenessFailed(_) => spec.probes.liveness.as_ref(),
        Why::StartupFailed(_) => spec.probes.startup.as_ref(),
        _ => None,
    };
    let own = probe.and_then(|probe| probe.grace_period);
    own.unwrap_or(pod.grace_period)
}
