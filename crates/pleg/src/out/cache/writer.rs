//! The writer of the cache.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock, RwLockWriteGuard};

use tokio::sync::watch;
use tokio::time::Instant;

use super::contents::Contents;
use super::entry::{Confirmation, Confirmed, Inspection, later};
use crate::model::id::{Id, PodUid};
use crate::model::listed::ListedPod;
use crate::model::status::{ContainerStatus, PodStatus};
use crate::out::failure::InspectError;

/// The only writer of a cache.
pub struct CacheWriter {
    pub(super) contents: Arc<RwLock<Contents>>,
    pub(super) changed: watch::Sender<()>,
}

impl CacheWriter {
    /// Writes the result of an inspection, and returns it as cached: a terminating pod keeps its
    /// addresses and known exit codes.
    pub fn set(
        &self,
        uid: &PodUid,
        mut status: PodStatus,
        inspection: Inspection,
    ) -> Arc<PodStatus> {
        let mut contents = self.write();
        contents.note_inspected(uid, inspection);
        let (seen, blindly) = match inspection.confirmed {
            Confirmed::Seen(seen) if !inspection.disproved => (Some(seen), None),
            Confirmed::Blindly(blindly) if !inspection.disproved => (None, Some(blindly)),
            _ => (None, None),
        };
        let blindly = later(blindly, contents.blindly_confirmed.get(uid).copied());
        if let Some(blindly) = blindly {
            contents.blindly_confirmed.insert(uid.clone(), blindly);
        }
        let entry = contents.entry_of(uid);
        status.keep_ips_of(&entry.status);
        status.keep_exit_codes_of(&entry.status);
        entry.status = Arc::new(status);
        entry.inspected = true;
        entry.as_of = later(entry.as_of, seen);
        if !inspection.disproved {
            entry.complete_as_of = entry.complete_as_of.max(inspection.listed);
        }
        if inspection.lacks_listed {
            entry.complete_as_of = None;
        }
        // The error, if there was one, is gone, so its time does not count any more.
        entry.modified = later(entry.as_of, blindly).map(|as_of| as_of.instant);
        if inspection.disproved {
            entry.modified = entry.modified.max(Some(inspection.begun.instant));
        }
        let status = entry.status.clone();
        contents.failed.remove(uid);
        self.publish(contents);
        status
    }

    /// Records what was reported of a pod, if it differs from the status that was written last.
    pub(crate) fn keep_reported(&self, uid: &PodUid, listed: &Arc<ListedPod>) {
        let mut contents = self.write();
        let entry = contents.pods.get(uid);
        if entry.is_none_or(|entry| entry.status.is_as_listed(listed)) {
            contents.reported.remove(uid);
        } else {
            contents.reported.insert(uid.clone(), listed.clone());
        }
    }

    /// Writes the result of an inspection that contradicts what is `listed`. A container or sandbox that
    /// was not found keeps the status that it has in `last_good`, and nothing is confirmed.
    pub fn set_in_doubt(
        &self,
        uid: &PodUid,
        mut status: PodStatus,
        (last_good, listed, error): (&PodStatus, &ListedPod, InspectError),
        inspection: Inspection,
    ) -> Arc<PodStatus> {
        let mut contents = self.write();
        contents.note_inspected(uid, inspection);
        let entry = contents.entry_of(uid);
        status.keep_parts_of(last_good, listed);
        status.keep_ips_of(last_good);
        entry.status = Arc::new(status);
        entry.inspected = true;
        entry.modified = entry.modified.max(Some(inspection.begun.instant));
        let status = entry.status.clone();
        contents.failed.insert(uid.clone(), error);
        self.publish(contents);
        status
    }

    /// Writes the status of one container, and returns the pod's status with it.
    pub fn set_container(&self, uid: &PodUid, found: ContainerStatus) -> Option<Arc<PodStatus>> {
        let mut contents = self.write();
        let entry = contents.pods.get_mut(uid)?;
        let mut status = PodStatus::clone(&entry.status);
        let mut containers = status.containers.iter_mut();
        let known = containers.find(|container| container.id == found.id)?;
        *known = found;
        status.keep_exit_codes_of(&entry.status);
        let status = Arc::new(status);
        entry.status = status.clone();
        Some(status)
    }

    /// Records that an inspection which began at `begun` failed. The last successful status stays.
    pub fn set_error(&self, uid: &PodUid, error: InspectError, begun: Instant) {
        let mut contents = self.write();
        // From now on no pass confirms the pod.
        contents.note_confirmed(uid);
        let Some(entry) = contents.pods.get_mut(uid) else {
            return;
        };
        entry.modified = entry.modified.max(Some(begun));
        contents.failed.insert(uid.clone(), error);
        self.publish(contents);
    }

    /// Records which pods are not observed, and why: no pass confirms them.
    pub(crate) fn set_unobserved(&self, unobserved: BTreeMap<PodUid, InspectError>, now: Instant) {
        self.set_doubts(|contents| &mut contents.unobserved, unobserved, now);
    }

    /// Records which containers are dead although the runtime reports them as running. No pass and
    /// no inspection confirms their pods.
    pub(crate) fn set_dead(&self, dead: BTreeMap<PodUid, BTreeSet<Id>>, now: Instant) {
        self.set_doubts(|contents| &mut contents.dead, dead, now);
    }

    /// Replaces all doubts of a kind. From now on no pass confirms a pod whose doubt is new.
    fn set_doubts<Doubt: PartialEq>(
        &self,
        kind: fn(&mut Contents) -> &mut BTreeMap<PodUid, Doubt>,
        doubts: BTreeMap<PodUid, Doubt>,
        now: Instant,
    ) {
        let mut contents = self.write();
        if *kind(&mut contents) == doubts {
            return;
        }
        for (uid, doubt) in &doubts {
            if kind(&mut contents).get(uid) != Some(doubt) {
                contents.note_doubt(uid, now);
            }
        }
        *kind(&mut contents) = doubts;
        self.publish(contents);
    }

    /// Records whether unseen parts are reported.
    pub(crate) fn set_blind(&self, blind: bool) {
        let mut contents = self.write();
        if contents.blind && !blind {
            contents.blindly_confirmed.clear();
        }
        contents.blind = blind;
    }

    /// Removes the entry of a removed pod.
    pub fn remove(&self, uid: &PodUid) {
        let mut contents = self.write();
        contents.pods.remove(uid);
        contents.blindly_confirmed.remove(uid);
        contents.failed.remove(uid);
        contents.pending.remove(uid);
        contents.lacking.remove(uid);
        contents.reported.remove(uid);
        self.publish(contents);
    }

    /// Records that a pod differs from its entry, so that nothing confirms the entry any more. If the pod
    /// is listed and was not inspected yet, its entry shows what the lists show.
    pub fn set_pending(&self, uid: &PodUid, listed: Option<&ListedPod>) {
        let mut contents = self.write();
        contents.note_confirmed(uid);
        contents.pending.insert(uid.clone());
        let is_inspected = contents.pods.get(uid).is_some_and(|entry| entry.inspected);
        if let Some(listed) = listed.filter(|_| !is_inspected) {
            contents.entry_of(uid).status = Arc::new(PodStatus::from(listed));
        }
    }

    /// Confirms what a pass observed.
    pub fn confirm(&self, pass: Confirmation) {
        let mut contents = self.write();
        // The previous pass confirmed the pods that are pending from now on.
        for uid in &pass.pending {
            contents.note_confirmed(uid);
        }
        let begun = pass.begun.instant;
        if contents
            .newest_pass
            .is_some_and(|newest| newest.instant > begun)
        {
            // A pass does not confirm pods that a newer one did not observe.
            contents.pending.extend(pass.pending);
        } else {
            contents.pending = pass.pending;
        }
        contents.newest_pass = later(contents.newest_pass, Some(pass.begun));
        if pass.sees_new_pods && pass.sees_new_containers {
            contents.newest_full_pass = later(contents.newest_full_pass, Some(pass.begun));
        }
        if pass.sees_new_pods {
            contents.pods_complete = contents.pods_complete.max(Some(begun));
        }
        if pass.sees_new_containers && contents.containers_complete < Some(begun) {
            contents.containers_complete = Some(begun);
            contents.unseen = pass.unseen;
        }
        self.publish(contents);
    }

    /// Ends a change, and wakes readers.
    fn publish(&self, contents: RwLockWriteGuard<'_, Contents>) {
        drop(contents);
        self.changed.send_replace(());
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents.write().expect("no panic while it is held")
    }
}
