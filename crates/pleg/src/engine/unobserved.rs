//! The pods that are not observed now, and why: a pod is unobserved from the time as of which it
//! differs from the cache ([`Differing`]) until it is inspected, or until lists show that it does not
//! differ.
//!
//! | why | place |
//! |---|---|
//! | a call of the pod is stuck | [`Engine::stuck_status_calls`] |
//! | a call fails, or the kernel or a list contradicts its answer | [`Engine::failing`] |
//! | no more calls can be sent | `Inspector::waiting_for_room` |
//! | its inspection takes too long, or it changes all the time | [`Engine::overdue_pods`] |
//!
//! Three questions are answered from this: which pods are reported without a call
//! ([`Engine::unobserved_for_long`]), as of when a pass has observed a pod
//! ([`Engine::observed_as_of`]), and which pods the cache cannot confirm ([`Engine::pending`]).

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::call::Key;
use super::differing::Differing;
use super::doubts::Doubts;
use super::failures::Failures;
use super::limits::{INSPECTION_OVERDUE_AFTER, MIN_WINDOW, RELAPSE_WITHIN, SETTLED_AFTER};
use super::state::Engine;
use crate::model::id::{Id, PodUid};
use crate::model::listed::ListedPod;
use crate::model::wall_time::Moment;
use crate::out::coverage::{Failing, PassKind};
use crate::out::failure::InspectError;
use crate::out::health::INSPECTIONS_FAIL;
use crate::out::status_report::SuspectCall;
use crate::runtime::{About, CallError, Rpc};

/// What is known about pods that are not observed.
#[derive(Debug, Default)]
pub(super) struct Unobserved {
    /// The pods that differ from the cache.
    pub(super) differing: Differing,
    /// The calls that fail.
    pub(super) failures: Failures,
    /// The pods about which the runtime contradicts itself.
    pub(super) doubts: Doubts,
    /// The pods whose inspection took too long, and when each was last unobserved for that reason.
    pub(super) overdue_pods: BTreeMap<PodUid, Instant>,
    /// When too many pods last waited for a slow runtime.
    pub(super) too_slow: Option<Instant>,
}

impl Engine {
    /// What fails: calls, statuses that the kernel or the runtime's list contradicts, and inspections
    /// that take too long.
    pub(super) fn failing(&self, now: Instant) -> impl Iterator<Item = Failing> {
        let (processes, doubts) = (&self.sources.processes, &self.unobserved.doubts);
        let calls = self.unobserved.failures.iter().cloned();
        let by_kernel = processes.contradictions(now).chain(processes.unlisted(now));
        let failing = calls.chain(by_kernel).chain(doubts.failing());
        failing.chain(self.overdue_pods())
    }

    /// The pods that are not observed now for another reason than a stuck call.
    pub(super) fn unobserved_unless_stuck(&self, now: Instant) -> BTreeSet<PodUid> {
        let failing = self.failing(now);
        let failing = failing.filter_map(|failing| Some(failing.pod?.uid));
        // Before the first completed pass nothing has confirmed what a list shows.
        let undecided = self.unobserved.doubts.needing_lists();
        let undecided = undecided.filter(|_| self.reporting.passes.completed() == 0);
        let others = self.inspector.waiting_for_room().chain(undecided);
        failing.chain(others.cloned()).collect()
    }

    /// The pods that are unobserved as of the last pass.
    pub(super) fn unobserved_by_last_pass(&self) -> impl Iterator<Item = &PodUid> {
        let as_of = self.reporting.passes.last().map(|pass| pass.begun.instant);
        let pods = self.unobserved.differing.unobserved_since(as_of);
        pods.map(|(uid, _)| uid)
    }

    /// The pods that are unobserved as of the last pass, those that have differed for longer than
    /// an inspection takes, and those with a process that has ended. While a pass is needed, all
    /// pods that differ.
    pub(super) fn unobserved_for_long(&self, now: Instant) -> impl Iterator<Item = &PodUid> {
        let since = match self.reporting.passes.needs_pass() {
            true => Some(now),
            false => now.checked_sub(SETTLED_AFTER),
        };
        let overdue = self.unobserved.differing.unobserved_since(since);
        // The runtime does not report these exits yet.
        let dead = self.sources.processes.dead().map(|(_, pod)| &pod.uid);
        self.unobserved_by_last_pass()
            .chain(overdue.map(|(uid, _)| uid))
            .chain(dead)
    }

    /// The calls during which the connection was lost, and about pods whose current state is unknown.
    pub(super) fn lost_calls(&self) -> Vec<SuspectCall> {
        let suspects = self.quarantine.ids();
        if suspects.is_empty() {
            return Vec::new();
        }
        let pending = self.pending();
        let pods = pending.iter().filter_map(|uid| self.records.listed_as(uid));
        let needed = ids_in(pods, &suspects);
        let lost = self.quarantine.calls();
        lost.filter(|call| needed.contains(&call.id)).collect()
    }

    /// The pods whose current state the cache does not hold.
    pub(super) fn pending(&self) -> BTreeSet<PodUid> {
        let mut pending = self.records.pending();
        pending.extend(self.records.gone_and_listed().iter().cloned());
        let contradicted = self.sources.processes.dead();
        pending.extend(contradicted.map(|(_, pod)| pod.uid.clone()));
        pending
    }

    /// The time as of which the open pass has observed at least one pod; `None` if it has observed
    /// none. Usually that is now. If all pods wait for a slow runtime, it is the time of the newest
    /// inspection.
    pub(super) fn observed_as_of(&self, now: Moment) -> Option<Moment> {
        if self.records.listed().next().is_none() {
            // Only a list of sandboxes shows that there are no pods: a sweep requests only what is
            // known.
            let unseen = self.unseen_lists(now.instant);
            let is_list = self.reporting.passes.kind() == Some(PassKind::List);
            return (is_list || !unseen.sandboxes).then_some(now);
        }
        // A pod that was never inspected, or that only an event has named, was not observed. The
        // first pass must observe a pod of its own lists: a newer pod does not count.
        let is_first = self.reporting.passes.completed() == 0;
        if is_first && self.reporting.passes.has_given_up_all() {
            return None;
        }
        let mut unobserved = self.unobserved_unless_stuck(now.instant);
        // A list shows the current state of a pod whose call is stuck, unless the pod differs.
        let pending = match self.reporting.passes.kind() {
            Some(PassKind::List) => Some(self.pending()),
            _ => None,
        };
        let has_to_be_inspected = |uid: &PodUid| pending.as_ref().is_none_or(|it| it.contains(uid));
        unobserved.extend(self.stuck_pods().filter(has_to_be_inspected));
        let mut committed = self.records.committed();
        if committed.any(|pod| !unobserved.contains(&pod.pod.uid)) {
            return Some(now);
        }
        let last = self.reporting.passes.last()?.begun.instant;
        let is_slow = self.overdue_pods().next().is_some();
        let newest = self.reporting.last_inspected.filter(|_| is_slow);
        newest.filter(|as_of| as_of.instant > last)
    }

    /// How many pods have been unobserved for long and are not `reported`. Counting stops at one
    /// more than fit into the smallest window.
    pub(super) fn count_waiting(&self, reported: &BTreeSet<PodUid>, now: Instant) -> usize {
        let limit = now.checked_sub(INSPECTIONS_FAIL);
        let differing = &self.unobserved.differing;
        let pods = differing.unobserved_since(limit).map(|(uid, _)| uid);
        let pods = pods.filter(|uid| differing.noted(uid) <= limit && !reported.contains(*uid));
        pods.take(MIN_WINDOW + 1).count()
    }

    /// The pods whose inspection takes too long although none of their calls is stuck or fails. Each
    /// is identified by its newest sandbox, or by a container if it has none.
    pub(super) fn overdue_pods(&self) -> impl Iterator<Item = Failing> {
        let pods = &self.unobserved.overdue_pods;
        let with_reported_call = match pods.is_empty() {
            true => BTreeSet::new(),
            false => self.pods_with_reported_call(),
        };
        pods.keys().filter_map(move |uid| {
            let since = self.unobserved.differing.since(uid)?;
            if with_reported_call.contains(uid) {
                return None;
            }
            let listed = self.records.listed_as(uid)?;
            let sandbox = listed.sandboxes.iter().max_by_key(|row| row.attempt);
            let (id, call, container) = match (sandbox, listed.containers.first()) {
                (Some(sandbox), _) => (&sandbox.id, Rpc::PodSandboxStatus, None),
                (None, Some(row)) => (&row.id, Rpc::ContainerStatus, Some(row.name.clone())),
                (None, None) => return None,
            };
            Some(Failing {
                id: id.clone(),
                call,
                container,
                pod: Some(listed.pod.clone()),
                error: InspectError::NotSeen,
                since,
                unobserved_since: since,
            })
        })
    }

    /// The pods with a call that is reported as stuck or failing. They need no report about the pod as a
    /// whole.
    pub(super) fn pods_with_reported_call(&self) -> BTreeSet<PodUid> {
        let failures = self.unobserved.failures.iter();
        let failing = failures.filter_map(|failing| Some(failing.pod.as_ref()?.uid.clone()));
        self.stuck_pods().chain(failing).collect()
    }

    /// While no more calls can be sent because all of them are stuck, the pass does not wait for
    /// the pods that need one.
    pub(super) fn give_up_pods_without_room(&mut self, now: Instant) {
        if self.ledger.has_room() {
            return;
        }
        let limit = self.config.status_overdue;
        for uid in self.inspector.newly_waiting_for_room(now, limit) {
            self.reporting.passes.give_up(&uid);
        }
    }

    /// Gives up the pods with stuck calls: the pass does not wait for them, and failures of theirs
    /// that are over are forgotten. Returns the pods whose status needs a stuck call, with the
    /// reason.
    pub(super) fn give_up_stuck_pods(&mut self, now: Moment) -> BTreeMap<PodUid, InspectError> {
        let mut stuck = BTreeSet::new();
        let mut overdue = BTreeMap::new();
        let is_sweeping = self.missing(now.instant).any();
        for call in self.sent_and_stuck() {
            let has_pod = call.about.pod.is_some();
            let call = self.with_owner_from_host(call);
            let (Some(pod), Some(id)) = (call.about.pod, call.about.id) else {
                continue;
            };
            let key = (call.about.call, Some(id.clone()));
            let is_swept = || is_sweeping && self.records.is_listed(&pod.uid, &id);
            if !has_pod || is_swept() || self.inspector.needs_answer(&pod.uid, &key) {
                let call = call.about.call;
                let overdue = overdue.entry(pod.uid.clone());
                overdue.or_insert(InspectError::Overdue { call, id });
            }
            stuck.insert(pod.uid);
        }
        let failures = &mut self.unobserved.failures;
        failures.replace_by_other_call(|uid| stuck.contains(uid));
        for uid in &stuck {
            self.reporting.passes.give_up(uid);
        }
        overdue
    }

    /// Gives up each pod whose inspection takes too long: the pod may have many containers, be
    /// slow, or change all the time. Passes do not wait for it again for [`RELAPSE_WITHIN`].
    pub(super) fn give_up_overdue_pods(&mut self, now: Instant) {
        let Unobserved {
            differing,
            overdue_pods,
            ..
        } = &mut self.unobserved;
        let limit = now.checked_sub(INSPECTION_OVERDUE_AFTER);
        let active = self.inspector.active();
        let new = active.filter(|uid| self.reporting.passes.has_awaited(uid, limit));
        overdue_pods.extend(new.map(|uid| (uid.clone(), now)));
        overdue_pods.retain(|uid, last| {
            if differing
                .noted(uid)
                .is_some_and(|noted| Some(noted) <= limit)
            {
                *last = now;
            }
            now < *last + RELAPSE_WITHIN
        });
        for uid in overdue_pods.keys() {
            if differing.since(uid).is_some() {
                self.reporting.passes.give_up(uid);
            }
        }
    }

    /// Gives up the pods that are reported: the pass does not wait for them, and readers of the
    /// cache receive the reason.
    pub(super) fn give_up_pods(&mut self, now: Moment) {
        self.give_up_pods_without_room(now.instant);
        self.give_up_overdue_pods(now.instant);
        let stuck = self.give_up_stuck_pods(now);
        let waiting = self.inspector.waiting_for_room();
        let waiting = waiting.map(|uid| (uid.clone(), InspectError::NotSent));
        let overdue = self.overdue_pods();
        let overdue = overdue.filter_map(|failing| Some((failing.pod?.uid, failing.error)));
        let reasons = overdue.chain(waiting).chain(stuck).collect();
        self.out.cache.set_unobserved(reasons, now.instant);
    }

    /// Records how a status call ended. A failure remains until the call is answered, or the pod is
    /// observed otherwise.
    pub(super) fn note_outcome(
        &mut self,
        key: Key,
        about: About,
        error: Option<&CallError>,
        now: Instant,
    ) {
        let (call, Some(id)) = key.clone() else {
            return;
        };
        match error {
            None | Some(CallError::NotFound(_)) => {
                // If the inspection of a pod failed because of this call, the pod is inspected
                // again.
                if let Some(uid) = self.unobserved.failures.answered(&key) {
                    self.records.retry(&uid);
                }
            }
            // A lost connection is no evidence about the id.
            Some(CallError::Unavailable(_)) => {}
            Some(error) => {
                let pod = about.pod;
                let uid = pod.as_ref().map(|pod| &pod.uid);
                // The pod was removed meanwhile, so the failure needs no report.
                if uid.is_some_and(|uid| !self.records.knows(uid)) {
                    return;
                }
                let error = InspectError::Failed {
                    call,
                    id: id.clone(),
                    error: error.clone(),
                };
                let since_before = uid.and_then(|uid| self.unobserved.differing.since(uid));
                let failing = Failing {
                    id,
                    call,
                    container: about.container,
                    error,
                    since: now,
                    unobserved_since: since_before.unwrap_or(now),
                    pod,
                };
                self.note_failing(failing, now);
            }
        }
    }

    /// Records a failing call. The pass does not wait for its pod, and readers of the cache receive
    /// the reason.
    fn note_failing(&mut self, failing: Failing, now: Instant) {
        if let Some(pod) = &failing.pod {
            let error = failing.error.clone();
            self.out.cache.set_error(&pod.uid, error, failing.since);
            self.reporting.passes.give_up(&pod.uid);
        }
        self.unobserved.failures.note(failing, now);
    }
}

/// Those of the `wanted` ids that these pods have.
pub(super) fn ids_in<'a>(
    pods: impl Iterator<Item = &'a ListedPod>,
    wanted: &BTreeSet<Id>,
) -> BTreeSet<Id> {
    let ids = pods.flat_map(ListedPod::ids);
    ids.filter(|id| wanted.contains(*id)).cloned().collect()
}
