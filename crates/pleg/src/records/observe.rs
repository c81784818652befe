//! Applies observations to the records: of both lists, of one list, of a single id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::interval::{Freshness, Interval};
use super::record::{Part, Record};
use super::{Records, note};
use crate::model::event::Source;
use crate::model::id::{Id, PodRef, PodUid};
use crate::model::listed::ListedPod;
use crate::model::snapshot::Snapshot;

impl Records {
    /// Applies both lists; `ended` is when the second one arrived. A pod that was observed after the
    /// lists were requested stays as it is.
    pub fn observe(&mut self, snapshot: &Snapshot, ended: Instant, source: Source) {
        let taken = snapshot.taken;
        self.sandboxes_listed = Some(ended);
        self.containers_listed = Some(ended);
        let interval = Interval {
            begun: taken,
            ended,
            source,
        };
        if let Some((pods, observed)) = &mut self.as_of
            && Arc::ptr_eq(pods, &snapshot.pods)
        {
            *observed = interval;
            return;
        }
        let listed = snapshot.pods.keys();
        let pods: BTreeSet<PodUid> = listed.chain(self.pods.keys()).cloned().collect();
        self.gone_and_listed.clear();
        let mut are_newer = true;
        for uid in pods {
            let mut listed = snapshot.pods.get(&uid);
            if listed.is_some() && self.is_gone(&uid, taken) {
                // An older list is no evidence about a pod that was removed since, even if a hint names
                // the pod again.
                listed = None;
                self.gone_and_listed.insert(uid.clone());
                are_newer = false;
            }
            if listed.is_some() && !self.pods.contains_key(&uid) {
                let record = Record::listed(interval);
                self.pods.insert(uid.clone(), record.into());
            }
            if let Some(record) = self.pods.get_mut(&uid) {
                are_newer &= record.observe_lists(listed, interval);
                note(&mut self.unsettled, &uid, record);
            }
        }
        self.gone.listed(taken);
        self.as_of = are_newer.then(|| (snapshot.pods.clone(), interval));
    }

    /// Applies one list while the other one is unavailable.
    pub(crate) fn observe_list<R: Part>(&mut self, rows: &[Arc<R>], interval: Interval) {
        *R::listed(self) = Some(interval.ended);
        let listed = R::grouped(self, rows, interval.begun);
        self.amended();
        self.gone_and_listed.clear();
        for (uid, pod) in &*listed.pods {
            if self.is_gone(uid, listed.taken) {
                self.gone_and_listed.insert(uid.clone());
                continue;
            }
            record_of(&mut self.pods, &pod.pod, interval);
        }
        for (uid, record) in &mut self.pods {
            // The pod was removed after this list was requested, and exists again.
            if self.gone.has(uid, interval.begun) {
                continue;
            }
            let pod = listed.pods.get(uid).map(AsRef::as_ref);
            record.observe_list_of::<R>(pod, interval);
            note(&mut self.unsettled, uid, record);
        }
    }

    /// Applies the status of one container or sandbox; a `state` of `None` means that it is removed.
    pub(crate) fn observe_one<R: Part>(
        &mut self,
        uid: &PodUid,
        id: &Id,
        state: Option<R::State>,
        interval: Interval,
    ) {
        self.amended();
        let Some(record) = self.pods.get_mut(uid) else {
            return;
        };
        let is_overtaken = record.is_observed_since(id, interval.begun);
        if R::freshness(record).admits_one(interval) && !is_overtaken {
            R::freshness(record).one(interval);
            R::found(record, id, state, interval);
            record.note_observed(id.clone(), interval.ended);
            record.amend(interval.source, |pod| {
                let rows = R::of_mut(pod);
                match state {
                    None => rows.retain(|row| row.id() != id),
                    Some(state) => {
                        for row in rows.iter_mut().filter(|row| row.id() == id) {
                            Arc::make_mut(row).set_state(state);
                        }
                    }
                }
            });
        } else if record
            .state_of::<R>(id)
            .is_some_and(|known| Some(known) != state)
        {
            // The two observations overlap: an inspection decides between them.
            record.unconfirmed = true;
        }
        note(&mut self.unsettled, uid, record);
    }

    /// Applies the status of a container or sandbox that no list has shown yet.
    pub(crate) fn learn<R: Part>(&mut self, pod: &PodRef, row: R, interval: Interval) {
        let is_listed_since = *R::listed(self) > Some(interval.begun);
        let is_unknown = !self.pods.contains_key(&pod.uid);
        // A list that was received since would show the pod, or the pod may be removed: if two
        // observations overlap, the first one stands.
        if self.is_gone(&pod.uid, interval.begun) || is_unknown && is_listed_since {
            return;
        }
        // Most statuses show what is known already.
        let known = self.pods.get(&pod.uid);
        if known.and_then(|record| record.state_of::<R>(row.id())) == Some(row.state()) {
            return;
        }
        self.amended();
        let record = record_of(&mut self.pods, pod, interval);
        let is_listed = record
            .listed
            .as_ref()
            .is_some_and(|pod| pod.names(row.id()));
        // The runtime may have reported an existing id as not found for a moment.
        let is_known = is_listed || record.is_observed_since(row.id(), interval.begun);
        // Another observation differs: an inspection decides between them.
        let state = record.state_of::<R>(row.id());
        if state.is_some_and(|known| known != row.state()) {
            record.retry();
        }
        let is_newer = R::freshness(record).admits_one(interval);
        // An inspection also decides if an overlapping list does not show the id.
        record.unconfirmed |= !is_known && !is_newer;
        if !is_known && is_newer {
            R::freshness(record).one(interval);
            record.note_observed(row.id().clone(), interval.ended);
            record.amend(interval.source, |listed| {
                R::of_mut(listed).push(Arc::new(row));
                listed.sort();
            });
        }
        note(&mut self.unsettled, &pod.uid, record);
    }

    /// Whether a newer observation than one as of `observed` showed that the pod is removed, or may
    /// have.
    fn is_gone(&self, uid: &PodUid, observed: Instant) -> bool {
        match self.pods.contains_key(uid) {
            true => self.gone.has(uid, observed),
            false => self.gone.may_have(uid, observed),
        }
    }

    /// Ends the state in which all records match one snapshot. Each record receives the snapshot's times.
    pub(super) fn amended(&mut self) {
        if let Some((_, observed)) = self.as_of.take() {
            for record in self.pods.values_mut() {
                record.sandboxes = Freshness::of(observed);
                record.containers = Freshness::of(observed);
            }
        }
    }
}

/// The record of a pod. Adds one if this observation is the first that shows the pod.
fn record_of<'a>(
    pods: &'a mut BTreeMap<PodUid, Box<Record>>,
    pod: &PodRef,
    interval: Interval,
) -> &'a mut Record {
    let new = || Record::new(Freshness::hinted(interval.begun), interval.source).into();
    let record = pods.entry(pod.uid.clone()).or_insert_with(new);
    let empty = || Arc::new(ListedPod::empty(pod.clone()));
    record.listed.get_or_insert_with(empty);
    record
}

#[cfg(test)]
mod tests;
