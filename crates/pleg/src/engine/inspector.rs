//! Inspections: the status calls of one pod, for each of its sandboxes and containers.
//!
//! ```text
//!   queue --a place is free--> active, `calls_per_pod` calls at once --> PodStatus, or an error
//!                                |
//!                                \-- after 250 ms: frees its place for another one, and goes on
//! ```
//!
//! Each inspection is independent: a slow or stuck one takes no place from the others. The ledger
//! bounds the outstanding calls of all of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::call::{Call, Key, Purpose, Request};
use super::limits::{SLOW_AFTER, SUSPECT_AFTER};
use crate::model::id::{Id, PodUid};
use crate::model::listed::{ContainerState, ListedPod};
use crate::model::status::{ContainerStatus, PodStatus, Status};
use crate::out::failure::InspectError;
use crate::records::{Records, Ticket};
use crate::runtime::{About, CallError};

/// The queued and the active inspections.
#[derive(Debug)]
pub(crate) struct Inspector {
    /// How many inspections that are not slow may be active.
    max_prompt: usize,
    /// How many calls of one inspection may be outstanding.
    calls_per_pod: usize,
    queue: VecDeque<Queued>,
    active: BTreeMap<Ticket, Inspection>,
}

/// An inspection that waits for a place.
#[derive(Debug)]
struct Queued {
    ticket: Ticket,
    pod: Arc<ListedPod>,
    since: Instant,
    /// Whether the pod was reported as waiting.
    is_reported: bool,
}

#[derive(Debug)]
struct Inspection {
    ticket: Ticket,
    pod: Arc<ListedPod>,
    begun: Instant,
    /// The calls that are still to be sent.
    to_send: VecDeque<Request>,
    outstanding: BTreeSet<Key>,
    found: PodStatus,
    error: Option<InspectError>,
    /// The containers whose exit [`Inspector::exits_of_slow`] has already returned.
    reported_exits: BTreeSet<Id>,
    /// The exits that other calls have found meanwhile. A status that was requested earlier may still
    /// show the container as running.
    exited: BTreeMap<Id, ContainerStatus>,
}

/// An inspection that has ended.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) ticket: Ticket,
    /// When the inspection began. Its calls were sent at this time or later.
    pub(crate) begun: Instant,
    pub(crate) result: Result<PodStatus, InspectError>,
}

impl Inspector {
    pub(crate) fn new(max_prompt: usize, calls_per_pod: usize) -> Self {
        Self {
            max_prompt: max_prompt.max(1),
            calls_per_pod: calls_per_pod.max(1),
            queue: VecDeque::new(),
            active: BTreeMap::new(),
        }
    }

    /// Queues the inspection of a pod. If lists change the pod before a place is free, the
    /// inspection uses the newer listing.
    pub(crate) fn inspect(&mut self, ticket: Ticket, pod: Arc<ListedPod>, since: Instant) {
        self.queue.push_back(Queued {
            ticket,
            pod,
            since,
            is_reported: false,
        });
    }

    /// Drops the queued inspections of a pod that was removed.
    pub(crate) fn withdraw(&mut self, uid: &PodUid) {
        self.queue.retain(|queued| queued.ticket.uid != *uid);
    }

    /// The next call, if there is one and the ledger has room for it.
    pub(crate) fn next_call(
        &mut self,
        ledger: &mut Ledger,
        records: &mut Records,
        now: Instant,
    ) -> Option<(Call, About)> {
        if !ledger.has_room() {
            return None;
        }
        if let Some(call) = self.next_of_active(ledger) {
            return Some(call);
        }
        let keeps_place = |it: &&Inspection| now < it.keeps_place_until(self.calls_per_pod);
        let prompt = self.active.values().filter(keeps_place).count();
        while prompt < self.max_prompt {
            let Queued { ticket, pod, .. } = self.queue.pop_front()?;
            let pod = records.start(&ticket).unwrap_or(pod);
            let inspection = Inspection::new(ticket.clone(), pod, now);
            self.active.insert(ticket, inspection);
            if let Some(call) = self.next_of_active(ledger) {
                return Some(call);
            }
        }
        None
    }

    fn next_of_active(&mut self, ledger: &mut Ledger) -> Option<(Call, About)> {
        let mut active = self.active.values_mut();
        active.find_map(|inspection| inspection.next_call(self.calls_per_pod, ledger))
    }

    /// Takes an inspection that has no calls left: its pod has no rows, or its rows are gone.
    pub(crate) fn take_ended(&mut self) -> Option<Inspected> {
        let mut active = self.active.iter();
        let (ticket, _) = active.find(|(_, inspection)| inspection.is_over())?;
        let ticket = ticket.clone();
        self.active.remove(&ticket).map(Inspection::end)
    }

    /// Takes in the answer to a status call. Returns the inspection if this ends it.
    pub(crate) fn on_status<S: Status>(
        &mut self,
        ticket: &Ticket,
        request: &Request,
        answer: Result<S, CallError>,
    ) -> Option<Inspected> {
        let inspection = self.active.get_mut(ticket)?;
        inspection.outstanding.take(&request.key())?;
        match answer {
            // An event may have named the wrong pod for this id.
            Ok(status) if status.pod().is_some_and(|pod| pod.uid != ticket.uid) => {}
            Ok(status) => S::of_mut(&mut inspection.found).push(status.shown()),
            // An id that the runtime no longer has is skipped, as in the kubelet.
            Err(CallError::NotFound(_)) => {}
            // Any other error fails the inspection, but only after all its calls have ended:
            // otherwise those would still be outstanding when the inspection is repeated.
            Err(error) => {
                if let (call, Some(id)) = request.key() {
                    let failed = InspectError::Failed { call, id, error };
                    inspection.error.get_or_insert(failed);
                }
            }
        }
        inspection
            .is_over()
            .then(|| self.active.remove(ticket))?
            .map(Inspection::end)
    }

    /// The active inspections of a pod.
    fn active_of(&mut self, uid: &PodUid) -> impl Iterator<Item = &mut Inspection> {
        let active = self.active.range_mut(tickets_of(uid));
        active.map(|(_, inspection)| inspection)
    }

    /// Records an exit that another call has found. The active inspections of the pod use it too.
    pub(crate) fn note_exit(&mut self, uid: &PodUid, status: &ContainerStatus) {
        for inspection in self.active_of(uid) {
            inspection.exited.insert(status.id.clone(), status.clone());
        }
    }

    /// Drops a status call from the pod's active inspections: its id is no longer part of the pod.
    pub(crate) fn forget(&mut self, uid: &PodUid, key: &Key) {
        for inspection in self.active_of(uid) {
            inspection.outstanding.remove(key);
            inspection.to_send.retain(|request| request.key() != *key);
        }
    }

    /// The exits that slow inspections have found, each once, with the time at which the inspection
    /// began.
    pub(crate) fn exits_of_slow(
        &mut self,
        now: Instant,
    ) -> Vec<(PodUid, Instant, ContainerStatus)> {
        let slow = self.active.values_mut();
        let slow = slow.filter(|inspection| now >= inspection.begun + SLOW_AFTER);
        slow.flat_map(Inspection::exits).collect()
    }

    /// The pods that were reported as waiting, and still wait.
    pub(crate) fn waiting_for_room(&self) -> impl Iterator<Item = &PodUid> {
        let reported = self.queue.iter().filter(|queued| queued.is_reported);
        reported.map(|queued| &queued.ticket.uid)
    }

    /// The pods whose inspection has been queued for `limit`. Each inspection is returned only once.
    pub(crate) fn newly_waiting_for_room(&mut self, now: Instant, limit: Duration) -> Vec<PodUid> {
        let overdue = self.queue.iter_mut();
        let overdue = overdue.take_while(|queued| now >= queued.since + limit);
        let new = overdue.filter_map(|queued| {
            let was_reported = std::mem::replace(&mut queued.is_reported, true);
            (!was_reported).then(|| queued.ticket.uid.clone())
        });
        new.collect()
    }

    /// The pods that have an active inspection, rather than only a queued one.
    pub(crate) fn active(&self) -> impl Iterator<Item = &PodUid> {
        self.active.keys().map(|ticket| &ticket.uid)
    }

    /// Whether an active inspection of the pod needs the answer to this call.
    pub(crate) fn needs_answer(&self, uid: &PodUid, key: &Key) -> bool {
        let mut active = self.active.range(tickets_of(uid));
        active.any(|(_, inspection)| inspection.needs_answer(key))
    }

    /// When an inspection next becomes slow, so that its place or its exits become available.
    pub(crate) fn alarm(&self, now: Instant) -> Option<Instant> {
        if self.queue.is_empty() && self.active.is_empty() {
            return None;
        }
        let slow = self.active.values().flat_map(|inspection| {
            [
                inspection.begun + SLOW_AFTER,
                inspection.keeps_place_until(self.calls_per_pod),
            ]
        });
        slow.filter(|time| *time > now).min()
    }
}

/// All tickets of a pod, which are in succession.
fn tickets_of(uid: &PodUid) -> RangeInclusive<Ticket> {
    let ticket = |number| Ticket {
        uid: uid.clone(),
        number,
    };
    ticket(0)..=ticket(u64::MAX)
}

impl Inspection {
    /// When the inspection frees its place. With one call at a time, the purpose is to measure what each
    /// call costs, so the inspection keeps its place unless a call is suspect.
    fn keeps_place_until(&self, calls_per_pod: usize) -> Instant {
        let rows = self.pod.sandboxes.len() + self.pod.containers.len();
        self.begun
            + match calls_per_pod {
                1 => SUSPECT_AFTER * rows as u32,
                _ => SLOW_AFTER,
            }
    }

    fn new(ticket: Ticket, pod: Arc<ListedPod>, begun: Instant) -> Self {
        Self {
            ticket,
            begun,
            to_send: Request::all_of(&pod).collect(),
            outstanding: BTreeSet::new(),
            found: PodStatus {
                uid: pod.pod.uid.clone(),
                namespace: pod.pod.namespace.clone(),
                name: pod.pod.name.clone(),
                sandboxes: Vec::with_capacity(pod.sandboxes.len()),
                containers: Vec::with_capacity(pod.containers.len()),
            },
            error: None,
            reported_exits: BTreeSet::new(),
            exited: BTreeMap::new(),
            pod,
        }
    }

    /// The first call that is not already outstanding for another component. The inspection waits for
    /// the end of those that are, and the ledger records this.
    fn next_call(&mut self, calls_per_pod: usize, ledger: &mut Ledger) -> Option<(Call, About)> {
        if self.outstanding.len() >= calls_per_pod {
            return None;
        }
        let free = self.to_send.iter().position(|request| {
            let key = request.key();
            let is_free = !ledger.is_outstanding(&key);
            if !is_free {
                ledger.wait_behind(&key, &request.about_in(&self.pod));
            }
            is_free
        })?;
        let request = self.to_send.remove(free)?;
        self.outstanding.insert(request.key());
        let about = request.about_in(&self.pod);
        let purpose = Purpose::Inspect(self.ticket.clone());
        Some((Call { request, purpose }, about))
    }

    fn exits(&mut self) -> Vec<(PodUid, Instant, ContainerStatus)> {
        let (uid, begun) = (&self.ticket.uid, self.begun);
        let exited = self.found.containers.iter();
        let exited = exited.filter(|status| status.state == ContainerState::Exited);
        let new = exited.filter(|status| self.reported_exits.insert(status.id.clone()));
        new.map(|status| (uid.clone(), begun, status.clone()))
            .collect()
    }

    fn needs_answer(&self, key: &Key) -> bool {
        let mut to_send = self.to_send.iter();
        self.outstanding.contains(key) || to_send.any(|request| request.key() == *key)
    }

    fn is_over(&self) -> bool {
        self.outstanding.is_empty() && self.to_send.is_empty()
    }

    /// The result, in the order of the rows and with the exits that other calls have found.
    fn end(mut self) -> Inspected {
        let (pod, found) = (&self.pod, &mut self.found);
        for status in &mut found.containers {
            let ended = self.exited.remove(&status.id);
            // A restarted container has another process.
            let ended = ended.filter(|ended| ended.started_at == status.started_at);
            if let (Some(ended), ContainerState::Running) = (ended, status.state) {
                *status = ended;
            }
        }
        let place = |id: &Id| pod.sandboxes.iter().position(|row| row.id == *id);
        found.sandboxes.sort_by_key(|status| place(&status.id));
        let place = |id: &Id| pod.containers.iter().position(|row| row.id == *id);
        found.containers.sort_by_key(|status| place(&status.id));
        Inspected {
            ticket: self.ticket,
            begun: self.begun,
            result: self.error.map_or(Ok(self.found), Err),
        }
    }
}
