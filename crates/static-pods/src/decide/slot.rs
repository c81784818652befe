//! The containers of one name in a pod: all that were seen, and what we do with them.
//!
//! A container's state only advances, so what is known of an id stays true however old it is:
//!
//! ```text
//!   Created --> Running --> Exited --> removed
//!      \-----> Unknown <----/  (until a newer look says otherwise)
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use pleg::model::id::Id;
use pleg::model::listed::ContainerState;
use pleg::model::status::ContainerStatus;
use tokio::time::Instant;

use super::attempts::Attempts;
use super::retry::Retry;
use super::step::Attempt;
use super::view::Sight;
use crate::backoff::{Backoff, Policy};

/// For so long an exit code that the runtime does not know yet is waited for: CRI-O tells it once
/// the exit file is there. After that it counts as a failure.
const CODE_PENDING: Duration = Duration::from_secs(5);

/// The containers of one name.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) attempts: Attempts,
    pub(super) known: BTreeMap<Id, Known>,
    pub(super) image: Image,
    /// Failures to pull the image.
    pub(super) pulls: Retry,
    /// Failures to create.
    pub(super) creations: Retry,
    pub(super) crashes: Backoff,
    /// The exit after which the wait is over.
    pub(super) waited_for: Option<Id>,
}

/// Whether the runtime has the image for the next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Image {
    Unchecked,
    /// It had it for a creation that failed: that is checked again, but nothing is pulled anew.
    Expected,
    Pulling,
    Present(std::sync::Arc<str>),
}

/// A container.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) attempt: u32,
    pub(super) life: Life,
    /// The newest look that has shown it.
    pub(super) shown: Option<Instant>,
    /// When our last action on it ended.
    pub(super) touched: Option<Instant>,
    pub(super) doing: Option<Doing>,
    pub(super) start: Start,
    /// A kill was answered; the runtime has stopped it.
    pub(super) was_stopped: bool,
    /// It was killed because its state is unknown: it is restarted by any policy, as by a kubelet.
    pub(super) was_unknown: bool,
    /// Failures to start, stop or remove it.
    pub(super) retry: Retry,
    /// It was created by this run.
    pub(super) is_ours: bool,
    /// What a view last said of it, to be shown.
    pub(super) status: Option<ContainerStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Created,
    Running,
    Unknown,
    Exited {
        /// None while the runtime does not know it.
        code: Option<i32>,
        /// When it was first seen to have exited.
        seen: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Starting,
    Killing,
    Removing,
}

/// Whether it was tried to start it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Untried,
    /// The runtime refused.
    Refused,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            attempts: Attempts::default(),
            known: BTreeMap::new(),
            image: Image::Unchecked,
            pulls: Retry::new(Policy::IMAGE_PULL),
            creations: Retry::new(Policy::ERRORS),
            crashes: Backoff::new(Policy::CRASH_LOOP),
            waited_for: None,
        }
    }

    /// Takes in what a view shows of one of them.
    pub(super) fn see(&mut self, shown: &ContainerStatus, as_of: Option<Instant>, now: Instant) {
        self.attempts.saw(shown.attempt);
        self.attempts.appeared(shown.attempt);
        let life = Life::of(shown, now);
        let known = self.known.entry(shown.id.clone());
        let known = known.or_insert_with(|| Known::new(shown.attempt, life, false));
        known.see(shown, life, as_of);
    }

    /// A complete look was begun at `as_of` and has shown all that there is.
    pub(super) fn looked(&mut self, as_of: Instant) {
        self.attempts.looked(as_of);
        let is_there = |known: &Known| known.shown >= Some(as_of) || known.touched >= Some(as_of);
        self.known.retain(|_, known| is_there(known));
    }

    pub(super) fn created(&mut self, id: Id, attempt: Attempt, now: Instant) {
        let attempt = attempt.number();
        self.attempts.saw(attempt);
        self.image = Image::Unchecked;
        let known = self.known.entry(id);
        let known = known.or_insert_with(|| Known::new(attempt, Life::Created, true));
        known.is_ours = true;
        known.touched = known.touched.max(Some(now));
    }

    /// Nothing was created, as far as is known: the next try waits.
    pub(super) fn creation_failed(&mut self, message: std::sync::Arc<str>, now: Instant) {
        self.image = Image::Expected;
        self.creations.failed(message, now);
    }

    /// Notes that it is started anew: the wait after the next exit is twice as long.
    pub(super) fn note_restart(&mut self, now: Instant) {
        let exited = self.current().and_then(|(id, known)| match known.life {
            Life::Exited { seen, .. } => Some((id.clone(), seen)),
            _ => None,
        });
        if let Some((id, seen)) = exited
            && self.waited_for.as_ref() != Some(&id)
        {
            self.crashes.note(seen, now);
            self.waited_for = Some(id);
        }
    }

    /// The one that counts: one that runs, or else the newest attempt.
    pub(super) fn current(&self) -> Option<(&Id, &Known)> {
        let rank = |known: &Known| (known.life.is_live(), known.attempt);
        self.known.iter().max_by_key(|(_, known)| rank(known))
    }

    /// The others that are not dead.
    pub(super) fn others(&self) -> impl Iterator<Item = (&Id, &Known)> {
        let current = self.current().map(|(id, _)| id.clone());
        let others = self.known.iter();
        others.filter(move |(id, known)| Some(*id) != current.as_ref() && !known.life.is_over())
    }

    pub(super) fn live(&self) -> impl Iterator<Item = (&Id, &Known)> {
        self.known.iter().filter(|(_, known)| known.life.is_live())
    }

    /// The next attempt, if it is proven that none of this name lives or is being created.
    pub(super) fn vacancy(&self, sight: Sight) -> Option<Attempt> {
        let is_vacant = self.known.values().all(|known| known.life.is_over());
        let next = self.attempts.next().filter(|_| is_vacant);
        match sight {
            Sight::Complete | Sight::KnownIdsOnly => next,
            Sight::Blind => None,
        }
    }
}

impl Known {
    fn new(attempt: u32, life: Life, is_ours: bool) -> Self {
        Self {
            attempt,
            life,
            shown: None,
            touched: None,
            doing: None,
            start: Start::Untried,
            was_stopped: false,
            was_unknown: false,
            retry: Retry::new(Policy::ERRORS),
            is_ours,
            status: None,
        }
    }

    fn see(&mut self, shown: &ContainerStatus, life: Life, as_of: Option<Instant>) {
        let is_fresh = as_of > self.touched;
        let next = match (self.life, life) {
            (Life::Exited { seen, code: None }, Life::Exited { code, .. }) => {
                Life::Exited { code, seen }
            }
            (Life::Exited { .. }, _) => self.life,
            (_, Life::Exited { .. }) => life,
            (Life::Created, Life::Running) => life,
            // It does not go back; an old view does not undo what a newer one, or we, did.
            (Life::Running, Life::Created) => self.life,
            (_, Life::Unknown) | (Life::Unknown, _) if is_fresh && as_of >= self.shown => life,
            _ => self.life,
        };
        if next != self.life || self.status.is_none() || as_of >= self.shown {
            self.status = Some(shown.clone());
        }
        self.life = next;
        self.shown = self.shown.max(as_of);
        match (self.doing, self.life) {
            (Some(Doing::Starting), Life::Running) => self.doing = None,
            (Some(Doing::Starting | Doing::Killing), Life::Exited { .. }) => self.doing = None,
            _ => {}
        }
    }

    /// The runtime has answered that it was started.
    pub(super) fn was_started(&mut self) {
        if self.life == Life::Created {
            self.life = Life::Running;
        }
    }

    /// Whether a look that was begun after our last action on it has shown it.
    pub(super) fn is_fresh(&self) -> bool {
        self.shown > self.touched
    }

    /// An exit whose code is still expected, until when.
    pub(super) fn code_pending(&self, now: Instant) -> Option<Instant> {
        match self.life {
            Life::Exited { code: None, seen } => Some(seen + CODE_PENDING).filter(|it| *it > now),
            _ => None,
        }
    }
}

impl Life {
    fn of(shown: &ContainerStatus, now: Instant) -> Self {
        match shown.state {
            ContainerState::Created => Self::Created,
            ContainerState::Running => Self::Running,
            ContainerState::Unknown => Self::Unknown,
            ContainerState::Exited => Self::Exited {
                code: shown.exit_code.filter(|_| !shown.lacks_exit_code()),
                seen: now,
            },
        }
    }

    /// It has a process, or may have.
    pub(super) fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Unknown)
    }

    /// It has ended: it never runs again.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Exited { .. })
    }

    /// It has ended with 0.
    pub(super) fn succeeded(self) -> bool {
        matches!(self, Self::Exited { code: Some(0), .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(lives: &[Life]) -> Slot {
        let mut slot = Slot::new();
        for (attempt, life) in (0..).zip(lives) {
            slot.attempts.saw(attempt);
            let id = Id::from(format!("id{attempt}"));
            slot.known.insert(id, Known::new(attempt, *life, false));
        }
        slot
    }

    #[test]
    fn a_container_that_has_exited_does_not_run_again_whatever_a_view_says() {
        let now = Instant::now();
        let shown = |state, exit_code| ContainerStatus {
            id: "one".into(),
            name: "app".into(),
            state,
            attempt: 0,
            exit_code,
            reason: None,
            created_at: None,
            started_at: None,
            finished_at: None,
            image: "image".into(),
            pod: None,
        };
        let mut slot = Slot::new();
        let later = now + Duration::from_secs(1);
        slot.see(&shown(ContainerState::Exited, Some(3)), Some(now), now);
        for state in ContainerState::ALL {
            slot.see(&shown(state, None), Some(later), later);
            let (_, known) = slot.current().unwrap();
            let (code, seen) = (Some(3), now);
            assert_eq!(known.life, Life::Exited { code, seen }, "{state:?}");
        }
    }

    #[test]
    fn there_is_an_attempt_only_if_all_of_the_name_have_exited_and_all_of_it_is_known() {
        let seen = Instant::now();
        let exited = Life::Exited {
            code: Some(1),
            seen,
        };
        let number = |slot: &Slot, sight| slot.vacancy(sight).map(Attempt::number);
        assert_eq!(number(&slot(&[]), Sight::Complete), Some(0));
        assert_eq!(
            number(&slot(&[exited, exited]), Sight::KnownIdsOnly),
            Some(2)
        );
        assert_eq!(number(&slot(&[exited]), Sight::Blind), None);
        for life in [Life::Created, Life::Running, Life::Unknown] {
            assert_eq!(number(&slot(&[life]), Sight::Complete), None, "{life:?}");
            let older = slot(&[life, exited]);
            assert_eq!(number(&older, Sight::Complete), None, "{life:?}");
        }
        let mut creating = slot(&[exited]);
        let attempt = creating.vacancy(Sight::Complete).unwrap();
        creating.attempts.begin(attempt);
        assert_eq!(number(&creating, Sight::Complete), None);
        creating.attempts.lost(attempt, seen);
        assert_eq!(number(&creating, Sight::Complete), None);
        // A look that was begun before the loss proves nothing.
        creating.attempts.looked(seen);
        assert_eq!(number(&creating, Sight::Complete), None);
        creating.attempts.looked(seen + Duration::from_nanos(1));
        assert_eq!(
            number(&creating, Sight::Complete),
            Some(1),
            "the same again"
        );
    }
}
