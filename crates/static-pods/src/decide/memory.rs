//! What is known of a pod from one decision to the next: a ledger of all its containers and
//! sandboxes, of what we did to them, and what failed.
//!
//! A run that begins knows nothing, and learns all of it from the first complete look.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use pleg::model::wall_time::WallTime;
use tokio::time::Instant;

use super::attempts::Creation;
use super::phase::Phase;
use super::retry::Retry;
use super::sandboxes::Sandboxes;
use super::slot::{Life, Slot};
use super::view::{Extent, Sight, View};
use super::why::Why;
use crate::backoff::Policy;
use crate::probe::Running;

/// What is known of a pod.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Only looks that were begun after this count.
    born: Instant,
    pub(super) sight: Sight,
    /// The containers of which nothing new is seen, and why not.
    unseen: BTreeMap<Id, Why>,
    /// When the newest look was begun that has shown all that there was.
    complete: Option<Instant>,
    /// When our last action on the pod ended.
    pub(super) touched: Option<Instant>,
    pub(super) sandboxes: Sandboxes,
    pub(super) slots: BTreeMap<Arc<str>, Slot>,
    /// The sandbox of a container, where it is known.
    pub(super) sandbox_of: BTreeMap<Id, Id>,
    /// What was removed, and when: an older view still shows it.
    pub(super) removed: BTreeMap<Id, Instant>,
    /// How far it was when it was last wanted.
    pub(super) wanted_phase: Option<Phase>,
    /// Since when the pod is being ended.
    pub(super) ending_since: Option<Instant>,
    pub(super) volumes: Volumes,
    pub(super) volume_errors: Retry,
}

/// What is on this machine of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Volumes {
    Kept,
    BeingRemoved,
    Removed,
}

impl Memory {
    /// Nothing is known yet. To be made when the pod is first heard of, and kept until a
    /// [`Decision`](super::Decision) says that the pod is gone.
    pub fn new(now: Instant) -> Self {
        Self {
            born: now,
            sight: Sight::Blind,
            unseen: BTreeMap::new(),
            complete: None,
            touched: None,
            sandboxes: Sandboxes::new(),
            slots: BTreeMap::new(),
            sandbox_of: BTreeMap::new(),
            removed: BTreeMap::new(),
            wanted_phase: None,
            ending_since: None,
            volumes: Volumes::Kept,
            volume_errors: Retry::new(Policy::ERRORS),
        }
    }

    /// Notes which sandbox a container of an earlier run is in, which a status does not tell. An
    /// old sandbox is removed only if it is known of all containers that they are in others.
    pub fn adopt(&mut self, container: Id, sandbox: Id) {
        self.sandbox_of.insert(container, sandbox);
    }

    /// How far what is known of the pod can be trusted.
    pub fn sight(&self) -> Sight {
        self.sight
    }

    /// The containers that run, for [`Prober::due`](crate::probe::Prober::due). `wall` is the time
    /// of day: the age of those that an earlier run started is told by it alone.
    pub fn running(&self, wall: WallTime) -> Vec<Running> {
        let live = self
            .slots
            .iter()
            .flat_map(|(name, slot)| slot.live().map(move |(id, known)| (name, id, known)));
        let running = live.filter(|(.., known)| known.life == Life::Running);
        let running = running.map(|(name, id, known)| {
            let status = known.status.as_ref().filter(|_| !known.is_ours);
            let started = status.and_then(|status| status.started_at);
            Running {
                name: name.clone(),
                id: id.clone(),
                age: started.map_or(Duration::ZERO, |started| wall.since(started)),
            }
        });
        running.collect()
    }

    pub(super) fn slot(&mut self, name: &Arc<str>) -> &mut Slot {
        self.slots.entry(name.clone()).or_insert_with(Slot::new)
    }

    /// Takes in what was seen.
    pub(super) fn see(&mut self, view: &View, now: Instant) {
        let as_of = view.as_of;
        for shown in &view.status.containers {
            if !self.was_removed_since(&shown.id, as_of) {
                self.slot(&shown.name).see(shown, as_of, now);
            }
        }
        for shown in &view.status.sandboxes {
            if !self.was_removed_since(&shown.id, as_of) {
                self.sandboxes.see(shown, as_of, now);
            }
        }
        if let (Extent::All, Some(as_of)) = (&view.extent, as_of)
            && as_of > self.born
            && Some(as_of) >= self.complete
        {
            self.complete = Some(as_of);
            self.sandboxes.looked(as_of);
            for slot in self.slots.values_mut() {
                slot.looked(as_of);
            }
            let slots = &self.slots;
            let is_known = |id: &Id| slots.values().any(|slot| slot.known.contains_key(id));
            self.sandbox_of.retain(|id, _| is_known(id));
            self.removed.retain(|_, at| *at >= as_of);
        }
        self.unseen.clone_from(&view.unseen);
        self.sight = match view.extent {
            Extent::Unclear => Sight::Blind,
            _ if self.complete.is_none() => Sight::Blind,
            Extent::All if as_of > self.touched => Sight::Complete,
            _ => Sight::KnownIdsOnly,
        };
    }

    /// Why nothing new is seen of this container, while that of others is.
    pub(super) fn why_unseen(&self, id: &Id) -> Option<&Why> {
        self.unseen.get(id)
    }

    /// Whether all that there is of the pod was seen once.
    pub(super) fn was_seen(&self) -> bool {
        self.complete.is_some()
    }

    fn was_removed_since(&self, id: &Id, as_of: Option<Instant>) -> bool {
        self.removed.get(id).is_some_and(|at| Some(*at) >= as_of)
    }

    /// The look that is waited for: one that shows all and was begun after this.
    pub(super) fn look_after(&self) -> Option<Instant> {
        let slots = self.slots.values().map(|slot| &slot.attempts);
        let attempts = slots.chain([&self.sandboxes.attempts]);
        let lost = attempts.filter_map(|attempts| match attempts.creation() {
            Creation::Lost { since } => Some(since),
            _ => None,
        });
        let first = self.complete.is_none().then_some(self.born);
        let ended = self
            .touched
            .filter(|touched| self.complete < Some(*touched));
        lost.chain(first).chain(ended).max()
    }

    /// What is left of the pod's grace period, or a kubelet's minimum.
    pub(super) fn grace_left(&self, grace: Duration, now: Instant) -> Duration {
        const MINIMUM: Duration = Duration::from_secs(2);
        let since = self.ending_since.unwrap_or(now);
        let passed = now.saturating_duration_since(since);
        grace.saturating_sub(passed).max(MINIMUM)
    }
}
