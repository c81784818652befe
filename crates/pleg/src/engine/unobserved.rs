//! The pods that are not observed now, and why.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::call::Key;
use super::differing::Differing;
use super::doubts::Doubts;
use super::failures::Failures;
use super::limits::{
    INSPECTION_OVERDUE_AFTER, MAX_UNEXPLAINED_PODS, RELAPSE_WITHIN, SETTLED_AFTER,
};
use super::state::Engine;
use crate::model::id::{Id, PodRef, PodUid};
use crate::model::wall_time::Moment;
use crate::out::coverage::Failing;
use crate::out::failure::InspectError;
use crate::out::health::INSPECTIONS_FAIL;
use crate::runtime::{About, CallError, OutstandingCall, Rpc};

/// Why a pod is not observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// One of its calls is stuck.
    Stuck,
    /// One of its calls fails, or no inspection of it ends.
    Fails,
    /// No call can be made for it: as many are outstanding as may be.
    NotAsked,
    /// The runtime's list, its status and the kernel do not agree about it.
    Contradicted,
}

impl Why {
    pub(super) const ALL: [Self; 4] =
        [Self::Stuck, Self::Fails, Self::NotAsked, Self::Contradicted];
}

/// What is known of pods that are not observed.
#[derive(Debug, Default)]
pub(super) struct Unobserved {
    /// Those that differ from what the cache holds.
    pub(super) differing: Differing,
    /// The calls that fail.
    pub(super) failures: Failures,
    /// Those about which the runtime contradicts itself.
    pub(super) doubts: Doubts,
    /// Those that a round has waited for in vain, and when they were last named.
    pub(super) overdue_pods: BTreeMap<PodUid, Instant>,
    /// When more pods last waited for their status, each for long, than may be asked for at once.
    pub(super) too_slow: Option<Instant>,
}

impl Engine {
    /// Each reason for which a pod is not observed now.
    fn reasons(&self, now: Instant) -> impl Iterator<Item = (PodUid, Why)> {
        let stuck = self.stuck_statuses().filter_map(|call| call.about.pod);
        let failing = self.unobserved.failures.iter();
        let failing = failing.filter_map(|failing| failing.pod.clone());
        let disagree = self
            .unobserved
            .doubts
            .failing()
            .filter_map(|failing| failing.pod);
        let denied = self.sources.processes.contradictions(now);
        let denied = denied.map(|contradiction| contradiction.pod);
        let of = |why| move |pod: PodRef| (pod.uid, why);
        let waiting_for_room = self.inspector.waiting_for_room().cloned();
        // Before the first look nothing has confirmed what a list shows.
        let undecided = self.unobserved.doubts.awaiting_lists().cloned();
        let undecided = undecided.filter(|_| self.reporting.passes.completed() == 0);
        let stuck = stuck.map(of(Why::Stuck));
        stuck
            .chain(failing.map(of(Why::Fails)))
            .chain(waiting_for_room.map(|uid| (uid, Why::NotAsked)))
            .chain(disagree.map(of(Why::Contradicted)))
            .chain(undecided.map(|uid| (uid, Why::Contradicted)))
            .chain(denied.map(of(Why::Contradicted)))
    }

    /// The pods that are not observed for any of these reasons.
    pub(super) fn unobserved_for(&self, reasons: &[Why], now: Instant) -> BTreeSet<PodUid> {
        let found = self.reasons(now).filter(|(_, why)| reasons.contains(why));
        found.map(|(uid, _)| uid).collect()
    }

    /// The pods that are not seen as of the last look.
    pub(super) fn missed(&self) -> impl Iterator<Item = &PodUid> {
        let as_of = self.reporting.passes.last().map(|pass| pass.begun.instant);
        let missed = as_of.into_iter();
        let missed = missed.flat_map(|as_of| self.unobserved.differing.up_to(as_of));
        missed.map(|(uid, _)| uid)
    }

    /// Those, and the pods that differ for longer than an inspection takes, or at all while what has
    /// happened since the last lists is not seen yet.
    pub(super) fn not_inspected(&self, now: Instant) -> impl Iterator<Item = &PodUid> {
        let since = match self.reporting.passes.owes_a_pass() {
            true => Some(now),
            false => now.checked_sub(SETTLED_AFTER),
        };
        let late = since.into_iter();
        let late = late.flat_map(|time| self.unobserved.differing.up_to(time));
        self.missed().chain(late.map(|(uid, _)| uid))
    }

    /// Whether a pod is not inspected that neither fails nor hangs any more, whatever else is said of
    /// it: its inspection is under way.
    pub(super) fn awaits_inspections(&self, now: Instant) -> bool {
        let mut unseen = self.not_inspected(now).peekable();
        if unseen.peek().is_none() {
            return false;
        }
        let named = self.unobserved_for(&[Why::Stuck, Why::Fails, Why::NotAsked], now);
        unseen.any(|uid| !named.contains(uid))
    }

    /// The status calls that are stuck, with the pods that wait for them.
    pub(super) fn stuck_statuses(&self) -> impl Iterator<Item = OutstandingCall> {
        self.ledger.stuck(|uid| self.records.knows(uid))
    }

    /// The containers whose process is dead and which the runtime reports as running.
    pub(super) fn contradicted(&self, now: Instant) -> Vec<Failing> {
        let contradictions = self.sources.processes.contradictions(now);
        let contradictions = contradictions.map(|contradiction| Failing {
            call: Rpc::ContainerStatus,
            container: Some(contradiction.container),
            pod: Some(contradiction.pod),
            error: InspectError::Contradicted {
                id: contradiction.id.clone(),
            },
            id: contradiction.id,
            since: contradiction.since,
            unseen_since: contradiction.since,
        });
        contradictions.collect()
    }

    /// The first pods that were not seen for long, although nothing says why: they are not
    /// reported otherwise, and are asked for.
    pub(super) fn unexplained(
        &self,
        is_reported: impl Fn(&PodUid) -> bool,
        now: Instant,
    ) -> Vec<Failing> {
        let Some(long_ago) = now.checked_sub(INSPECTIONS_FAIL) else {
            return Vec::new();
        };
        let is_known = |uid: &PodUid| {
            self.unobserved
                .differing
                .noted(uid)
                .is_some_and(|at| at <= long_ago)
        };
        let pods = self.unobserved.differing.up_to(long_ago);
        let pods = pods.filter(|(uid, _)| is_known(uid) && !is_reported(uid));
        let pods = pods
            .filter_map(|(uid, since)| self.failing_pod(uid, InspectError::NotSeen, since, since));
        pods.take(MAX_UNEXPLAINED_PODS).collect()
    }

    /// A pod that is not seen as a whole, by its newest sandbox; by a container where it has none.
    pub(super) fn failing_pod(
        &self,
        uid: &PodUid,
        error: InspectError,
        since: Instant,
        unseen_since: Instant,
    ) -> Option<Failing> {
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
            error,
            since,
            unseen_since,
        })
    }

    /// Whether a call of this pod hangs or fails, so that there is nothing to say of it as a whole.
    pub(super) fn is_call_reported(&self, uid: &PodUid) -> bool {
        let mut stuck = self.stuck_statuses();
        let is_stuck = stuck.any(|call| call.about.pod.is_some_and(|pod| pod.uid == *uid));
        is_stuck || self.unobserved.failures.names_a_call_of(uid)
    }

    /// Whether the call that an inspection failed by was not answered well since, by a sweep.
    pub(super) fn still_fails(&self, error: &InspectError) -> bool {
        match error {
            // Without a connection nothing is answered.
            InspectError::Failed {
                error: CallError::Unavailable(_),
                ..
            } => true,
            InspectError::Failed { call, id, .. } => {
                self.unobserved.failures.fails(&(*call, Some(id.clone())))
            }
            _ => true,
        }
    }

    /// Whether the pod is listed with this sandbox or container.
    pub(super) fn lists(&self, uid: &PodUid, id: &Id) -> bool {
        let listed = self.records.listed_as(uid);
        listed.is_some_and(|listed| listed.names(id))
    }

    /// While no more calls can be made, for all that may be outstanding hang, nobody asks for
    /// the pods that wait: the round goes on without them too.
    pub(super) fn give_up_waiting(&mut self, now: Moment) {
        if self.ledger.has_room() {
            return;
        }
        let limit = self.config.status_overdue;
        for uid in self.inspector.newly_waiting_for_room(now.instant, limit) {
            let error = InspectError::NotAsked;
            self.out.cache.set_error(&uid, error, now.instant);
            self.reporting.passes.give_up(&uid);
        }
    }

    /// Calls became stuck: the round goes on without their pods, and whoever waits for the
    /// status of one is told why there is none.
    pub(super) fn give_up_stuck(&mut self, now: Moment) {
        let mut new = Vec::new();
        let mut overdue = BTreeMap::new();
        let is_polling = self.missing(now.instant).any();
        for call in self.stuck_statuses() {
            let is_named = call.about.pod.is_some();
            let call = self.named_by_the_host(call);
            let (Some(pod), Some(id)) = (call.about.pod, call.about.id) else {
                continue;
            };
            let asked = (call.about.call, Some(id.clone()));
            let is_polled = || is_polling && self.lists(&pod.uid, &id);
            if !is_named || is_polled() || self.inspector.awaits(&pod.uid, &asked) {
                let error = || InspectError::Overdue {
                    call: call.about.call,
                    id: id.clone(),
                };
                overdue.entry(pod.uid.clone()).or_insert_with(error);
            }
            let mut before = self.reporting.coverage.stuck.iter().map(|call| &call.about);
            let is_it = |about: &About| {
                let uid = about.pod.as_ref().map(|pod| &pod.uid);
                (about.call, &about.id, uid) == (asked.0, &asked.1, Some(&pod.uid))
            };
            if !before.any(is_it) {
                new.push(pod.uid);
            }
        }
        self.out.cache.set_overdue(overdue, now.instant);
        if !new.is_empty() {
            self.doubt_stream(now);
        }
        for uid in new {
            self.unobserved.failures.named(&uid);
            self.reporting.passes.give_up(&uid);
        }
    }

    /// A pod of very many containers, or one that the runtime is slow for, holds up nobody else:
    /// it is named, and not waited for before it has been prompt for a while.
    pub(super) fn give_up_overdue(&mut self, now: Moment) {
        let instant = now.instant;
        self.unobserved
            .overdue_pods
            .retain(|_, named| instant < *named + RELAPSE_WITHIN);
        let long_ago = instant.checked_sub(INSPECTION_OVERDUE_AFTER);
        for uid in self.reporting.passes.awaited_since(long_ago) {
            if self.inspector.is_active(&uid) {
                self.note_overdue(&uid, now);
                self.unobserved.overdue_pods.insert(uid, instant);
            }
        }
    }

    /// Notes how a status call ended: what failed is known until it is good, or until its
    /// pod is seen otherwise.
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
                // One that an inspection failed by is inspected once more.
                let Some(uid) = self.unobserved.failures.answered(&key) else {
                    return;
                };
                self.records.retry(&uid);
                let is_its =
                    |call: OutstandingCall| call.about.pod.is_some_and(|pod| pod.uid == uid);
                if self.stuck_statuses().any(is_its) {
                    self.unobserved.failures.named(&uid);
                }
            }
            // It says nothing of the one that was asked for: the connection is gone.
            Some(CallError::Unavailable(_)) => {}
            Some(error) => {
                // Of a pod that is gone meanwhile it says nothing that anybody needs.
                let pod = about.pod;
                if pod
                    .as_ref()
                    .is_some_and(|pod| !self.records.knows(&pod.uid))
                {
                    return;
                }
                let error = InspectError::Failed {
                    call,
                    id: id.clone(),
                    error: error.clone(),
                };
                let unseen = pod
                    .as_ref()
                    .and_then(|pod| self.unobserved.differing.since(&pod.uid));
                let failing = Failing {
                    id,
                    call,
                    container: about.container,
                    error,
                    since: now,
                    unseen_since: unseen.unwrap_or(now),
                    pod,
                };
                self.note_failing(failing, now);
            }
        }
    }

    /// Notes why a pod is not seen, and that no look waits for it.
    pub(super) fn note_failing(&mut self, failing: Failing, now: Instant) {
        if let Some(pod) = &failing.pod {
            let error = failing.error.clone();
            self.out.cache.set_error(&pod.uid, error, failing.since);
            self.reporting.passes.give_up(&pod.uid);
        }
        self.unobserved.failures.note(failing, now);
    }

    pub(super) fn note_overdue(&mut self, uid: &PodUid, now: Moment) {
        let since = self.unobserved.differing.since(uid).unwrap_or(now.instant);
        self.note_unseen(uid, InspectError::NotSeen, since, now);
    }

    /// An inspection was overtaken by what was heard meanwhile. A pod of which no inspection comes
    /// to its end for long is named, and not waited for: no look depends on it.
    pub(super) fn note_overtaken(&mut self, uid: &PodUid, now: Moment) {
        let since = self.unobserved.differing.since(uid);
        let is_known = self.unobserved.overdue_pods.contains_key(uid);
        let long_ago = now.instant.checked_sub(INSPECTIONS_FAIL);
        let is_long = self.unobserved.differing.noted(uid) <= long_ago;
        let Some(since) = since.filter(|_| is_known || is_long) else {
            return;
        };
        self.note_unseen(uid, InspectError::Overtaken, since, now);
        self.unobserved
            .overdue_pods
            .insert(uid.clone(), now.instant);
    }

    /// The pod as a whole is not seen, whatever is answered of its parts. If one of its calls hangs or
    /// fails, that is told, and no look waits for the pod.
    pub(super) fn note_unseen(
        &mut self,
        uid: &PodUid,
        error: InspectError,
        unseen_since: Instant,
        now: Moment,
    ) {
        if error.is_slowness() && self.is_call_reported(uid) {
            self.reporting.passes.give_up(uid);
        } else if let Some(failing) = self.failing_pod(uid, error, now.instant, unseen_since) {
            self.note_failing(failing, now.instant);
        }
    }
}
