//! When passes begin and end, and what is reported when coverage changes.

use tokio::time::Instant;

use super::call::List;
use super::limits::SUSPECT_AFTER;
use super::passes::{Awaited, Basis, Completed};
use super::reporter::ObservationProgress;
use super::state::Engine;
use crate::model::snapshot::Counts;
use crate::model::wall_time::Moment;
use crate::observer::Measurement;
use crate::out::coverage::Lists;
use crate::out::health::Blind;
use crate::out::record::Record;

impl Engine {
    /// Begins a pass. Its lists or its sweep have been taken in, and the pods that differ are being
    /// inspected.
    pub(super) fn begin_pass(&mut self, basis: Basis, now: Moment) {
        // A pod that is being inspected because of a later hint may have differed before.
        for uid in self.records.pending() {
            if self.records.differs(&uid) {
                let differing = &mut self.unobserved.differing;
                differing.note_earlier(&uid, basis.begun.instant);
            }
        }
        // The pass does not wait for pods that are reported already.
        let mut reported = self.pods_with_reported_call();
        reported.extend(self.inspector.waiting_for_room().cloned());
        reported.extend(self.unobserved.overdue_pods.keys().cloned());
        let inspecting = self.records.inspecting();
        let pods = Awaited {
            waiting: inspecting - &reported,
            given_up: inspecting & &reported,
        };
        self.reporting.passes.begin(basis, now.instant, pods);
    }

    pub(super) fn complete_pass(&mut self, now: Moment) {
        if !self.reporting.passes.is_over() {
            return;
        }
        let observed = self.observed_as_of(now);
        let Some(completed) = self.reporting.passes.complete(now.instant, observed) else {
            tracing::debug!("the pass observed no pod");
            return self.hurry(now);
        };
        let Completed {
            pass,
            is_first,
            given_up,
        } = completed;
        for uid in &given_up {
            let differing = &mut self.unobserved.differing;
            differing.note_earlier(uid, pass.begun.instant);
        }
        let counts = Counts::of(self.records.listed().map(AsRef::as_ref));
        self.measure(Measurement::Seen(pass, counts));
        if is_first {
            self.publish(self.synced(now));
        }
    }

    /// Requests lists now if pods were last observed without them: the next relist may be far away.
    fn request_needed_lists(&mut self, now: Instant) {
        let Some(time) = self.needs_lists_since() else {
            return;
        };
        if self.relister.state_of_lists(self.ages(now)) == Lists::Good {
            for list in List::BOTH {
                if self.relister.known_as_of(list) < Some(time) {
                    self.relister.request_list(list, time);
                }
            }
        }
    }

    /// When pods were last observed without lists, if no pass by later lists has completed since.
    fn needs_lists_since(&self) -> Option<Instant> {
        let outdated = self.relister.outdated_since();
        self.reporting.passes.swept_since_lists().max(outdated)
    }

    /// Ends the pass if it is over, updates coverage and reports health if it has changed. Then it
    /// begins the next pass. Health is reviewed before and after that, because on a node that
    /// changes all the time one pass follows the other.
    pub(super) fn review(&mut self, now: Moment) {
        self.review_once(now);
        if let Some(next) = self.reporting.passes.take_next() {
            self.begin_pass(next, now);
            self.review_once(now);
        }
    }

    fn review_once(&mut self, now: Moment) {
        self.complete_pass(now);
        let as_of = self.reporting.passes.last().map(|pass| pass.begun.instant);
        if !self.reporting.settling.is_over(as_of, now.instant) {
            return;
        }
        self.give_up_pods(now);
        self.complete_pass(now);
        self.request_needed_lists(now.instant);
        self.update_coverage(now);
        let mut overdue_pods = self.unobserved.overdue_pods.keys();
        let is_settling = self.reporting.passes.is_open()
            || self.relister.is_catching_up()
            || self.reporting.coverage.uninspected > 0
            || overdue_pods.any(|uid| self.unobserved.differing.since(uid).is_some());
        let progress = ObservationProgress {
            is_settled: !is_settling,
            has_unobserved: self.unobserved_by_last_pass().next().is_some(),
            needs_pass: self.reporting.passes.needs_pass() || self.relister.outdated().any(),
            needs_lists: self.needs_lists_since().is_some(),
            answered: self.ledger.last_answered_call(),
            has_stalled: self
                .ledger
                .unresponsive_since()
                .is_some_and(|since| now.instant >= since + SUSPECT_AFTER),
        };
        let report = self
            .reporting
            .reporter
            .review(&self.reporting.coverage, progress, now);
        if let Some(report) = report {
            self.publish(Record::Health(report));
        }
    }

    /// Records that a pod was inspected successfully as of `begun`.
    pub(super) fn note_inspected(&mut self, begun: Moment, now: Instant) {
        let pods_known = match self.unseen_parts_now(now).contains(&Blind::NewPods) {
            true => Some(begun.instant),
            false => self.relister.known_as_of(List::Sandboxes),
        };
        if let Some(known) = pods_known {
            let as_of = begun.back_at(known.min(begun.instant));
            let last = self.reporting.last_inspected.take();
            let newer = last.filter(|last| last.instant > as_of.instant);
            self.reporting.last_inspected = Some(newer.unwrap_or(as_of));
        }
    }

    pub(super) fn synced(&self, now: Moment) -> Record {
        let committed = self.records.committed();
        let (pods, containers) = committed.fold((0, 0), |(pods, containers), pod| {
            (pods + 1, containers + pod.containers.len())
        });
        Record::Synced {
            time: now.wall,
            pods,
            containers,
        }
    }
}
