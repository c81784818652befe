//! The contents of the cache: what was written, and what the newest looks vouch for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::entry::{Entry, Inspection, later};
use crate::model::id::{Id, PodUid};
use crate::model::listed::ListedPod;
use crate::model::status::PodStatus;
use crate::model::wall_time::Moment;
use crate::out::failure::InspectError;

#[derive(Default)]
pub(super) struct Contents {
    /// As they were written: an entry that is read has what is `overdue` and `dead`, too.
    pub(super) pods: BTreeMap<PodUid, Entry>,
    /// Those of them that have an error.
    pub(super) failed: BTreeSet<PodUid>,
    /// The pods of which a call does not return that is needed to know them.
    pub(super) overdue: BTreeMap<PodUid, InspectError>,
    /// The containers whose death the runtime denies.
    pub(super) dead: BTreeMap<PodUid, BTreeSet<Id>>,
    /// Pods that differ from what the cache holds: no look vouches for their entry
    /// until they are inspected.
    pub(super) pending: BTreeSet<PodUid>,
    /// Pods whose status lacks what is listed: no look makes them complete, but only an
    /// inspection.
    pub(super) lacking: BTreeSet<PodUid>,
    /// What was told of pods that were found otherwise: whoever begins to listen is told the same,
    /// and then what all others are.
    pub(super) told: BTreeMap<PodUid, Arc<ListedPod>>,
    /// The newest look, which vouches for the pods that are known.
    pub(super) looked: Option<Moment>,
    /// The newest look that would have seen whatever is new.
    pub(super) seen: Option<Moment>,
    /// Whether it is said that something new cannot be seen.
    pub(super) blind: bool,
    /// As of when pods were confirmed but for what was new in them.
    pub(super) known: BTreeMap<PodUid, Moment>,
    /// The beginning of the newest look that would have seen a new pod.
    pub(super) complete: Option<Instant>,
    /// The same for a new container, and the pods in which that look has not seen one.
    pub(super) containers_complete: Option<Instant>,
    pub(super) unseen: BTreeSet<PodUid>,
}

impl Contents {
    pub(super) fn newer_than(&self, uid: &PodUid, time: Instant) -> Option<Entry> {
        let vouched = !self.pending.contains(uid);
        let newer = |look: Option<Instant>| vouched && look > Some(time);
        match self.pods.get(uid) {
            Some(entry) => {
                let is_seen = newer(self.looked.map(|look| look.instant));
                let has_error = entry.error.is_some() || self.is_doubtful(uid);
                let says_all = has_error || entry.complete_as_of > Some(time);
                let is_inspected = says_all && entry.modified > Some(time);
                (is_seen || is_inspected).then(|| self.entry(uid, entry))
            }
            None => newer(self.complete).then(|| Entry {
                complete_as_of: self.completed(uid),
                ..Entry::unknown(uid)
            }),
        }
    }

    /// When the newest look was begun that would have seen whatever is new.
    pub(super) fn listed(&self) -> Option<Instant> {
        self.complete.min(self.containers_complete)
    }

    /// When that look was begun by which the status of a pod is complete, if it lacks nothing.
    pub(super) fn completed(&self, uid: &PodUid) -> Option<Instant> {
        let lacks = self.lacking.contains(uid) || self.unseen.contains(uid);
        self.listed().filter(|_| !lacks)
    }

    /// What was told of an inspected pod.
    pub(super) fn told(&self, uid: &PodUid) -> Option<Arc<PodStatus>> {
        let entry = self.pods.get(uid).filter(|entry| entry.inspected)?;
        let Some(listed) = self.told.get(uid) else {
            return Some(entry.status.clone());
        };
        let mut told = PodStatus::clone(&entry.status);
        told.keep_parts_of(&PodStatus::from(&**listed), listed);
        told.take_states_of(listed);
        Some(Arc::new(told))
    }

    /// Whether something is known of a pod because of which no look confirms it.
    pub(super) fn is_doubtful(&self, uid: &PodUid) -> bool {
        self.overdue.contains_key(uid) || self.dead.contains_key(uid)
    }

    /// The entry as far as the last look vouches for it.
    pub(super) fn entry(&self, uid: &PodUid, entry: &Entry) -> Entry {
        let mut entry = entry.clone();
        entry.error = entry.error.or_else(|| self.overdue.get(uid).cloned());
        if let Some(dead) = self.dead.get(uid) {
            let first = dead.first().cloned();
            let denied = first.map(|id| InspectError::Contradicted { id });
            entry.error = entry.error.or(denied);
            entry.dead = dead.clone();
        }
        let is_pending = self.pending.contains(uid);
        if self.blind {
            let looked = self.looked.filter(|_| !is_pending && entry.is_good());
            entry.as_of = later(entry.as_of, later(self.known.get(uid).copied(), looked));
        }
        if !is_pending {
            entry.confirm(self.seen, self.completed(uid));
        }
        entry
    }

    /// Notes as of when the last look vouches for a pod, for the next one may not.
    pub(super) fn note_confirmed(&mut self, uid: &PodUid) {
        let (looked, seen, listed) = (self.looked, self.seen, self.completed(uid));
        if !self.pending.contains(uid)
            && !self.is_doubtful(uid)
            && let Some(entry) = self.pods.get_mut(uid)
        {
            entry.confirm(seen, listed);
            let looked = looked.filter(|_| self.blind && entry.is_good());
            if let Some(known) = later(self.known.get(uid).copied(), looked) {
                self.known.insert(uid.clone(), known);
            }
        }
    }

    /// A pod was inspected. A look that was begun later did not wait for it, and so does not
    /// vouch for it: the next one will.
    pub(super) fn note_inspected(&mut self, uid: &PodUid, inspection: Inspection) {
        let begun = inspection.begun.instant;
        let looked = self.looked.is_some_and(|look| look.instant > begun);
        if inspection.differs || inspection.disproved {
            self.pending.insert(uid.clone());
        } else if !looked {
            self.pending.remove(uid);
        }
        if inspection.lacks_listed {
            self.lacking.insert(uid.clone());
        } else {
            self.lacking.remove(uid);
        }
    }

    /// From now on no look vouches for a pod, and that is news.
    pub(super) fn note_doubt(&mut self, uid: &PodUid, now: Instant) {
        self.note_confirmed(uid);
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.modified = entry.modified.max(Some(now));
        }
    }

    /// The newest inspection of a known pod failed, or did not.
    pub(super) fn note_error(&mut self, uid: &PodUid, error: Option<InspectError>) {
        match error {
            Some(_) => self.failed.insert(uid.clone()),
            None => self.failed.remove(uid),
        };
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.error = error;
        }
    }

    pub(super) fn entry_of(&mut self, uid: &PodUid) -> &mut Entry {
        self.pods
            .entry(uid.clone())
            .or_insert_with(|| Entry::unknown(uid))
    }
}
