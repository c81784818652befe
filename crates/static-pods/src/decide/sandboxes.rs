//! The sandboxes of a pod: all that were seen, and what we do with them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pleg::model::id::Id;
use pleg::model::listed::SandboxState;
use pleg::model::status::SandboxStatus;
use tokio::time::Instant;

use super::attempts::Attempts;
use super::retry::Retry;
use super::step::Attempt;
use super::view::Sight;
use crate::backoff::{Backoff, Policy};

/// The sandboxes of a pod.
#[derive(Clone, Debug)]
pub(super) struct Sandboxes {
    pub(super) attempts: Attempts,
    pub(super) known: BTreeMap<Id, KnownSandbox>,
    pub(super) creations: Retry,
    pub(super) crashes: Backoff,
    /// The death after which the wait is over.
    waited_for: Option<Id>,
}

/// A sandbox.
#[derive(Clone, Debug)]
pub(super) struct KnownSandbox {
    pub(super) attempt: u32,
    pub(super) is_ready: bool,
    /// When it was first seen not to run.
    pub(super) dead_since: Option<Instant>,
    pub(super) shown: Option<Instant>,
    pub(super) touched: Option<Instant>,
    /// A step with it is under way.
    pub(super) is_busy: bool,
    /// It was decided to stop it: it is not used any more, whatever it looks like.
    pub(super) is_condemned: bool,
    /// The runtime has answered that it is stopped. Only then it is certain: a sandbox that a
    /// runtime cannot read after a restart is not ready either.
    pub(super) was_stopped: bool,
    pub(super) retry: Retry,
    pub(super) ips: Vec<IpAddr>,
}

impl Sandboxes {
    pub(super) fn new() -> Self {
        Self {
            attempts: Attempts::default(),
            known: BTreeMap::new(),
            creations: Retry::new(Policy::ERRORS),
            crashes: Backoff::new(Policy::CRASH_LOOP),
            waited_for: None,
        }
    }

    pub(super) fn see(&mut self, shown: &SandboxStatus, as_of: Option<Instant>, now: Instant) {
        self.attempts.saw(shown.attempt);
        let is_ready = shown.state == SandboxState::Ready;
        if is_ready {
            self.attempts.appeared(shown.attempt);
        }
        let known = self.known.entry(shown.id.clone());
        let known = known.or_insert_with(|| KnownSandbox::new(shown.attempt, is_ready));
        let is_news = as_of > known.touched && as_of >= known.shown;
        // That it has stopped is believed to an old view too: a sandbox is stopped only once.
        if is_news || !is_ready {
            known.is_ready = is_ready;
        }
        known.dead_since = match (known.is_ready, known.dead_since) {
            (true, _) => None,
            (false, since) => since.or(Some(now)),
        };
        if known.ips.is_empty() || is_news {
            known.ips.clone_from(&shown.ips);
        }
        known.shown = known.shown.max(as_of);
    }

    /// A complete look was begun at `as_of` and has shown all that there is.
    pub(super) fn looked(&mut self, as_of: Instant) {
        self.attempts.looked(as_of);
        let is_there =
            |known: &KnownSandbox| known.shown >= Some(as_of) || known.touched >= Some(as_of);
        self.known.retain(|_, known| is_there(known));
    }

    pub(super) fn created(&mut self, id: Id, attempt: Attempt, now: Instant) {
        self.attempts.saw(attempt.number());
        self.creations.succeeded();
        let known = self.known.entry(id);
        let known = known.or_insert_with(|| KnownSandbox::new(attempt.number(), true));
        known.touched = known.touched.max(Some(now));
    }

    pub(super) fn newest(&self) -> Option<(&Id, &KnownSandbox)> {
        self.known.iter().max_by_key(|(_, known)| known.attempt)
    }

    /// When the newest one died, if nothing was created after it was waited for.
    pub(super) fn death(&self) -> Option<Instant> {
        let (id, newest) = self.newest()?;
        newest
            .dead_since
            .filter(|_| self.waited_for.as_ref() != Some(id))
    }

    /// Notes that another is created: the wait after its death is twice as long.
    pub(super) fn note_restart(&mut self, now: Instant) {
        if let Some(since) = self.death() {
            self.crashes.note(since, now);
            self.waited_for = self.newest().map(|(id, _)| id.clone());
        }
    }

    pub(super) fn ready(&self) -> impl Iterator<Item = (&Id, &KnownSandbox)> {
        let usable = |known: &KnownSandbox| known.is_ready && !known.is_condemned;
        self.known.iter().filter(move |(_, known)| usable(known))
    }

    /// The next attempt, if it is proven that no sandbox of the pod runs or is being created.
    pub(super) fn vacancy(&self, sight: Sight) -> Option<Attempt> {
        let is_vacant = self.known.values().all(|known| known.was_stopped);
        let next = self.attempts.next().filter(|_| is_vacant);
        match sight {
            Sight::Complete | Sight::KnownIdsOnly => next,
            Sight::Blind => None,
        }
    }
}

impl KnownSandbox {
    fn new(attempt: u32, is_ready: bool) -> Self {
        Self {
            attempt,
            is_ready,
            dead_since: None,
            shown: None,
            touched: None,
            is_busy: false,
            is_condemned: false,
            was_stopped: false,
            retry: Retry::new(Policy::ERRORS),
            ips: Vec::new(),
        }
    }

    /// Whether a look that was begun after our last action on it has shown it.
    pub(super) fn is_fresh(&self) -> bool {
        self.shown > self.touched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_attempt_only_if_the_runtime_has_said_that_all_sandboxes_are_stopped() {
        let mut sandboxes = Sandboxes::new();
        let number = |sandboxes: &Sandboxes| {
            let attempt = sandboxes.vacancy(Sight::Complete);
            attempt.map(Attempt::number)
        };
        assert_eq!(number(&sandboxes), Some(0));
        sandboxes.attempts.saw(4);
        let id = Id::from("one");
        let known = KnownSandbox::new(4, false);
        sandboxes.known.insert(id.clone(), known);
        assert_eq!(number(&sandboxes), None, "it only seems to be dead");
        sandboxes.known.get_mut(&id).unwrap().was_stopped = true;
        assert_eq!(number(&sandboxes), Some(5));
        assert_eq!(sandboxes.vacancy(Sight::Blind), None);
    }
}
