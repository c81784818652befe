//! Keeping one container as it should be: what the containers of one name need next.
//!
//! ```text
//!   none, or exited and to be restarted --back-off--> image --> create
//!   created --> start; if that is refused: remove
//!   running --> kill, if a probe has failed
//!   unknown --> kill; if it stays so: remove
//! ```

use std::sync::Arc;

use pleg::model::id::Id;

use super::attempts::Creation;
use super::draft::Draft;
use super::memory::Memory;
use super::slot::{Image, Known, Life, Slot, Start};
use super::step::Step;
use super::view::Sight;
use super::why::Why;
use crate::probe::{FailedProbe, Health, Kind};
use crate::spec::{ContainerSpec, PodSpec, PullPolicy, RestartPolicy, Role};

/// Where the containers of a pod run.
pub(super) struct Place<'a> {
    pub(super) sandbox: &'a Id,
    pub(super) attempt: u32,
}

impl Memory {
    /// Sees to it that the container runs, or has run, as it should.
    pub(super) fn keep(
        &self,
        (pod, spec): (&PodSpec, &ContainerSpec),
        place: &Place,
        health: &Health,
        draft: &mut Draft,
    ) {
        let name: Arc<str> = spec.name.as_str().into();
        let empty = Slot::new();
        let slot = self.slots.get(&name).unwrap_or(&empty);
        for (id, known) in slot.others() {
            if self.sight == Sight::Blind || self.why_unseen(id).is_some() {
                continue;
            }
            if known.life.is_live() {
                self.kill(&name, id, known, (pod, spec), Why::SecondContainer, draft);
            } else {
                self.remove(&name, id, known, Why::SecondContainer, draft);
            }
        }
        let Some((id, known)) = slot.current() else {
            return self.create(&name, spec, slot, place, Why::ContainerAdded, draft);
        };
        if let Some(why) = self.why_unseen(id) {
            return draft.waits(&name, why.clone());
        }
        match known.life {
            Life::Exited { code, .. } => {
                if let Some(until) = known.code_pending(draft.now)
                    && needs_code(pod.restart_policy, spec.role)
                {
                    draft.wake(until);
                    draft.waits(&name, Why::ExitCodePending);
                } else if restarts(pod.restart_policy, spec.role, known) {
                    let why = Why::ContainerDied { exit_code: code };
                    self.create(&name, spec, slot, place, why, draft);
                }
            }
            Life::Created => self.start(&name, id, known, draft),
            Life::Running => {
                if let Some(failed) = health.failed(id)
                    && self.sight != Sight::Blind
                {
                    let why = because_of(failed);
                    self.kill(&name, id, known, (pod, spec), why, draft);
                }
            }
            Life::Unknown => self.settle(&name, id, known, (pod, spec), draft),
        }
    }

    fn create(
        &self,
        name: &Arc<str>,
        spec: &ContainerSpec,
        slot: &Slot,
        place: &Place,
        why: Why,
        draft: &mut Draft,
    ) {
        match slot.attempts.creation() {
            Creation::UnderWay { .. } => return draft.waits(name, Why::ContainerCreating),
            Creation::Lost { .. } => return draft.waits(name, Why::AnswerLost),
            Creation::Idle => {}
        }
        let current = slot.current().map(|(id, known)| (id, known.life));
        if let Some((id, Life::Exited { seen, .. })) = current
            && slot.waited_for.as_ref() != Some(id)
        {
            let (delay, until) = (slot.crashes.delay(seen), slot.crashes.until(seen));
            if draft.now < until {
                return draft.waits(name, Why::CrashLoopBackOff { until, delay });
            }
        }
        if let Some(failure) = slot.creations.holds(draft.now) {
            let (until, message) = (failure.until, failure.message.clone());
            return draft.waits(name, Why::CreateContainerError { until, message });
        }
        let Some(attempt) = slot.vacancy(self.sight) else {
            // Of the same name, one waits to be removed, or nothing is seen.
            return draft.waits(name, Why::NotSeen);
        };
        match &slot.image {
            Image::Pulling => draft.waits(name, Why::ContainerCreating),
            Image::Present(image) => draft.step(
                Step::CreateContainer {
                    container: name.clone(),
                    attempt,
                    sandbox: place.sandbox.clone(),
                    sandbox_attempt: place.attempt,
                    image: image.clone(),
                    after: current.map(|(id, _)| id.clone()),
                },
                why,
            ),
            image @ (Image::Unchecked | Image::Expected) => match slot.pulls.holds(draft.now) {
                Some(failure) => {
                    let (until, message) = (failure.until, failure.message.clone());
                    draft.waits(name, Why::ImagePullBackOff { until, message });
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
            },
        }
    }

    fn start(&self, name: &Arc<str>, id: &Id, known: &Known, draft: &mut Draft) {
        if self.sight == Sight::Blind {
            return draft.waits(name, Why::NotSeen);
        }
        if known.start == Start::Refused {
            if known.is_fresh() {
                let message = known.retry.message().cloned().unwrap_or_default();
                self.remove(name, id, known, Why::StartFailed { message }, draft);
            } else {
                // The runtime may have noted it as exited.
                draft.waits(name, Why::NotSeen);
            }
            return;
        }
        let why = if known.is_ours {
            Why::ContainerCreated
        } else {
            Why::LeftUnstarted
        };
        if is_free(name, known, draft) {
            let step = Step::StartContainer {
                container: name.clone(),
                id: id.clone(),
                attempt: known.attempt,
            };
            draft.step(step, why);
        }
    }

    /// Its state is unknown: it is stopped, and removed where that does not settle it.
    pub(super) fn settle(
        &self,
        name: &Arc<str>,
        id: &Id,
        known: &Known,
        (pod, spec): (&PodSpec, &ContainerSpec),
        draft: &mut Draft,
    ) {
        if self.sight == Sight::Blind || !known.is_fresh() {
            draft.waits(name, Why::NotSeen);
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
        known: &Known,
        (pod, spec): (&PodSpec, &ContainerSpec),
        why: Why,
        draft: &mut Draft,
    ) {
        if known.was_stopped && !known.is_fresh() {
            return draft.waits(name, Why::NotSeen);
        }
        if is_free(name, known, draft) {
            let step = Step::KillContainer {
                container: name.clone(),
                id: id.clone(),
                grace: grace(pod, spec, &why),
                // Nothing can be run in what may not run.
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
        known: &Known,
        why: Why,
        draft: &mut Draft,
    ) {
        if is_free(name, known, draft) {
            draft.step(removal(name, id, known), why);
        }
    }
}

pub(super) fn removal(name: &Arc<str>, id: &Id, known: &Known) -> Step {
    Step::RemoveContainer {
        container: name.clone(),
        id: id.clone(),
        attempt: known.attempt,
    }
}

/// Whether a step with it may begin: none is under way, and none has just failed.
pub(super) fn is_free(name: &Arc<str>, known: &Known, draft: &mut Draft) -> bool {
    if known.doing.is_some() {
        return false;
    }
    if let Some(failure) = known.retry.holds(draft.now) {
        let (until, message) = (failure.until, failure.message.clone());
        draft.waits(name, Why::StopError { until, message });
        return false;
    }
    true
}

/// Whether a container that has exited is started again.
pub(super) fn restarts(policy: RestartPolicy, role: Role, exited: &Known) -> bool {
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

/// Whether anything depends on how it has ended.
fn needs_code(policy: RestartPolicy, role: Role) -> bool {
    match role {
        Role::Init => true,
        Role::Sidecar => false,
        Role::Container => policy != RestartPolicy::Always,
    }
}

fn because_of(failed: &FailedProbe) -> Why {
    let message = failed.message.clone();
    match failed.kind {
        Kind::Startup => Why::StartupFailed { message },
        Kind::Liveness | Kind::Readiness => Why::LivenessFailed { message },
    }
}

/// A probe may have a grace period of its own.
fn grace(pod: &PodSpec, spec: &ContainerSpec, why: &Why) -> std::time::Duration {
    let probe = match why {
        Why::LivenessFailed { .. } => spec.probes.liveness.as_ref(),
        Why::StartupFailed { .. } => spec.probes.startup.as_ref(),
        _ => None,
    };
    let own = probe.and_then(|probe| probe.grace_period);
    own.unwrap_or(pod.grace_period)
}
