//! The containers with one name in a pod, and the operations on them.
//!
//! A container's state only advances, so an old view cannot set it back:
//!
//! ```text
//!   Created --> Running --> Exited --> removed
//!      \           |
//!       \--> Unknown (until a newer view shows another state)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use pleg::model::listed::ContainerState;
use pleg::model::status::ContainerStatus;
use tokio::time::Instant;

use super::attempts::Attempts;
use super::retry::{Pause, Restarts, Retry};
use super::step::{Attempt, Step};
use super::view::Visibility;
use crate::backoff::Policy;

/// How long to wait for an exit code that the runtime does not report yet: CRI-O reports it once it
/// has read the exit file. After this time, the exit counts as a failure.
const EXIT_CODE_TIMEOUT: Duration = Duration::from_secs(5);

/// The containers with one name.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    pub(super) attempts: Attempts,
    pub(super) known: BTreeMap<Id, KnownContainer>,
    pub(super) image: Image,
    /// Failures to pull the image.
    pub(super) pulls: Retry,
    /// Failures to create or start a container.
    pub(super) creations: Retry,
    restarts: Restarts,
}

/// Whether the runtime has the image for the next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Image {
    Unchecked,
    /// The runtime had the image when a creation failed. The image is checked again, but not pulled
    /// again if it is still there.
    Expected,
    Pulling,
    Present(Arc<str>),
}

/// A container.
#[derive(Clone, Debug)]
pub(super) struct KnownContainer {
    pub(super) name: Arc<str>,
    pub(super) id: Id,
    pub(super) attempt: u32,
    pub(super) life: Life,
    /// The time of the newest view that contains it.
    pub(super) observed_as_of: Option<Instant>,
    /// When our last operation on it ended.
    pub(super) last_action: Option<Instant>,
    pub(super) operation: Option<Operation>,
    /// Whether the runtime refused to start it.
    pub(super) start_refused: bool,
    /// Whether the runtime has answered that it stopped the container.
    pub(super) was_stopped: bool,
    /// Whether it was killed because its state was unknown. As in the kubelet, it is then restarted
    /// whatever the restart policy, unless it is an init container.
    pub(super) was_unknown: bool,
    /// Failures to start, stop or remove it.
    pub(super) retry: Retry,
    /// Whether this run created it.
    pub(super) is_ours: bool,
    /// Its last status, for the report.
    pub(super) status: Option<ContainerStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Created,
    Running,
    Unknown,
    Exited {
        /// `None` while the runtime does not report it.
        code: Option<i32>,
        /// When the exit was first observed.
        exited_at: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Starting,
    Killing,
    Removing,
}

impl Slot {
    pub(super) fn new(name: &Arc<str>) -> Self {
        Self {
            name: name.clone(),
            attempts: Attempts::default(),
            known: BTreeMap::new(),
            image: Image::Unchecked,
            pulls: Retry::new(Policy::IMAGE_PULL),
            creations: Retry::new(Policy::ERRORS),
            restarts: Restarts::new(),
        }
    }

    /// Applies the status of one container in a view.
    pub(super) fn observe(
        &mut self,
        shown: &ContainerStatus,
        as_of: Option<Instant>,
        now: Instant,
    ) {
        self.attempts.note_existing(shown.attempt);
        self.attempts.note_created(shown.attempt);
        let life = Life::of(shown, now);
        let known = self.entry(shown.id.clone(), shown.attempt, life);
        known.observe(shown, life, as_of);
    }

    /// Forgets the containers that a complete view as of `as_of` does not contain. The containers in
    /// the view must have been applied before.
    pub(super) fn observed_all(&mut self, as_of: Instant) {
        self.attempts.observed_all(as_of);
        let newest = |known: &KnownContainer| known.observed_as_of.max(known.last_action);
        self.known.retain(|_, known| newest(known) >= Some(as_of));
    }

    pub(super) fn created(&mut self, id: Id, attempt: Attempt, now: Instant) {
        let attempt = attempt.number();
        self.attempts.note_existing(attempt);
        self.image = Image::Unchecked;
        let known = self.entry(id, attempt, Life::Created);
        known.is_ours = true;
        known.last_action = known.last_action.max(Some(now));
    }

    /// Notes that the current container is being replaced, if it has exited.
    pub(super) fn note_restart(&mut self, now: Instant) {
        if let Some((id, exited_at)) = self.exit() {
            self.restarts.note(id, exited_at, now);
        }
    }

    /// The pause before the next restart, unless it is over.
    pub(super) fn pause(&self, now: Instant) -> Option<Pause> {
        let (id, exited_at) = self.exit()?;
        self.restarts.pause(&id, exited_at, now)
    }

    /// The current container and the time of its exit, if it has exited.
    fn exit(&self) -> Option<(Id, Instant)> {
        let current = self.current()?;
        match current.life {
            Life::Exited { exited_at, .. } => Some((current.id.clone(), exited_at)),
            _ => None,
        }
    }

    /// The current container: the newest one that runs or may run, or else the newest attempt.
    pub(super) fn current(&self) -> Option<&KnownContainer> {
        let rank = |known: &&KnownContainer| (known.life.is_live(), known.attempt);
        self.known.values().max_by_key(rank)
    }

    /// The containers other than the current one that have not exited.
    pub(super) fn others(&self) -> impl Iterator<Item = &KnownContainer> {
        let current = self.current().map(|known| &known.id);
        let others = self.known.values();
        others.filter(move |known| Some(&known.id) != current && !known.life.is_over())
    }

    /// The newest container that has exited.
    pub(super) fn last_exited(&self) -> Option<&KnownContainer> {
        let exited = self.known.values().filter(|known| known.life.is_over());
        exited.max_by_key(|known| known.attempt)
    }

    /// The exited containers that can be removed. As in the kubelet, the newest one is kept, for its
    /// logs and its attempt (`MaxPerPodContainer` 1, `MinAge` 0).
    pub(super) fn garbage(&self) -> impl Iterator<Item = &KnownContainer> {
        let kept = self.last_exited().map(|known| &known.id);
        let known = self.known.values();
        known.filter(move |it| it.life.is_over() && Some(&it.id) != kept)
    }

    /// The next attempt, if it is certain that every container of this name has exited and that
    /// none is being created.
    pub(super) fn vacancy(&self, visibility: Visibility) -> Option<Attempt> {
        let is_vacant = self.known.values().all(|known| known.life.is_over());
        let next = self.attempts.next();
        next.filter(|_| is_vacant && visibility != Visibility::Blind)
    }

    fn entry(&mut self, id: Id, attempt: u32, life: Life) -> &mut KnownContainer {
        let known = self.known.entry(id.clone());
        known.or_insert_with(|| KnownContainer::new(&self.name, id, attempt, life))
    }
}

impl KnownContainer {
    fn new(name: &Arc<str>, id: Id, attempt: u32, life: Life) -> Self {
        Self {
            name: name.clone(),
            id,
            attempt,
            life,
            observed_as_of: None,
            last_action: None,
            operation: None,
            start_refused: false,
            was_stopped: false,
            was_unknown: false,
            retry: Retry::new(Policy::ERRORS),
            is_ours: false,
            status: None,
        }
    }

    fn observe(&mut self, shown: &ContainerStatus, life: Life, as_of: Option<Instant>) {
        let is_fresh = as_of > self.last_action;
        let next = match (self.life, life) {
            (
                Life::Exited {
                    exited_at,
                    code: None,
                },
                Life::Exited { code, .. },
            ) => Life::Exited { code, exited_at },
            (Life::Exited { .. }, _) => self.life,
            (_, Life::Exited { .. }) | (Life::Created, Life::Running) => life,
            (_, Life::Unknown) | (Life::Unknown, _) if is_fresh && as_of >= self.observed_as_of => {
                life
            }
            // The state does not go back: an old view does not override a newer one or our
            // operation.
            _ => self.life,
        };
        if next != self.life || self.status.is_none() || as_of >= self.observed_as_of {
            self.status = Some(shown.clone());
        }
        self.life = next;
        self.observed_as_of = self.observed_as_of.max(as_of);
        if let (Some(Operation::Starting), Life::Running)
        | (Some(Operation::Starting | Operation::Killing), Life::Exited { .. }) =
            (self.operation, self.life)
        {
            self.operation = None;
        }
    }

    /// The step that removes it.
    pub(super) fn removal(&self) -> Step {
        Step::RemoveContainer {
            container: self.name.clone(),
            id: self.id.clone(),
            attempt: self.attempt,
        }
    }

    /// Whether it was observed as of a time after our last operation on it.
    pub(super) fn is_fresh(&self) -> bool {
        self.observed_as_of > self.last_action
    }

    /// The deadline for its exit code, if the code is still expected.
    pub(super) fn code_pending(&self, now: Instant) -> Option<Instant> {
        match self.life {
            Life::Exited {
                code: None,
                exited_at,
            } => Some(exited_at + EXIT_CODE_TIMEOUT).filter(|it| *it > now),
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
                exited_at: now,
            },
        }
    }

    /// Whether it has a process or may have one.
    pub(super) fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Unknown)
    }

    /// Whether it has exited, which is final.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Exited { .. })
    }

    /// Whether it has exited with code 0.
    pub(super) fn succeeded(self) -> bool {
        matches!(self, Self::Exited { code: Some(0), .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Outcome;

    fn slot(lives: &[Life]) -> Slot {
        let mut slot = Slot::new(&"app".into());
        for (attempt, life) in (0..).zip(lives) {
            slot.attempts.note_existing(attempt);
            slot.entry(format!("id{attempt}").into(), attempt, *life);
        }
        slot
    }

    #[test]
    fn a_container_that_has_exited_stays_exited_whatever_a_view_shows() {
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
        let mut slot = Slot::new(&"app".into());
        let later = now + Duration::from_secs(1);
        slot.observe(&shown(ContainerState::Exited, Some(3)), Some(now), now);
        for state in ContainerState::ALL {
            slot.observe(&shown(state, None), Some(later), later);
            let life = slot.current().unwrap().life;
            let (code, exited_at) = (Some(3), now);
            assert_eq!(life, Life::Exited { code, exited_at }, "{state:?}");
        }
    }

    #[test]
    fn the_newest_exited_container_is_kept() {
        let exited = Life::Exited {
            code: Some(0),
            exited_at: Instant::now(),
        };
        let attempts = |lives: &[Life]| -> Vec<u32> {
            slot(lives).garbage().map(|known| known.attempt).collect()
        };
        assert_eq!(attempts(&[exited, exited, exited]), [0, 1]);
        assert_eq!(attempts(&[exited, exited, Life::Running]), [0]);
        assert!(attempts(&[Life::Running]).is_empty());
    }

    #[test]
    fn there_is_no_attempt_until_all_containers_of_the_name_are_known_and_have_exited() {
        let exited_at = Instant::now();
        let exited = Life::Exited {
            code: Some(1),
            exited_at,
        };
        let number = |slot: &Slot, visibility| slot.vacancy(visibility).map(Attempt::number);
        assert_eq!(number(&slot(&[]), Visibility::Complete), Some(0));
        assert_eq!(
            number(&slot(&[exited, exited]), Visibility::KnownIdsOnly),
            Some(2)
        );
        assert_eq!(number(&slot(&[exited]), Visibility::Blind), None);
        for life in [Life::Created, Life::Running, Life::Unknown] {
            assert_eq!(
                number(&slot(&[life]), Visibility::Complete),
                None,
                "{life:?}"
            );
            let older = slot(&[life, exited]);
            assert_eq!(number(&older, Visibility::Complete), None, "{life:?}");
        }
        let mut creating = slot(&[exited]);
        let attempt = creating.vacancy(Visibility::Complete).unwrap();
        creating.attempts.begin(attempt);
        assert_eq!(number(&creating, Visibility::Complete), None);
        let lost = Outcome::AnswerLost("no answer".into());
        creating.attempts.ended(attempt, &lost, exited_at);
        assert_eq!(number(&creating, Visibility::Complete), None);
        // A view as of the time of the loss is too old.
        creating.attempts.observed_all(exited_at);
        assert_eq!(number(&creating, Visibility::Complete), None);
        creating
            .attempts
            .observed_all(exited_at + Duration::from_nanos(1));
        assert_eq!(
            number(&creating, Visibility::Complete),
            Some(1),
            "the attempt is reused"
        );
    }
}
