//! Which attempts of a name were made: the proof that none is made twice.

use tokio::time::Instant;

use super::step::Attempt;

/// The attempts of one name.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    /// The highest that was ever seen. It never sinks, also when what bore it is removed.
    highest: Option<u32>,
    creation: Creation,
}

/// Whether one is being made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Creation {
    /// What we have created is known.
    #[default]
    Idle,
    /// We wait for an answer.
    UnderWay { attempt: u32 },
    /// No answer will come. Only a complete look that was begun later tells what became of it.
    Lost { since: Instant },
}

impl Attempts {
    /// Something with this attempt exists, or has.
    pub(super) fn saw(&mut self, attempt: u32) {
        self.highest = self.highest.max(Some(attempt));
    }

    /// What was being created is there, whatever its call says: a runtime may do what it was
    /// asked for and hang only then.
    pub(super) fn appeared(&mut self, attempt: u32) {
        if self.creation == (Creation::UnderWay { attempt }) {
            self.creation = Creation::Idle;
        }
    }

    pub(super) fn begin(&mut self, attempt: Attempt) {
        let attempt = attempt.number();
        self.creation = Creation::UnderWay { attempt };
    }

    /// The call was answered; returns whether it was still awaited.
    pub(super) fn answered(&mut self, attempt: Attempt) -> bool {
        let attempt = attempt.number();
        let is_awaited = self.creation == (Creation::UnderWay { attempt });
        if is_awaited {
            self.creation = Creation::Idle;
        }
        is_awaited
    }

    /// No answer will arrive; returns whether one was still awaited.
    pub(super) fn lost(&mut self, attempt: Attempt, now: Instant) -> bool {
        let is_awaited = self.answered(attempt);
        if is_awaited {
            self.creation = Creation::Lost { since: now };
        }
        is_awaited
    }

    /// A complete look was begun at `as_of`: what exists was told by [`Self::saw`].
    pub(super) fn looked(&mut self, as_of: Instant) {
        if let Creation::Lost { since } = self.creation
            && since < as_of
        {
            self.creation = Creation::Idle;
        }
    }

    pub(super) fn creation(&self) -> Creation {
        self.creation
    }

    /// The next attempt, if none is being made. The caller has the proof that nothing lives.
    pub(super) fn next(&self) -> Option<Attempt> {
        (self.creation == Creation::Idle).then(|| Attempt::after(self.highest))
    }
}
