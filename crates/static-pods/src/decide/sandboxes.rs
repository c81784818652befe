//! The sandboxes of a pod, and the operations on them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pleg::model::id::Id;
use pleg::model::listed::SandboxState;
use pleg::model::status::SandboxStatus;
use tokio::time::Instant;

use super::attempts::Attempts;
use super::retry::{Pause, Restarts, Retry};
use super::step::Attempt;
use super::view::Visibility;
use crate::backoff::Policy;

/// The sandboxes of a pod.
#[derive(Clone, Debug)]
pub(super) struct Sandboxes {
    pub(super) attempts: Attempts,
    pub(super) known: BTreeMap<Id, KnownSandbox>,
    pub(super) creations: Retry,
    restarts: Restarts,
}

/// A sandbox.
#[derive(Clone, Debug)]
pub(super) struct KnownSandbox {
    pub(super) id: Id,
    pub(super) attempt: u32,
    pub(super) is_ready: bool,
    /// When it was first observed as not ready, or stopped by us.
    pub(super) dead_since: Option<Instant>,
    pub(super) observed_as_of: Option<Instant>,
    pub(super) last_action: Option<Instant>,
    /// Whether a step on it is in progress.
    pub(super) is_busy: bool,
    /// Whether we have begun to stop or remove it. It is then no longer used, even if it is ready.
    pub(super) is_discarded: bool,
    /// Whether the runtime has answered that it is stopped. `is_ready` is not enough: a sandbox
    /// that a restarted runtime cannot read is not ready either.
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
            restarts: Restarts::new(),
        }
    }

    pub(super) fn observe(&mut self, shown: &SandboxStatus, as_of: Option<Instant>, now: Instant) {
        self.attempts.note_existing(shown.attempt);
        let is_ready = shown.state == SandboxState::Ready;
        if is_ready {
            self.attempts.note_created(shown.attempt);
        }
        let known = self.entry(shown.id.clone(), shown.attempt, is_ready);
        let is_newer = as_of > known.last_action && as_of >= known.observed_as_of;
        // An old view is enough for a stop, because a stopped sandbox never runs again.
        if is_newer || !is_ready {
            known.is_ready = is_ready;
        }
        known.dead_since = match known.is_ready {
            true => None,
            false => known.dead_since.or(Some(now)),
        };
        if known.ips.is_empty() || is_newer {
            known.ips.clone_from(&shown.ips);
        }
        known.observed_as_of = known.observed_as_of.max(as_of);
    }

    /// Forgets the sandboxes that a complete view as of `as_of` does not contain. The sandboxes in
    /// the view must have been applied before.
    pub(super) fn observed_all(&mut self, as_of: Instant) {
        self.attempts.observed_all(as_of);
        let newest = |known: &KnownSandbox| known.observed_as_of.max(known.last_action);
        self.known.retain(|_, known| newest(known) >= Some(as_of));
    }

    pub(super) fn created(&mut self, id: Id, attempt: Attempt, now: Instant) {
        self.attempts.note_existing(attempt.number());
        self.creations.succeeded();
        let known = self.entry(id, attempt.number(), true);
        known.last_action = known.last_action.max(Some(now));
    }

    pub(super) fn newest(&self) -> Option<&KnownSandbox> {
        self.known.values().max_by_key(|known| known.attempt)
    }

    /// Notes that the newest sandbox is being replaced.
    pub(super) fn note_restart(&mut self, now: Instant) {
        if let Some((id, dead_since)) = self.death() {
            self.restarts.note(id, dead_since, now);
        }
    }

    /// The pause before the newest sandbox is replaced, unless it is over.
    pub(super) fn pause(&self, now: Instant) -> Option<Pause> {
        let (id, dead_since) = self.death()?;
        self.restarts.pause(&id, dead_since, now)
    }

    /// The newest sandbox and the time at which it stopped, if it has stopped.
    fn death(&self) -> Option<(Id, Instant)> {
        let newest = self.newest()?;
        Some((newest.id.clone(), newest.dead_since?))
    }

    pub(super) fn ready(&self) -> impl Iterator<Item = &KnownSandbox> {
        let known = self.known.values();
        known.filter(|known| known.is_ready && !known.is_discarded)
    }

    /// The next attempt, if it is certain that no sandbox of the pod runs or is being created.
    pub(super) fn vacancy(&self, visibility: Visibility) -> Option<Attempt> {
        let is_vacant = self.known.values().all(|known| known.was_stopped);
        let next = self.attempts.next();
        next.filter(|_| is_vacant && visibility != Visibility::Blind)
    }

    fn entry(&mut self, id: Id, attempt: u32, is_ready: bool) -> &mut KnownSandbox {
        let known = self.known.entry(id.clone());
        known.or_insert_with(|| KnownSandbox::new(id, attempt, is_ready))
    }
}

impl KnownSandbox {
    fn new(id: Id, attempt: u32, is_ready: bool) -> Self {
        Self {
            id,
            attempt,
            is_ready,
            dead_since: None,
            observed_as_of: None,
            last_action: None,
            is_busy: false,
            is_discarded: false,
            was_stopped: false,
            retry: Retry::new(Policy::ERRORS),
            ips: Vec::new(),
        }
    }

    /// Whether it was observed as of a time after our last operation on it.
    pub(super) fn is_fresh(&self) -> bool {
        self.observed_as_of > self.last_action
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_attempt_until_the_runtime_has_stopped_all_sandboxes() {
        let mut sandboxes = Sandboxes::new();
        let number = |sandboxes: &Sandboxes| {
            let attempt = sandboxes.vacancy(Visibility::Complete);
            attempt.map(Attempt::number)
        };
        assert_eq!(number(&sandboxes), Some(0));
        sandboxes.attempts.note_existing(4);
        let id = Id::from("one");
        sandboxes.entry(id.clone(), 4, false);
        assert_eq!(number(&sandboxes), None, "it may still run");
        sandboxes.known.get_mut(&id).unwrap().was_stopped = true;
        assert_eq!(number(&sandboxes), Some(5));
        assert_eq!(sandboxes.vacancy(Visibility::Blind), None);
    }
}
