//! The state of a pod that is kept from one decision to the next: its containers and sandboxes, our
//! operations on them, and the failures.
//!
//! It is empty when a run starts, and is filled by the first complete view.

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
use super::slot::{KnownContainer, Life, Slot};
use super::view::{Extent, View, Visibility};
use super::why::Why;
use crate::backoff::Policy;
use crate::probe::Running;

/// The shortest grace period of a container, as in the kubelet.
pub(crate) const MIN_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// The state of a pod that is kept from one decision to the next.
#[derive(Clone, Debug)]
pub struct Memory {
    /// When this memory was created. Views as of an earlier time are ignored, because they may show
    /// the previous pod with this UID.
    created_at: Instant,
    pub(super) visibility: Visibility,
    /// The unobserved containers, and why they are not observed.
    unobserved: BTreeMap<Id, Why>,
    /// The `as_of` of the newest complete view.
    complete_as_of: Option<Instant>,
    /// When our last operation on the pod ended.
    pub(super) last_action: Option<Instant>,
    pub(super) sandboxes: Sandboxes,
    pub(super) slots: BTreeMap<Arc<str>, Slot>,
    /// Container ids, with the sandbox of each container, where it is known.
    pub(super) sandbox_of: BTreeMap<Id, Id>,
    /// The ids that we removed, and when. Older views still contain them.
    pub(super) removed: BTreeMap<Id, Instant>,
    /// The last phase before the pod had to end.
    pub(super) wanted_phase: Option<Phase>,
    /// When the end of the pod started.
    pub(super) ending_since: Option<Instant>,
    pub(super) volumes: Volumes,
    pub(super) volume_errors: Retry,
}

/// The state of the pod's volumes and logs on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Volumes {
    Kept,
    BeingRemoved,
    Removed,
}

impl Memory {
    /// Creates an empty memory. Keep it until a [`Decision`](super::Decision) has `is_gone` set.
    pub fn new(now: Instant) -> Self {
        Self {
            created_at: now,
            visibility: Visibility::Blind,
            unobserved: BTreeMap::new(),
            complete_as_of: None,
            last_action: None,
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

    /// Notes which sandbox contains a container of an earlier run, because a status does not show
    /// this. An old sandbox is removed only if all containers are known to be in other sandboxes.
    pub fn adopt(&mut self, container: Id, sandbox: Id) {
        self.sandbox_of.insert(container, sandbox);
    }

    /// The running containers, for [`Prober::due`](crate::probe::Prober::due). `wall` is the current
    /// wall-clock time, which is needed for the age of containers of an earlier run.
    pub fn running(&self, wall: WallTime) -> Vec<Running> {
        let running = self.containers().filter(|it| it.life == Life::Running);
        let running = running.map(|known| {
            let status = known.status.as_ref().filter(|_| !known.is_ours);
            let started = status.and_then(|status| status.started_at);
            Running {
                name: known.name.clone(),
                id: known.id.clone(),
                age: started.map_or(Duration::ZERO, |started| wall.since(started)),
            }
        });
        running.collect()
    }

    pub(super) fn slot(&mut self, name: &Arc<str>) -> &mut Slot {
        let slot = self.slots.entry(name.clone());
        slot.or_insert_with(|| Slot::new(name))
    }

    /// All containers of the pod, by name.
    pub(super) fn containers(&self) -> impl Iterator<Item = &KnownContainer> {
        self.slots.values().flat_map(|slot| slot.known.values())
    }

    /// The state of the last creation for each container name, and for the sandbox.
    pub(super) fn creations(&self) -> impl Iterator<Item = Creation> {
        let slots = self.slots.values().map(|slot| &slot.attempts);
        let attempts = slots.chain([&self.sandboxes.attempts]);
        attempts.map(|attempts| attempts.creation)
    }

    pub(super) fn can_observe(&self) -> bool {
        self.visibility != Visibility::Blind
    }

    /// Applies a view.
    pub(super) fn observe(&mut self, view: &View, now: Instant) {
        let as_of = view.as_of;
        for shown in &view.status.containers {
            if self.may_exist(&shown.id, as_of) {
                self.slot(&shown.name).observe(shown, as_of, now);
            }
        }
        for shown in &view.status.sandboxes {
            if self.may_exist(&shown.id, as_of) {
                self.sandboxes.observe(shown, as_of, now);
            }
        }
        if let (Extent::Complete, Some(as_of)) = (&view.extent, as_of)
            && as_of > self.created_at
            && Some(as_of) >= self.complete_as_of
        {
            self.complete_as_of = Some(as_of);
            self.sandboxes.observed_all(as_of);
            for slot in self.slots.values_mut() {
                slot.observed_all(as_of);
            }
            let slots = &self.slots;
            let is_known = |id: &Id| slots.values().any(|slot| slot.known.contains_key(id));
            self.sandbox_of.retain(|id, _| is_known(id));
            self.removed.retain(|_, at| *at >= as_of);
        }
        self.unobserved.clone_from(&view.unobserved);
        self.visibility = match view.extent {
            Extent::Unclear => Visibility::Blind,
            _ if self.complete_as_of.is_none() => Visibility::Blind,
            Extent::Complete if as_of > self.last_action => Visibility::Complete,
            _ => Visibility::KnownIdsOnly,
        };
    }

    /// Why this container is unobserved, if it is.
    pub(super) fn why_unobserved(&self, known: &KnownContainer) -> Option<&Why> {
        self.unobserved.get(&known.id)
    }

    /// Whether a complete view was applied.
    pub(super) fn was_observed(&self) -> bool {
        self.complete_as_of.is_some()
    }

    /// Whether an id in a view as of this time may belong to this pod and still exist. The view must
    /// be newer than this memory and than our removal of the id. An id that is unknown here must not
    /// be from a view older than the newest complete one, which does not contain the id.
    fn may_exist(&self, id: &Id, as_of: Option<Instant>) -> bool {
        let removed = self.removed.get(id).copied();
        let is_known =
            self.sandboxes.known.contains_key(id) || self.containers().any(|it| it.id == *id);
        as_of > removed.max(Some(self.created_at)) && (is_known || as_of >= self.complete_as_of)
    }

    /// If a new complete view is needed, the time that it must be later than.
    pub(super) fn needs_view_after(&self) -> Option<Instant> {
        let lost = self.creations().filter_map(|creation| match creation {
            Creation::Lost { since } => Some(since),
            _ => None,
        });
        let first = self.complete_as_of.is_none().then_some(self.created_at);
        let ended = self
            .last_action
            .filter(|_| self.complete_as_of < self.last_action);
        lost.chain(first).chain(ended).max()
    }

    /// The rest of the pod's grace period, but at least the kubelet's minimum.
    pub(super) fn grace_left(&self, grace: Duration, now: Instant) -> Duration {
        let since = self.ending_since.unwrap_or(now);
        let passed = now.saturating_duration_since(since);
        grace.saturating_sub(passed).max(MIN_GRACE_PERIOD)
    }
}
