//! The numbered attempts to create the sandbox of a pod, or the container with one name. They
//! ensure that nothing is created twice.

use tokio::time::Instant;

use super::step::{Attempt, Outcome};
use super::why::Why;

/// The attempts of one name.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    /// The highest attempt that was ever observed, even if the result has been removed.
    highest: Option<u32>,
    pub(super) creation: Creation,
}

/// The state of the last creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Creation {
    /// The outcome of every creation is known.
    #[default]
    Idle,
    /// The call is outstanding.
    Outstanding { attempt: u32 },
    /// The answer is lost. Only a complete view as of a later time shows the outcome.
    Lost { since: Instant },
}

impl Creation {
    /// Why the next creation has to wait, if it has to.
    pub(super) fn wait_reason(self) -> Option<Why> {
        match self {
            Self::Idle => None,
            Self::Outstanding { .. } => Some(Why::ContainerCreating),
            Self::Lost { .. } => Some(Why::AnswerLost),
        }
    }
}

impl Attempts {
    /// Notes that this attempt exists or existed.
    pub(super) fn note_existing(&mut self, attempt: u32) {
        self.highest = self.highest.max(Some(attempt));
    }

    /// Notes that a view shows the result of this attempt. The creation is then done, even if its
    /// call is outstanding.
    pub(super) fn note_created(&mut self, attempt: u32) {
        if self.creation == (Creation::Outstanding { attempt }) {
            self.creation = Creation::Idle;
        }
    }

    pub(super) fn begin(&mut self, attempt: Attempt) {
        let attempt = attempt.number();
        self.creation = Creation::Outstanding { attempt };
    }

    /// Notes the outcome of a creation. Returns false if a view had already shown its result.
    pub(super) fn ended(&mut self, attempt: Attempt, outcome: &Outcome, now: Instant) -> bool {
        let attempt = attempt.number();
        let was_outstanding = self.creation == (Creation::Outstanding { attempt });
        if was_outstanding {
            self.creation = match outcome {
                Outcome::Created(_) | Outcome::Failed(_) => Creation::Idle,
                _ => Creation::Lost { since: now },
            };
        }
        was_outstanding
    }

    /// Notes a complete view as of `as_of`. It shows the outcome of a creation whose answer was lost
    /// earlier. The attempts in the view must have been passed to [`Self::note_existing`].
    pub(super) fn observed_all(&mut self, as_of: Instant) {
        if let Creation::Lost { since } = self.creation
            && since < as_of
        {
            self.creation = Creation::Idle;
        }
    }

    /// The next attempt, if the outcome of every creation is known. The caller must have checked
    /// that nothing with this name runs.
    pub(super) fn next(&self) -> Option<Attempt> {
        (self.creation == Creation::Idle).then(|| Attempt::after(self.highest))
    }
}
