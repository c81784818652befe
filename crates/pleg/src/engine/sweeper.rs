//! A sweep: while a list is missing (see `Relister::missing`), the status of each known container or
//! sandbox is requested by id, at a limited rate.
//!
//! ```text
//!   targets --at most 200 per second, 8 at once unless slow--> waiting --> answered | failed
//!                                                               \--> stuck: reported, not awaited
//!      no target is left, and the period has passed: the next sweep begins; the earlier one trails
//!      until its outstanding calls end or are stuck, for at most ten seconds
//! ```
//!
//! The status call of the id that blocks the list is not answered, so a sweep also finds the
//! culprit. While nothing is answered, at most [`PARALLEL_CALLS`](super::limits::PARALLEL_CALLS)
//! calls are made: a runtime that is down does not receive calls for all ids.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::call::{Call, Key, List, Request};
use super::limits::MAX_STATUS_OVERDUE;
use super::lists::PerList;
use crate::model::id::{HostId, Id, Owner, PodUid};
use crate::model::listed::{ListedPod, ListedSandbox, SandboxState};
use crate::model::wall_time::Moment;
use crate::runtime::About;

mod sweep;

pub(crate) use sweep::{Outcome, Swept};
use sweep::{Sweep, Target, target};

/// The sweeps that replace a list.
#[derive(Debug)]
pub(crate) struct Sweeper {
    period: Duration,
    /// The newest sweep.
    sweep: Option<Sweep>,
    /// An earlier sweep that still waits for answers, or for ids about which another call is
    /// outstanding. The newest sweep requests all ids again meanwhile.
    trailing: Option<Sweep>,
    /// When the next sweep may begin.
    next: Instant,
    /// The ids that the host knew when they were last read, with their owners.
    host_ids: BTreeMap<Id, Option<Owner>>,
    is_reading_host: bool,
    /// Known ids that were not found when last requested, and when that was. They may be found the
    /// next time.
    not_found: BTreeMap<Key, (Request, Instant)>,
    /// Whether a sandbox's status contains its containers, once that is known.
    has_containers_in_sandboxes: Option<bool>,
}

impl Sweeper {
    pub(crate) fn new(period: Duration, now: Instant) -> Self {
        Self {
            period,
            sweep: None,
            trailing: None,
            next: now,
            host_ids: BTreeMap::new(),
            is_reading_host: false,
            not_found: BTreeMap::new(),
            has_containers_in_sandboxes: None,
        }
    }

    /// Ends the sweeps if no list is `missing`. Returns whether the host's ids are to be read now, for
    /// the next sweep.
    pub(crate) fn advance(
        &mut self,
        missing: PerList<bool>,
        ledger: &Ledger,
        now: Instant,
    ) -> bool {
        if !missing.any() {
            self.sweep = None;
            self.trailing = None;
            self.not_found.clear();
            self.next = now;
            return false;
        }
        // A sweep that replaces one list does not go on once the other one is missing too.
        let is_going_on = |sweep: &Sweep| sweep.has_target(ledger) && sweep.covers(missing);
        let is_going_on = self.sweep.as_ref().is_some_and(is_going_on);
        let due = !is_going_on && now >= self.next && !self.is_reading_host;
        if due {
            self.is_reading_host = true;
            self.next = now + self.period;
        }
        due
    }

    /// Takes in the ids that the host knows. `None` means that they could not be read: the earlier
    /// ones remain.
    pub(crate) fn on_host_ids(&mut self, ids: Option<Vec<HostId>>) {
        self.is_reading_host = false;
        if let Some(ids) = ids {
            self.host_ids = ids.into_iter().map(|it| (it.id, it.owner)).collect();
        }
    }

    /// Whether the host knew this id when its ids were last read.
    pub(crate) fn has_host_id(&self, id: &Id) -> bool {
        self.host_ids.contains_key(id)
    }

    /// The pod and container of an id, according to the host.
    pub(crate) fn owner(&self, id: &Id) -> Option<&Owner> {
        self.host_ids.get(id)?.as_ref()
    }

    /// Begins a sweep over the listed ids and over those that only the host knows. If one list is
    /// not missing, the sweep also waits for that one. The sweep is paced more slowly if lists are
    /// answered but `slow` each time.
    pub(crate) fn begin<'a>(
        &mut self,
        missing: PerList<bool>,
        listed: impl Iterator<Item = &'a ListedPod>,
        slow: bool,
        ledger: &Ledger,
        now: Moment,
    ) {
        let targets = self.take_targets(missing, listed, now.instant);
        self.trailing.take_if(|it| it.is_old(now.instant));
        match self.sweep.take() {
            None => tracing::info!(
                "requesting the status of known ids in place of {}",
                missing.calls()
            ),
            // Only one sweep trails. If one does already, the last sweep is dropped.
            Some(last) if self.trailing.is_none() && last.is_waiting(ledger) => {
                self.trailing = Some(last);
            }
            Some(_) => {}
        }
        self.next = now.instant + self.period;
        let requests_sandboxes = self.has_containers_in_sandboxes == Some(true);
        let sweep = Sweep::begin(missing, requests_sandboxes, targets, slow, ledger, now);
        self.sweep = Some(sweep);
    }

    /// All known ids that the missing lists would contain, and the sandboxes whose status shows
    /// containers.
    fn take_targets<'a>(
        &mut self,
        missing: PerList<bool>,
        listed: impl Iterator<Item = &'a ListedPod>,
        now: Instant,
    ) -> VecDeque<Target> {
        let mut unknown: BTreeSet<&Id> = self.host_ids.keys().collect();
        let mut targets = VecDeque::<Target>::new();
        // Some runtimes report new containers in the status of their sandbox. While it is unknown
        // whether this one does, the status of one sandbox that has containers shows it.
        let mut is_requested = false;
        let are_in_sandboxes = self.has_containers_in_sandboxes;
        let mut needs_sandbox_status = |pod: &ListedPod, row: &ListedSandbox| {
            let ready = row.state == SandboxState::Ready;
            let is_sample = !is_requested && ready && !pod.containers.is_empty();
            // A sandbox that has ended still shows the containers that started and ended with it.
            let needs_status = are_in_sandboxes.unwrap_or(is_sample);
            is_requested |= needs_status;
            needs_status
        };
        for pod in listed {
            for id in pod.ids() {
                unknown.remove(id);
            }
            for row in &pod.sandboxes {
                let shows_containers = missing.containers && needs_sandbox_status(pod, row);
                if missing.sandboxes || shows_containers {
                    targets.push_back(target(Request::Sandbox(row.id.clone()), Some(pod)));
                }
            }
            if missing.containers {
                let containers = pod.containers.iter().map(|row| row.id.clone());
                targets.extend(containers.map(|id| target(Request::Container(id), Some(pod))));
            }
        }
        let requested = targets.iter().map(|(call, _)| call.request.key());
        let requested: BTreeSet<Key> = requested
            .filter(|key| self.not_found.contains_key(key))
            .collect();
        self.not_found
            .retain(|key, (_, since)| requested.contains(key) || now < *since + MAX_STATUS_OVERDUE);
        let others = self.not_found.iter();
        let others = others.filter(|(key, _)| !requested.contains(*key));
        targets.extend(others.map(|(_, (request, _))| target(request.clone(), None)));
        let (mut new, mut foreign) = (VecDeque::new(), VecDeque::new());
        for id in unknown {
            let owner = self.owner(id);
            // Other clients of the runtime may have many ids that belong to no pod. These are
            // requested last.
            let group = match owner.is_some() {
                true => &mut new,
                false => &mut foreign,
            };
            // An owner without a container may mean that the host does not know the container's
            // name.
            let is_container = owner.is_some_and(|it| it.container.is_some());
            if missing.sandboxes && !is_container {
                group.push_back(target(Request::Sandbox(id.clone()), None));
            }
            if missing.containers {
                group.push_back(target(Request::Container(id.clone()), None));
            }
        }
        // New ids are requested first, because nothing is known about them yet.
        new.append(&mut targets);
        new.append(&mut foreign);
        new
    }

    /// The next call of the sweeps, if one is due.
    pub(crate) fn next_call(&mut self, ledger: &Ledger, now: Instant) -> Option<(Call, About)> {
        let trailing = self.trailing.as_mut();
        let target = trailing.and_then(|it| it.take(ledger, now));
        if target.is_some() {
            return target;
        }
        let target = self.sweep.as_mut()?.take(ledger, now)?;
        self.next = self.next.max(now);
        Some(target)
    }

    /// The sweeps that may be waiting for answers.
    fn sweeps(&mut self) -> impl Iterator<Item = &mut Sweep> {
        self.trailing.iter_mut().chain(&mut self.sweep)
    }

    /// A call that a sweep may be waiting for has ended.
    pub(crate) fn answered(
        &mut self,
        key: &Key,
        uid: Option<&PodUid>,
        outcome: Outcome,
        now: Instant,
    ) {
        for sweep in self.sweeps() {
            sweep.ended(key, uid, outcome, now);
        }
    }

    /// Records that a known id was not found, which may be a mistake: the next sweep requests the
    /// id again, and if it is not found a second time, it counts as removed. Returns whether this
    /// is the first time. The number of ids is not bounded: an id that is not remembered would
    /// count as removed at once.
    pub(crate) fn note_not_found(&mut self, request: &Request, now: Instant) -> bool {
        let not_found = (request.clone(), now);
        self.not_found.insert(request.key(), not_found).is_none()
    }

    /// Records that an id exists. Returns whether it had been recorded as not found.
    pub(crate) fn note_found(&mut self, key: &Key) -> bool {
        self.not_found.remove(key).is_some()
    }

    /// A list that was requested at `requested` was answered, whichever component had requested it.
    pub(crate) fn list_answered(&mut self, list: List, requested: Instant) {
        for sweep in self.sweeps() {
            sweep.list_answered(list, requested);
        }
    }

    /// Learns from a sandbox's status whether this runtime reports containers in it.
    /// `has_containers` is whether this status does, `has_some` whether the sandbox is known to
    /// have any.
    pub(crate) fn sandbox_status_received(&mut self, has_containers: bool, has_some: bool) {
        if has_containers {
            self.has_containers_in_sandboxes = Some(true);
        } else if has_some {
            self.has_containers_in_sandboxes.get_or_insert(false);
        }
    }

    /// Forgets whether sandbox statuses contain containers: the runtime may be another one.
    pub(crate) fn runtime_changed(&mut self) {
        self.has_containers_in_sandboxes = None;
        for sweep in self.sweeps() {
            sweep.runtime_changed();
        }
    }

    /// Whether new containers are observed in the status of their sandbox.
    pub(crate) fn can_see_new_containers(&self) -> bool {
        self.has_containers_in_sandboxes == Some(true)
    }

    /// Whether a sweep replaces a list now.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// Whether the host knows any ids.
    pub(crate) fn has_host_ids(&self) -> bool {
        !self.host_ids.is_empty()
    }

    /// The result of a sweep once it is complete: all ids were requested, the other list was
    /// answered, and no call that may still be answered is outstanding. A sweep without any answer
    /// has no result.
    pub(crate) fn complete(&mut self, ledger: &Ledger) -> Option<Swept> {
        let trailing = self.trailing.take_if(|it| !it.is_waiting(ledger));
        let swept = trailing.and_then(|mut it| it.complete(ledger));
        swept.or_else(|| self.sweep.as_mut()?.complete(ledger))
    }

    /// When the sweeps next have something to do if no call ends.
    pub(crate) fn alarm(&self, ledger: &Ledger) -> Option<Instant> {
        let trailing = self.trailing.as_ref().and_then(|it| it.due(ledger));
        let next = match &self.sweep {
            Some(sweep) if sweep.has_target(ledger) => sweep.due(ledger),
            _ => Some(self.next).filter(|_| !self.is_reading_host),
        };
        trailing.into_iter().chain(next).min()
    }
}

#[cfg(test)]
mod tests;
