//! How the start and the outcome of each step change a [`Memory`].
//!
//! ```text
//!   begin --> in progress --> ended: done | created | failed | answer lost
//!                 |
//!                 \--> a view shows that it is done: a later outcome changes nothing
//! ```

use std::sync::Arc;

use pleg::model::id::Id;
use tokio::time::Instant;

use super::memory::{Memory, Volumes};
use super::slot::{Image, Life, Operation};
use super::step::{Outcome, Planned, Step};
use super::why::Why;

impl Memory {
    /// Notes that a step has started. No decision contains the step again until it has ended.
    pub(super) fn begin(&mut self, planned: &Planned, now: Instant) {
        match &planned.step {
            Step::CreateSandbox { attempt } => {
                self.sandboxes.note_restart(now);
                self.sandboxes.attempts.begin(*attempt);
            }
            Step::StopSandbox { id } | Step::RemoveSandbox { id } => {
                if let Some(known) = self.sandboxes.known.get_mut(id) {
                    known.is_busy = true;
                    known.is_discarded = true;
                }
            }
            Step::EnsureImage { container, .. } => self.slot(container).image = Image::Pulling,
            Step::CreateContainer {
                container, attempt, ..
            } => {
                let slot = self.slot(container);
                slot.note_restart(now);
                slot.attempts.begin(*attempt);
            }
            Step::StartContainer { container, id, .. } => {
                self.start_operation(container, id, Operation::Starting)
            }
            Step::KillContainer { container, id, .. } => {
                if let Some(known) = self.slot(container).known.get_mut(id) {
                    known.was_unknown |= planned.why == Why::StateUnknown;
                }
                self.start_operation(container, id, Operation::Killing);
            }
            Step::RemoveContainer { container, id, .. } => {
                self.start_operation(container, id, Operation::Removing)
            }
            Step::RemoveVolumes => self.volumes = Volumes::BeingRemoved,
        }
    }

    fn start_operation(&mut self, container: &Arc<str>, id: &Id, operation: Operation) {
        if let Some(known) = self.slot(container).known.get_mut(id) {
            known.operation = Some(operation);
        }
    }

    /// Notes the outcome of a step.
    pub fn note_outcome(&mut self, step: &Step, outcome: Outcome, now: Instant) {
        self.last_action = self.last_action.max(Some(now));
        match step {
            Step::CreateSandbox { attempt } => {
                let sandboxes = &mut self.sandboxes;
                let was_outstanding = sandboxes.attempts.ended(*attempt, &outcome, now);
                match outcome {
                    Outcome::Created(id) => sandboxes.created(id, *attempt, now),
                    outcome if was_outstanding => {
                        sandboxes.creations.failed(failure_message(outcome), now);
                    }
                    _ => {}
                }
            }
            Step::StopSandbox { id } | Step::RemoveSandbox { id } => {
                let is_removal = matches!(step, Step::RemoveSandbox { .. });
                self.sandbox_ended(id, is_removal, outcome, now);
            }
            Step::EnsureImage { container, .. } => {
                let slot = self.slot(container);
                slot.image = Image::Unchecked;
                match outcome {
                    Outcome::Pulled(image) => {
                        slot.image = Image::Present(image);
                        slot.pulls.succeeded();
                    }
                    outcome => slot.pulls.failed(failure_message(outcome), now),
                }
            }
            Step::CreateContainer {
                container,
                attempt,
                sandbox,
                ..
            } => {
                let slot = self.slot(container);
                let was_outstanding = slot.attempts.ended(*attempt, &outcome, now);
                match outcome {
                    Outcome::Created(id) => {
                        slot.created(id.clone(), *attempt, now);
                        self.sandbox_of.insert(id, sandbox.clone());
                    }
                    // The next attempt is delayed even if the outcome is unknown.
                    outcome if was_outstanding => {
                        slot.image = Image::Expected;
                        slot.creations.failed(failure_message(outcome), now);
                    }
                    _ => {}
                }
            }
            Step::StartContainer { container, id, .. }
            | Step::KillContainer { container, id, .. }
            | Step::RemoveContainer { container, id, .. } => {
                self.container_ended(container, id, step, outcome, now);
            }
            Step::RemoveVolumes => match outcome {
                Outcome::Done | Outcome::Gone => self.volumes = Volumes::Removed,
                outcome => {
                    self.volumes = Volumes::Kept;
                    self.volume_errors.failed(failure_message(outcome), now);
                }
            },
        }
    }

    fn sandbox_ended(&mut self, id: &Id, is_removal: bool, outcome: Outcome, now: Instant) {
        let Some(known) = self.sandboxes.known.get_mut(id) else {
            return;
        };
        known.is_busy = false;
        known.last_action = Some(now);
        match outcome {
            Outcome::Done if !is_removal => {
                known.was_stopped = true;
                known.is_ready = false;
                known.dead_since.get_or_insert(now);
                known.retry.succeeded();
            }
            Outcome::Done | Outcome::Gone => {
                self.sandboxes.known.remove(id);
                self.removed.insert(id.clone(), now);
            }
            outcome => known.retry.failed(failure_message(outcome), now),
        }
    }

    fn container_ended(
        &mut self,
        name: &Arc<str>,
        id: &Id,
        step: &Step,
        outcome: Outcome,
        now: Instant,
    ) {
        let slot = self.slot(name);
        let Some(known) = slot.known.get_mut(id) else {
            return;
        };
        known.operation = None;
        known.last_action = Some(now);
        let is_removal = matches!(step, Step::RemoveContainer { .. });
        match outcome {
            Outcome::Done | Outcome::Gone if is_removal || outcome == Outcome::Gone => {
                slot.known.remove(id);
                self.removed.insert(id.clone(), now);
            }
            Outcome::Done => {
                known.was_stopped |= matches!(step, Step::KillContainer { .. });
                known.retry.succeeded();
                if matches!(step, Step::StartContainer { .. }) {
                    if known.life == Life::Created {
                        known.life = Life::Running;
                    }
                    // Not before the start: otherwise a container that can be created but not
                    // started would be retried every second.
                    slot.creations.succeeded();
                }
            }
            Outcome::Failed(message) => {
                known.retry.failed(message.clone(), now);
                if matches!(step, Step::StartContainer { .. }) {
                    known.start_refused = true;
                    slot.creations.failed(message, now);
                }
            }
            outcome => known.retry.failed(failure_message(outcome), now),
        }
    }
}

/// The message of an outcome that is a failure.
fn failure_message(outcome: Outcome) -> Arc<str> {
    match outcome {
        Outcome::Failed(message) | Outcome::AnswerLost(message) => message,
        _ => "the runtime does not have it".into(),
    }
}
