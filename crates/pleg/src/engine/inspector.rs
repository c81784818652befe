//! Inspecting pods: a status call for each of their sandboxes and containers.
//!
//! ```text
//!   queue --a place is free--> asking, up to `together` at once --> all answered: PodStatus, or why not
//!                                 |
//!                                 \-- takes 250 ms: gives its place to another, and goes on
//! ```
//!
//! Each inspection is its own little life: one that is slow or stuck takes no place from the
//! others, and the ledger bounds what all of them have outstanding.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::call::Key;
use super::call::{Call, Purpose, Question};
use super::limits::{SLOW, SUSPECT};
use super::sweeper::about;
use crate::model::id::{Id, PodUid};
use crate::model::listed::{ContainerState, ListedPod};
use crate::model::status::{ContainerStatus, PodStatus, Status};
use crate::out::failure::InspectError;
use crate::records::{Records, Ticket};
use crate::runtime::{About, CallError};

/// The inspections under way.
#[derive(Debug)]
pub(crate) struct Inspector {
    /// How many may run at once that are not slow.
    places: usize,
    /// How many calls of one pod may be outstanding at once.
    together: usize,
    queue: VecDeque<Queued>,
    active: BTreeMap<(PodUid, u64), Inspection>,
}

/// An inspection that waits for its place.
#[derive(Debug)]
struct Queued {
    ticket: Ticket,
    pod: Arc<ListedPod>,
    since: Instant,
    /// That it waits was told.
    is_named: bool,
}

#[derive(Debug)]
struct Inspection {
    ticket: Ticket,
    pod: Arc<ListedPod>,
    begun: Instant,
    /// What is still to be asked.
    to_ask: VecDeque<Question>,
    outstanding: BTreeSet<Key>,
    found: PodStatus,
    error: Option<InspectError>,
    /// The containers that have exited and were told before the rest.
    told: BTreeSet<Id>,
    /// Those that were found to have exited by somebody else meanwhile: what was asked of them
    /// before may say that they run.
    exited: BTreeMap<Id, ContainerStatus>,
}

/// An inspection that has ended.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) ticket: Ticket,
    /// When its calls were begun.
    pub(crate) begun: Instant,
    pub(crate) result: Result<PodStatus, InspectError>,
}

impl Inspector {
    pub(crate) fn new(places: usize, together: usize) -> Self {
        Self {
            places: places.max(1),
            together: together.max(1),
            queue: VecDeque::new(),
            active: BTreeMap::new(),
        }
    }

    /// Wants a pod inspected, as it is listed here unless lists change it before there is a place.
    pub(crate) fn inspect(&mut self, ticket: Ticket, pod: Arc<ListedPod>, since: Instant) {
        self.queue.push_back(Queued {
            ticket,
            pod,
            since,
            is_named: false,
        });
    }

    /// The pod is gone: nobody waits for it any more.
    pub(crate) fn withdraw(&mut self, uid: &PodUid) {
        self.queue.retain(|queued| queued.ticket.uid != *uid);
    }

    /// The next call to be made, if there is one and the ledger has room for it.
    pub(crate) fn next_call(
        &mut self,
        ledger: &mut Ledger,
        records: &mut Records,
        now: Instant,
    ) -> Option<(Call, About)> {
        if !ledger.has_room() {
            return None;
        }
        if let Some(call) = self.ask_active(ledger) {
            return Some(call);
        }
        let prompt = self.active.values();
        let prompt = prompt
            .filter(|inspection| now < inspection.keeps_place_until(self.together))
            .count();
        while prompt < self.places {
            let Queued { ticket, pod, .. } = self.queue.pop_front()?;
            let pod = records.start(&ticket).unwrap_or(pod);
            let key = (ticket.uid.clone(), ticket.number());
            self.active.insert(key, Inspection::new(ticket, pod, now));
            if let Some(call) = self.ask_active(ledger) {
                return Some(call);
            }
        }
        None
    }

    fn ask_active(&mut self, ledger: &mut Ledger) -> Option<(Call, About)> {
        let mut active = self.active.values_mut();
        active.find_map(|inspection| inspection.ask(self.together, ledger))
    }

    /// The inspections that have nothing to ask: of pods without rows, or whose rows are gone.
    pub(crate) fn ended(&mut self) -> Option<Inspected> {
        let mut active = self.active.iter();
        let (key, _) = active.find(|(_, inspection)| inspection.is_over())?;
        let key = key.clone();
        self.active.remove(&key).map(Inspection::end)
    }

    /// A status came; gives the inspection if that was the last part of it.
    pub(crate) fn on_status<S: Status>(
        &mut self,
        uid: &PodUid,
        number: u64,
        question: &Question,
        answer: Result<S, CallError>,
    ) -> Option<Inspected> {
        let key = (uid.clone(), number);
        let inspection = self.active.get_mut(&key)?;
        if !inspection.outstanding.remove(&question.key()) {
            return None;
        }
        if let Some(status) = inspection.unless_gone(question, answer) {
            // What an event said of whose it is may be wrong.
            let pod = status.pod();
            if pod.is_none_or(|pod| pod.uid == inspection.pod.pod.uid) {
                S::of_mut(&mut inspection.found).push(status.shown());
            }
        }
        self.end_if_over(&key)
    }

    /// A container was found to have exited: whoever inspects its pod now knows it too.
    pub(crate) fn exited(&mut self, uid: &PodUid, status: &ContainerStatus) {
        let of_pod = |inspection: &&mut Inspection| inspection.ticket.uid == *uid;
        for inspection in self.active.values_mut().filter(of_pod) {
            inspection.exited.insert(status.id.clone(), status.clone());
        }
    }

    /// The id is gone from its pod: nobody waits for its status any more.
    pub(crate) fn forget(&mut self, uid: &PodUid, key: &Key) {
        let of_pod = |inspection: &&mut Inspection| inspection.ticket.uid == *uid;
        for inspection in self.active.values_mut().filter(of_pod) {
            inspection.outstanding.remove(key);
            inspection.to_ask.retain(|question| question.key() != *key);
        }
    }

    fn end_if_over(&mut self, key: &(PodUid, u64)) -> Option<Inspected> {
        let is_over = self.active.get(key).is_some_and(Inspection::is_over);
        let inspection = is_over.then(|| self.active.remove(key))?;
        inspection.map(Inspection::end)
    }

    /// The containers that slow inspections have found to have exited, each once, with the
    /// time at which its inspection was begun.
    pub(crate) fn exits_of_slow(
        &mut self,
        now: Instant,
    ) -> Vec<(PodUid, Instant, ContainerStatus)> {
        let slow = self.active.values_mut();
        let slow = slow.filter(|inspection| now >= inspection.begun + SLOW);
        slow.flat_map(Inspection::exits).collect()
    }

    /// The pods that were reported as not asked for, and are not yet.
    pub(crate) fn unasked(&self) -> impl Iterator<Item = &PodUid> {
        let named = self.queue.iter().filter(|queued| queued.is_named);
        named.map(|queued| &queued.ticket.uid)
    }

    /// The pods of which nothing has been asked for so long, each once.
    pub(crate) fn newly_unasked(&mut self, now: Instant, limit: Duration) -> Vec<PodUid> {
        let late = self.queue.iter_mut();
        let late = late.take_while(|queued| now >= queued.since + limit);
        let new = late.filter_map(|queued| {
            let was_named = std::mem::replace(&mut queued.is_named, true);
            (!was_named).then(|| queued.ticket.uid.clone())
        });
        new.collect()
    }

    /// Whether the pod is being asked for, and does not only wait for its place.
    pub(crate) fn is_active(&self, uid: &PodUid) -> bool {
        let first = (uid.clone(), 0);
        let mut from = self.active.range(first..);
        from.next().is_some_and(|((active, _), _)| active == uid)
    }

    /// Whether an inspection of the pod needs the answer to this call.
    pub(crate) fn awaits(&self, uid: &PodUid, key: &Key) -> bool {
        let from = self.active.range((uid.clone(), 0)..);
        let mut active = from.take_while(|((active, _), _)| active == uid);
        let id = key.1.as_ref();
        let mut queued = self.queue.iter();
        active.any(|(_, inspection)| inspection.awaits(key))
            || queued.any(|queued| {
                queued.ticket.uid == *uid && id.is_some_and(|id| queued.pod.names(id))
            })
    }

    /// When a place becomes free by time alone, or what is known is told.
    pub(crate) fn alarm(&self, now: Instant) -> Option<Instant> {
        if self.queue.is_empty() && self.active.is_empty() {
            return None;
        }
        let slow = self.active.values().flat_map(|inspection| {
            [
                inspection.begun + SLOW,
                inspection.keeps_place_until(self.together),
            ]
        });
        slow.filter(|time| *time > now).min()
    }
}

impl Inspection {
    /// When another inspection takes its place. One call after the other is made to measure what each
    /// costs: then only a call that is suspect gives its place to others.
    fn keeps_place_until(&self, together: usize) -> Instant {
        let rows = self.pod.sandboxes.len() + self.pod.containers.len();
        self.begun
            + match together {
                1 => SUSPECT * rows as u32,
                _ => SLOW,
            }
    }

    fn new(ticket: Ticket, pod: Arc<ListedPod>, begun: Instant) -> Self {
        let sandboxes = pod.sandboxes.iter();
        let sandboxes = sandboxes.map(|row| Question::Sandbox(row.id.clone()));
        let containers = pod.containers.iter();
        let containers = containers.map(|row| Question::Container(row.id.clone()));
        let to_ask = sandboxes.chain(containers).collect();
        Self {
            ticket,
            begun,
            to_ask,
            outstanding: BTreeSet::new(),
            found: PodStatus {
                uid: pod.pod.uid.clone(),
                namespace: pod.pod.namespace.clone(),
                name: pod.pod.name.clone(),
                sandboxes: Vec::with_capacity(pod.sandboxes.len()),
                containers: Vec::with_capacity(pod.containers.len()),
            },
            error: None,
            told: BTreeSet::new(),
            exited: BTreeMap::new(),
            pod,
        }
    }

    /// The first question that nobody is asking; the others wait behind whoever asks them.
    fn ask(&mut self, together: usize, ledger: &mut Ledger) -> Option<(Call, About)> {
        if self.outstanding.len() >= together {
            return None;
        }
        let free = self.to_ask.iter().position(|question| {
            let key = question.key();
            let is_free = !ledger.is_outstanding(&key);
            if !is_free {
                ledger.wait_behind(&key, &about_row(question, &self.pod));
            }
            is_free
        })?;
        let question = self.to_ask.remove(free)?;
        self.outstanding.insert(question.key());
        let about = about_row(&question, &self.pod);
        let purpose = Purpose::Inspect(self.ticket.uid.clone(), self.ticket.number());
        Some((Call { question, purpose }, about))
    }

    fn exits(&mut self) -> Vec<(PodUid, Instant, ContainerStatus)> {
        let (uid, begun) = (&self.ticket.uid, self.begun);
        let exited = self.found.containers.iter();
        let exited = exited.filter(|status| status.state == ContainerState::Exited);
        let new = exited.filter(|status| self.told.insert(status.id.clone()));
        new.map(|status| (uid.clone(), begun, status.clone()))
            .collect()
    }

    fn awaits(&self, key: &Key) -> bool {
        let mut to_ask = self.to_ask.iter();
        self.outstanding.contains(key) || to_ask.any(|question| question.key() == *key)
    }

    fn is_over(&self) -> bool {
        self.outstanding.is_empty() && self.to_ask.is_empty()
    }

    /// What was answered; one that the runtime does not have any more is skipped, as the
    /// kubelet does. Any other error fails the inspection, once all have answered: giving up
    /// the others would leave them with a runtime that is then asked again.
    fn unless_gone<T>(&mut self, question: &Question, answer: Result<T, CallError>) -> Option<T> {
        match answer {
            Ok(status) => Some(status),
            Err(CallError::NotFound(_)) => None,
            Err(error) => {
                if let (call, Some(id)) = question.key() {
                    let failed = InspectError::Failed { call, id, error };
                    self.error.get_or_insert(failed);
                }
                None
            }
        }
    }

    /// In the order of the rows, whoever answered first.
    fn end(mut self) -> Inspected {
        let (pod, found) = (&self.pod, &mut self.found);
        for status in &mut found.containers {
            let ended = self.exited.remove(&status.id);
            // What was started again is another process.
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

fn about_row(question: &Question, pod: &ListedPod) -> About {
    let name = match question {
        Question::Container(id) => pod.container_name(id),
        _ => None,
    };
    about(question, name, Some(&pod.pod))
}
