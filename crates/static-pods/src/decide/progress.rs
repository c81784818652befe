//! Steps that begin and end: what each one changes in a [`Memory`].
//!
//! ```text
//!   begin --> under way --> ended: done | created | refused | no answer
//!                 |
//!                 \--> a view shows that it was done: what its call says later changes nothing
//! ```

use std::sync::Arc;

use pleg::model::id::Id;
use tokio::time::Instant;

use super::memory::{Memory, Volumes};
use super::slot::{Doing, Image, Start};
use super::step::{Outcome, Planned, Step};
use super::why::Why;

impl Memory {
    /// Notes that a step has begun: no decision names it again until it has ended.
    pub(super) fn begin(&mut self, planned: &Planned, now: Instant) {
        match &planned.step {
            Step::CreateSandbox { attempt } => {
                self.sandboxes.note_restart(now);
                self.sandboxes.attempts.begin(*attempt);
            }
            Step::StopSandbox { id } => {
                if let Some(known) = self.sandboxes.known.get_mut(id) {
                    known.is_busy = true;
                    known.is_condemned = true;
                }
            }
            Step::RemoveSandbox { id } => {
                if let Some(known) = self.sandboxes.known.get_mut(id) {
                    known.is_busy = true;
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
                self.doing(container, id, Doing::Starting)
            }
            Step::KillContainer { container, id, .. } => {
                if let Some(known) = self.slot(container).known.get_mut(id) {
                    known.was_unknown |= planned.why == Why::StateUnknown;
                }
                self.doing(container, id, Doing::Killing);
            }
            Step::RemoveContainer { container, id, .. } => {
                self.doing(container, id, Doing::Removing)
            }
            Step::RemoveVolumes => self.volumes = Volumes::BeingRemoved,
        }
    }

    fn doing(&mut self, container: &Arc<str>, id: &Id, doing: Doing) {
        if let Some(known) = self.slot(container).known.get_mut(id) {
            known.doing = Some(doing);
        }
    }

    /// Notes how a step has ended.
    pub fn ended(&mut self, step: &Step, outcome: Outcome, now: Instant) {
        self.touched = self.touched.max(Some(now));
        match step {
            Step::CreateSandbox { attempt } => {
                let sandboxes = &mut self.sandboxes;
                match outcome {
                    Outcome::Created(id) => {
                        sandboxes.attempts.answered(*attempt);
                        sandboxes.created(id, *attempt, now);
                    }
                    Outcome::Failed(message) => {
                        if sandboxes.attempts.answered(*attempt) {
                            sandboxes.creations.failed(message, now);
                        }
                    }
                    outcome => {
                        if sandboxes.attempts.lost(*attempt, now) {
                            sandboxes.creations.failed(words(outcome), now);
                        }
                    }
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
                    outcome => slot.pulls.failed(words(outcome), now),
                }
            }
            Step::CreateContainer {
                container,
                attempt,
                sandbox,
                ..
            } => {
                let slot = self.slot(container);
                match outcome {
                    Outcome::Created(id) => {
                        slot.attempts.answered(*attempt);
                        slot.created(id.clone(), *attempt, now);
                        self.sandbox_of.insert(id, sandbox.clone());
                    }
                    Outcome::Failed(message) => {
                        if slot.attempts.answered(*attempt) {
                            slot.creation_failed(message, now);
                        }
                    }
                    outcome => {
                        if slot.attempts.lost(*attempt, now) {
                            slot.creation_failed(words(outcome), now);
                        }
                    }
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
                    self.volume_errors.failed(words(outcome), now);
                }
            },
        }
    }

    fn sandbox_ended(&mut self, id: &Id, is_removal: bool, outcome: Outcome, now: Instant) {
        let Some(known) = self.sandboxes.known.get_mut(id) else {
            return;
        };
        known.is_busy = false;
        known.touched = Some(now);
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
            outcome => known.retry.failed(words(outcome), now),
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
        known.doing = None;
        known.touched = Some(now);
        let is_removal = matches!(step, Step::RemoveContainer { .. });
        match outcome {
            Outcome::Gone => self.forget(name, id, now),
            Outcome::Done if is_removal => self.forget(name, id, now),
            Outcome::Done => {
                known.was_stopped |= matches!(step, Step::KillContainer { .. });
                known.retry.succeeded();
                if matches!(step, Step::StartContainer { .. }) {
                    known.was_started();
                    // Not before: what can be created and not started would be tried every second.
                    slot.creations.succeeded();
                }
            }
            Outcome::Failed(message) => {
                known.retry.failed(message.clone(), now);
                if matches!(step, Step::StartContainer { .. }) {
                    known.start = Start::Refused;
                    slot.creations.failed(message, now);
                }
            }
            outcome => known.retry.failed(words(outcome), now),
        }
    }

    fn forget(&mut self, name: &Arc<str>, id: &Id, now: Instant) {
        self.slot(name).known.remove(id);
        self.removed.insert(id.clone(), now);
    }
}

/// Why something failed, in words.
fn words(outcome: Outcome) -> Arc<str> {
    match outcome {
        Outcome::Failed(message) | Outcome::Unanswered(message) => message,
        _ => "the runtime does not have it".into(),
    }
}
