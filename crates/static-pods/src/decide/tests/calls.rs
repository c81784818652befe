//! The outstanding calls of the simulated runtime.

use pleg::model::id::Id;
use pleg::model::listed::ContainerState;

use super::super::{Outcome, Step};
use super::world::{Container, Sandbox, World};

/// An outstanding call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) step: Step,
    /// Its outcome, once it has taken effect.
    pub(super) outcome: Option<Outcome>,
    /// Whether its caller still waits for the answer.
    pub(super) has_caller: bool,
}

impl World {
    /// Receives a call. A creation whose name is taken ends with [`Outcome::AnswerLost`].
    pub(super) fn arrive(&self, step: Step) -> Call {
        let is_taken = match name_of(&step) {
            None => false,
            Some(name) => {
                let mut pending = self.calls.iter().filter(|call| call.outcome.is_none());
                let sandboxes = self.sandboxes.iter().map(|it| (None, it.attempt));
                let containers = self.containers.iter();
                let containers = containers.map(|it| (Some(&*it.name), it.attempt));
                let mut existing = sandboxes.chain(containers);
                self.is_reserved
                    || pending.any(|call| name_of(&call.step) == Some(name))
                    || existing.any(|it| it == name)
            }
        };
        Call {
            step,
            outcome: is_taken.then(|| Outcome::AnswerLost("the name is reserved".into())),
            has_caller: true,
        }
    }

    /// Performs a call if it has not taken effect. Returns its step and, if its caller still waits,
    /// the answer.
    pub(super) fn finish(&mut self, call: Call) -> (Step, Option<Outcome>) {
        let outcome = match call.outcome {
            Some(outcome) => outcome,
            None => self.effect(&call.step),
        };
        (call.step, call.has_caller.then_some(outcome))
    }

    fn new_id(&mut self) -> Id {
        self.ids += 1;
        Id::from(format!("id{}", self.ids))
    }

    fn is_ready(&self, sandbox: &Id) -> bool {
        let mut sandboxes = self.sandboxes.iter();
        sandboxes.any(|it| it.id == *sandbox && it.is_ready)
    }

    /// Applies the effect of a call, and checks the world.
    pub(super) fn effect(&mut self, step: &Step) -> Outcome {
        let outcome = self.apply(step);
        self.check();
        outcome
    }

    fn apply(&mut self, step: &Step) -> Outcome {
        match step {
            Step::CreateSandbox { attempt } => {
                let id = self.new_id();
                self.sandboxes.push(Sandbox {
                    id: id.clone(),
                    attempt: attempt.number(),
                    is_ready: true,
                });
                Outcome::Created(id)
            }
            Step::StopSandbox { id } => {
                self.end_containers_of(id);
                let mut sandboxes = self.sandboxes.iter_mut();
                if let Some(sandbox) = sandboxes.find(|it| it.id == *id) {
                    sandbox.is_ready = false;
                }
                Outcome::Done
            }
            Step::RemoveSandbox { id } => {
                self.containers.retain(|it| it.sandbox != *id);
                self.sandboxes.retain(|it| it.id != *id);
                Outcome::Done
            }
            Step::EnsureImage { .. } => Outcome::Pulled("image".into()),
            Step::CreateContainer {
                container,
                attempt,
                sandbox,
                ..
            } => {
                if !self.is_ready(sandbox) {
                    return Outcome::Failed("the sandbox is not ready".into());
                }
                let id = self.new_id();
                self.containers.push(Container {
                    id: id.clone(),
                    name: container.clone(),
                    attempt: attempt.number(),
                    sandbox: sandbox.clone(),
                    state: ContainerState::Created,
                    code: None,
                });
                Outcome::Created(id)
            }
            Step::StartContainer { id, .. } => {
                let ready: Vec<_> = self.sandboxes.iter().filter(|it| it.is_ready).collect();
                let ready: Vec<_> = ready.into_iter().map(|it| it.id.clone()).collect();
                let mut containers = self.containers.iter_mut();
                match containers.find(|it| it.id == *id) {
                    None => Outcome::Gone,
                    Some(it)
                        if it.state == ContainerState::Created && ready.contains(&it.sandbox) =>
                    {
                        it.state = ContainerState::Running;
                        Outcome::Done
                    }
                    Some(_) => Outcome::Failed("it cannot be started".into()),
                }
            }
            Step::KillContainer { id, .. } => {
                let mut containers = self.containers.iter_mut();
                match containers.find(|it| it.id == *id) {
                    None => Outcome::Gone,
                    Some(it) => {
                        end(it);
                        Outcome::Done
                    }
                }
            }
            Step::RemoveContainer { id, .. } => {
                self.containers.retain(|it| it.id != *id);
                Outcome::Done
            }
            Step::RemoveVolumes => {
                self.has_volumes = false;
                Outcome::Done
            }
        }
    }

    fn end_containers_of(&mut self, sandbox: &Id) {
        let containers = self.containers.iter_mut();
        for container in containers.filter(|it| it.sandbox == *sandbox) {
            end(container);
        }
    }
}

fn end(container: &mut Container) {
    if container.state != ContainerState::Exited && container.state != ContainerState::Created {
        container.state = ContainerState::Exited;
        container.code = Some(137);
    }
}

fn name_of(step: &Step) -> Option<(Option<&str>, u32)> {
    match step {
        Step::CreateSandbox { attempt } => Some((None, attempt.number())),
        Step::CreateContainer {
            container, attempt, ..
        } => Some((Some(container), attempt.number())),
        _ => None,
    }
}
