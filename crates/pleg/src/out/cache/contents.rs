//! The contents of the cache: what was written, and what the newest passes confirm.

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
    /// The entries as written. An entry that is read also shows what is in `failed`, `unobserved` and
    /// `dead`.
    /// Boxed, because a map of large values leaves much of its memory unused.
    pub(super) pods: BTreeMap<PodUid, Box<Entry>>,
    /// The pods whose newest inspection failed, and why.
    pub(super) failed: BTreeMap<PodUid, InspectError>,
    /// The pods that are not observed, and why.
    pub(super) unobserved: BTreeMap<PodUid, InspectError>,
    /// The containers whose process is dead although the runtime reports them as running.
    pub(super) dead: BTreeMap<PodUid, BTreeSet<Id>>,
    /// The pods that differ from their entry: no pass confirms the entry until they are inspected.
    pub(super) pending: BTreeSet<PodUid>,
    /// The pods whose status lacks something that is listed: only an inspection makes them complete.
    pub(super) lacking: BTreeSet<PodUid>,
    /// The last reported status, where it differs from the entry: a new subscriber receives it first,
    /// and then the same events as all others.
    pub(super) reported: BTreeMap<PodUid, Arc<ListedPod>>,
    /// The newest pass, which confirms the known pods.
    pub(super) newest_pass: Option<Moment>,
    /// The newest pass that would have observed new pods and containers.
    pub(super) newest_full_pass: Option<Moment>,
    /// Whether unseen parts are reported.
    pub(super) blind: bool,
    /// The time as of which each pod was confirmed while unseen parts were reported. This does not cover
    /// what was new in the pod.
    pub(super) blindly_confirmed: BTreeMap<PodUid, Moment>,
    /// The beginning of the newest pass that would have observed a new pod.
    pub(super) pods_complete: Option<Instant>,
    /// The beginning of the newest pass that would have observed a new container, except in the pods that
    /// are `unseen`.
    pub(super) containers_complete: Option<Instant>,
    pub(super) unseen: BTreeSet<PodUid>,
}

impl Contents {
    /// The pod's entry, if it is newer than `time`.
    pub(super) fn newer_than(&self, uid: &PodUid, time: Instant) -> Option<Entry> {
        let is_pending = self.pending.contains(uid);
        let confirms = |pass: Option<Instant>| !is_pending && pass > Some(time);
        match self.pods.get(uid) {
            Some(entry) => {
                let is_confirmed = confirms(self.newest_pass.map(|pass| pass.instant));
                let is_complete = self.error(uid).is_some() || entry.complete_as_of > Some(time);
                let is_inspected = is_complete && entry.modified > Some(time);
                (is_confirmed || is_inspected).then(|| self.entry(uid, entry))
            }
            None => confirms(self.pods_complete).then(|| Entry {
                complete_as_of: self.completed(uid),
                ..Entry::unknown(uid)
            }),
        }
    }

    /// The time as of which new pods and new containers would have been observed.
    fn complete(&self) -> Option<Instant> {
        self.pods_complete.min(self.containers_complete)
    }

    /// The time as of which the status of a pod is complete; `None` if the status lacks something.
    fn completed(&self, uid: &PodUid) -> Option<Instant> {
        let lacks = self.lacking.contains(uid) || self.unseen.contains(uid);
        self.complete().filter(|_| !lacks)
    }

    /// The last reported status of an inspected pod.
    pub(super) fn reported(&self, uid: &PodUid) -> Option<Arc<PodStatus>> {
        let entry = self.pods.get(uid).filter(|entry| entry.inspected)?;
        let Some(listed) = self.reported.get(uid) else {
            return Some(entry.status.clone());
        };
        let mut reported = PodStatus::clone(&entry.status);
        reported.keep_parts_of(&PodStatus::from(&**listed), listed);
        reported.take_states_of(listed);
        Some(Arc::new(reported))
    }

    /// Why a pod is in doubt, so that no pass confirms it.
    fn error(&self, uid: &PodUid) -> Option<InspectError> {
        let error = self.failed.get(uid).or_else(|| self.unobserved.get(uid));
        let dead = || Some(self.dead.get(uid)?.first()?.clone());
        error
            .cloned()
            .or_else(|| dead().map(|id| InspectError::Contradicted { id }))
    }

    /// The entry as a reader receives it: with the reason why it is in doubt, and as of the last
    /// pass that confirms it.
    pub(super) fn entry(&self, uid: &PodUid, entry: &Entry) -> Entry {
        let mut entry = entry.clone();
        entry.error = self.error(uid);
        entry.dead = self.dead.get(uid).cloned().unwrap_or_default();
        let is_pending = self.pending.contains(uid);
        if self.blind {
            let pass = self.newest_pass.filter(|_| !is_pending && entry.is_good());
            let blindly = later(self.blindly_confirmed.get(uid).copied(), pass);
            entry.as_of = later(entry.as_of, blindly);
        }
        if !is_pending {
            entry.confirm(self.newest_full_pass, self.completed(uid));
        }
        entry
    }

    /// Writes the newest pass's confirmation of a pod into its entry, because the next pass may not
    /// confirm the pod.
    pub(super) fn note_confirmed(&mut self, uid: &PodUid) {
        let complete_as_of = self.completed(uid);
        if !self.pending.contains(uid)
            && self.error(uid).is_none()
            && let Some(entry) = self.pods.get_mut(uid)
        {
            entry.confirm(self.newest_full_pass, complete_as_of);
            let pass = self.newest_pass.filter(|_| self.blind && entry.is_good());
            if let Some(blindly) = later(self.blindly_confirmed.get(uid).copied(), pass) {
                self.blindly_confirmed.insert(uid.clone(), blindly);
            }
        }
    }

    /// Records the inspection of a pod. A pass that began later did not wait for the inspection, and does
    /// not confirm it; the next pass will.
    pub(super) fn note_inspected(&mut self, uid: &PodUid, inspection: Inspection) {
        let begun = inspection.begun.instant;
        let has_newer_pass = self.newest_pass.is_some_and(|pass| pass.instant > begun);
        if inspection.differs || inspection.disproved {
            self.pending.insert(uid.clone());
        } else if !has_newer_pass {
            self.pending.remove(uid);
        }
        if inspection.lacks_listed {
            self.lacking.insert(uid.clone());
        } else {
            self.lacking.remove(uid);
        }
    }

    /// Records that passes no longer confirm a pod. Its entry counts as new as of `now`, so that
    /// waiting readers receive it.
    pub(super) fn note_doubt(&mut self, uid: &PodUid, now: Instant) {
        self.note_confirmed(uid);
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.modified = entry.modified.max(Some(now));
        }
    }

    pub(super) fn entry_of(&mut self, uid: &PodUid) -> &mut Entry {
        self.pods
            .entry(uid.clone())
            .or_insert_with(|| Entry::unknown(uid).into())
    }
}
