//! Coverage: which pods are observed as of when, which are not, and why.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::limits::{MIN_WINDOW, RELAPSE_WITHIN};
use super::lists::{Ages, PerList};
use super::state::Engine;
use crate::model::id::{Id, PodUid};
use crate::model::wall_time::Moment;
use crate::out::coverage::{Coverage, Failing, Statuses};
use crate::out::health::Blind;
use crate::out::status_report::SuspectCall;
use crate::runtime::OutstandingCall;

impl Engine {
    pub(super) fn update_coverage(&mut self, now: Moment) {
        let instant = now.instant;
        let ages = self.ages(instant);
        self.relister.note_unavailable_lists(ages);
        let mut dead = BTreeMap::<PodUid, BTreeSet<Id>>::new();
        for Failing { id, pod, .. } in self.sources.processes.contradictions(instant) {
            if let Some(pod) = pod {
                dead.entry(pod.uid).or_default().insert(id);
            }
        }
        self.out.cache.set_dead(dead, instant);
        let mut failing: Vec<Failing> = self.failing(instant).collect();
        let overdue = self.relister.is_overdue(ages);
        let is_unresponsive = overdue && self.unresponsive_at().is_some_and(|time| instant >= time);
        let unresponsive_since = self.ledger.unresponsive_since();
        let unresponsive_since = unresponsive_since.filter(|_| is_unresponsive);
        let stuck = self.stuck(ages, unresponsive_since.is_some());
        let has_overdue_status = self.ledger.has_overdue_status(instant);
        let lists = self.relister.state_of_lists(ages);
        let each_list = self.relister.each_list(ages);
        let cannot_list = stuck.iter().any(|call| call.about.call.is_list());
        let waiting_for_room: BTreeSet<PodUid> =
            self.inspector.waiting_for_room().cloned().collect();
        let is_slow = |failing: &Failing| failing.error.is_slowness();
        let mut reported = pods_of(&stuck, &failing);
        reported.extend(waiting_for_room.iter().cloned());
        let slow = failing.iter().filter(|failing| is_slow(failing)).count();
        let waiting = slow + waiting_for_room.len() + self.count_waiting(&reported, instant);
        if waiting > MIN_WINDOW || waiting > 0 && self.ledger.is_slow_for_most(instant) {
            self.unobserved.too_slow = Some(instant);
        }
        // The few pods that still wait are no more the cause than the others were.
        let too_slow = self.unobserved.too_slow;
        let is_too_slow =
            waiting > 0 && too_slow.is_some_and(|last| instant < last + RELAPSE_WITHIN);
        let statuses = match has_overdue_status {
            true => Statuses::Late,
            false if is_too_slow => Statuses::TooSlow,
            false => Statuses::InTime,
        };
        if is_too_slow {
            failing.retain(|failing| !is_slow(failing));
        }
        let mut reported = pods_of(&stuck, &failing);
        reported.extend(waiting_for_room.iter().cloned());
        let unobserved = self.unobserved_for_long(instant);
        let unobserved: BTreeSet<&PodUid> =
            unobserved.filter(|uid| !reported.contains(*uid)).collect();
        let failed = |uid: &PodUid| !reported.contains(uid) && !unobserved.contains(uid);
        let uninspected = unobserved.len() + self.out.reader.count_failed(failed);
        let kubelet_waits = self.kubelet_waits(&stuck, instant);
        // A call that is withheld is reported as failing.
        let failures = &self.unobserved.failures;
        let is_failing =
            |lost: &SuspectCall| failures.is_failing(&(lost.call, Some(lost.id.clone())));
        let lost = self.lost_calls();
        let lost = lost.iter().filter(|lost| !is_failing(lost)).count();
        let blind = self.unseen_parts(ages);
        self.out.cache.set_blind(!blind.is_empty());
        self.reporting.coverage = Coverage {
            started: self.reporting.coverage.started,
            last_pass: self.reporting.passes.last(),
            stuck,
            failing,
            waiting_for_room: waiting_for_room.len(),
            uninspected,
            blind,
            lists,
            sandboxes: each_list.sandboxes,
            containers: each_list.containers,
            kubelet_listed: self.relister.good_for_kubelet(),
            kubelet_cannot_list: self.relister.has_failed_kubelet() || cannot_list,
            kubelet_waits,
            kubelet_lists_took: self.relister.for_kubelet_took(),
            unresponsive_since,
            statuses,
            lost,
        };
    }

    /// For each pod with a stuck call that a kubelet makes too, when the oldest such call was sent.
    /// A kubelet inspects the pods that changed, as they are listed now. Until a call is overdue,
    /// it may only be slow, and a kubelet waits for it no longer than this process does.
    fn kubelet_waits(&self, stuck: &[OutstandingCall], now: Instant) -> Vec<Instant> {
        let mut pods = BTreeMap::<&PodUid, Instant>::new();
        let overdue = |call: &&OutstandingCall| now >= call.since + self.config.status_overdue;
        for call in stuck.iter().filter(overdue) {
            let (Some(pod), Some(id)) = (&call.about.pod, &call.about.id) else {
                continue;
            };
            if self.records.is_listed(&pod.uid, id) && self.records.differs(&pod.uid) {
                let since = pods.entry(&pod.uid).or_insert(call.since);
                *since = call.since.min(*since);
            }
        }
        pods.into_values().collect()
    }

    /// The lists that do not show what is new now.
    pub(super) fn unseen_lists(&self, now: Instant) -> PerList<bool> {
        self.unusable(self.relister.unseen_lists(self.ages(now)))
    }

    /// The lists that cannot be used: those that are missing or, before a sweep is possible, both
    /// if one is missing.
    fn unusable(&self, missing: PerList<bool>) -> PerList<bool> {
        let are_both = missing.any() && !self.can_sweep();
        missing.map(|is_missing| is_missing || are_both)
    }

    /// The unseen parts of the node now.
    pub(super) fn unseen_parts_now(&self, now: Instant) -> Vec<Blind> {
        self.unseen_parts_without(self.unseen_lists(now))
    }

    /// The unseen parts of the node, now or when pods were last observed.
    fn unseen_parts(&self, ages: Ages) -> Vec<Blind> {
        let unseen = self.relister.unseen_lists(ages);
        self.unseen_parts_without(self.unusable(unseen.or(self.relister.outdated())))
    }

    /// The unseen parts of the node without these lists.
    fn unseen_parts_without(&self, missing: PerList<bool>) -> Vec<Blind> {
        let containers =
            missing.containers && (missing.sandboxes || !self.sweeper.can_see_new_containers());
        let blind = [
            (Blind::NewPods, missing.sandboxes),
            (Blind::NewContainers, containers),
        ];
        let blind = blind.into_iter().filter(|(_, is_blind)| *is_blind);
        blind.map(|(what, _)| what).collect()
    }
}

/// The pods of these calls.
fn pods_of(stuck: &[OutstandingCall], failing: &[Failing]) -> BTreeSet<PodUid> {
    let stuck = stuck.iter().map(|call| &call.about.pod);
    let failing = failing.iter().map(|failing| &failing.pod);
    let pods = stuck.chain(failing).flatten();
    pods.map(|pod| pod.uid.clone()).collect()
}
