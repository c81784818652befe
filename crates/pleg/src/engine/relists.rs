//! What the answers of a relist change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::call::Purpose;
use super::relister::{ListRow, Relisted};
use super::state::Engine;
use crate::model::event::Source;
use crate::model::id::{Id, PodUid};
use crate::model::listed::{ContainerState, ListedContainer, ListedSandbox};
use crate::model::wall_time::Moment;
use crate::out::cache::Confirmation;
use crate::out::coverage::PassKind;
use crate::records::{Interval, Part};
use crate::runtime::{CallError, Listing, OutstandingCall, RuntimeVersion};

impl Engine {
    pub(super) fn on_list<R: ListRow + Part>(
        &mut self,
        purpose: &Purpose,
        answer: Result<Listing<R>, CallError>,
        interval: Interval,
        now: Moment,
    ) {
        match (purpose, answer) {
            (Purpose::SweepList, Ok(listing)) => {
                let took = now.instant.duration_since(interval.begun);
                self.relister.sweep_list_received(R::LIST, took);
                self.take_in_single_list(&listing.rows, interval, now);
            }
            (Purpose::SweepList, Err(error)) => {
                self.sweeper.list_failed(R::LIST);
                if self.relister.sweep_list_failed(R::LIST, &error) {
                    // The next relist will show whether it still fails, so it must be soon.
                    self.distrust_stream(now);
                    self.hurry(now);
                }
            }
            (_, answer) => {
                match &answer {
                    Ok(listing) => {
                        self.out
                            .observer
                            .list_received(R::LIST.rpc(), listing.bytes);
                        if self.sweeper.needs_list(R::LIST) || self.relister.is_failing() {
                            self.take_in_single_list(&listing.rows, interval, now);
                        }
                    }
                    Err(_) => self.take_in_waiting_lists(now),
                }
                let relisted = self.relister.on_list(answer, now.instant);
                self.on_relisted(relisted, now);
            }
        }
    }

    /// Takes in one list without the other, beside a sweep.
    fn take_in_single_list<R: ListRow + Part>(
        &mut self,
        rows: &[Arc<R>],
        interval: Interval,
        now: Moment,
    ) {
        self.records.observe_list(rows, interval);
        self.relister.list_taken_in(R::LIST, interval.begun);
        self.sweeper.list_answered(R::LIST, interval.begun);
        self.settle(now);
    }

    /// Takes in a list of the open relist without waiting for the other one, which is overdue or
    /// has failed.
    pub(super) fn take_in_waiting_lists(&mut self, now: Moment) {
        self.take_in_waiting::<ListedSandbox>(now);
        self.take_in_waiting::<ListedContainer>(now);
    }

    fn take_in_waiting<R: ListRow + Part>(&mut self, now: Moment) {
        if let Some((rows, interval)) = self.relister.waiting::<R>() {
            self.take_in_single_list(&rows, interval, now);
        }
    }

    pub(super) fn note_version(&mut self, version: RuntimeVersion) {
        tracing::debug!("the runtime is {version}");
        self.relister.set_runtime(version);
        self.sweeper.runtime_changed();
    }

    pub(super) fn on_version(&mut self, answer: Result<RuntimeVersion, CallError>, now: Moment) {
        match answer {
            Ok(version) => {
                self.note_version(version);
                self.sources.streaming.runtime_answered(now.instant);
                self.relister.version_known(now.instant);
            }
            Err(
                error @ (CallError::Refused(_)
                | CallError::Malformed(_)
                | CallError::TooLarge(_)
                | CallError::NotFound(_)),
            ) => {
                tracing::debug!(
                    "Version failed, so lists are requested without its answer: {error}"
                );
                self.relister.skip_version(now.instant);
            }
            Err(error) => {
                let relisted = self.relister.version_failed(error, now.instant);
                self.on_relisted(relisted, now);
            }
        }
    }

    fn on_relisted(&mut self, relisted: Option<Relisted>, now: Moment) {
        let listed = match relisted {
            None => return,
            Some(Relisted::Failed(took)) => {
                self.out.observer.relist_failed(took);
                return;
            }
            Some(Relisted::Good(listed)) => listed,
        };
        let begun = listed.begun;
        self.sweeper.forget_before(begun.instant);
        self.records
            .observe(&listed.snapshot, now.instant, Source::Relist);
        for id in self.dead_and_listed_running() {
            self.sources
                .processes
                .on_reported_running(&id, begun.instant);
        }
        self.forget_removed();
        // A pod whose call failed in a sweep is inspected again, although the lists show it
        // unchanged.
        for failing in self.unobserved.failures.iter() {
            if let Some(pod) = &failing.pod {
                self.records.retry(&pod.uid);
            }
        }
        let last_ticket_before = self.records.newest_ticket();
        self.settle(now);
        let mut pending = self.pending();
        self.unobserved.differing.keep(&pending, begun.instant);
        let records = &self.records;
        self.unobserved
            .failures
            .keep(&pending, begun.instant, |uid, id| {
                let listed = records.listed_as(uid);
                listed.is_some_and(|pod| pod.names(id))
            });
        self.review_suspects(&pending);
        // The list and the status of these pods contradict each other, and the next status decides.
        pending.extend(self.unobserved.doubts.needing_lists().cloned());
        self.out.cache.confirm(Confirmation {
            begun,
            pending,
            unseen: BTreeSet::new(),
            sees_new_pods: true,
            sees_new_containers: true,
        });
        self.begin_pass(begun, PassKind::List, last_ticket_before, now);
        if !listed.are_late
            && let Some(proof) = self.sources.streaming.proof()
        {
            proof.on_relist();
        }
        let period = self.period();
        self.relister.taken_in(&listed, period, now.instant);
    }

    /// The containers that are listed as running although their process has ended.
    fn dead_and_listed_running(&self) -> Vec<Id> {
        let dead = self.sources.processes.dead().filter(|(id, pod)| {
            let listed = self.records.listed_as(&pod.uid);
            let mut rows = listed.into_iter().flat_map(|listed| &listed.containers);
            rows.any(|row| row.id == **id && row.state == ContainerState::Running)
        });
        dead.map(|(id, _)| id.clone()).collect()
    }

    /// A call may be stuck although its id is gone. Then the inspection of the pod does not wait
    /// for it.
    fn forget_removed(&mut self) {
        let stuck: Vec<OutstandingCall> = self.stuck_status_calls().collect();
        for OutstandingCall { about, .. } in stuck {
            if let (Some(pod), Some(id)) = (about.pod, about.id)
                && let Some(listed) = self.records.listed_as(&pod.uid)
                && !listed.names(&id)
            {
                self.inspector.forget(&pod.uid, &(about.call, Some(id)));
            }
        }
    }

    /// Updates which suspect calls are needed: only those about pods that differ.
    fn review_suspects(&mut self, pending: &BTreeSet<PodUid>) {
        let suspects = self.quarantine.ids();
        if suspects.is_empty() {
            return;
        }
        let mut listed = BTreeMap::new();
        for pod in self.records.listed() {
            for id in pod.ids().filter(|id| suspects.contains(*id)) {
                let is_wanted = listed.entry(id.clone()).or_insert(false);
                *is_wanted |= pending.contains(&pod.pod.uid);
            }
        }
        self.quarantine.listed(&listed);
    }

    /// The pods whose current state the cache does not hold.
    pub(super) fn pending(&self) -> BTreeSet<PodUid> {
        let mut pending = self.records.pending();
        pending.extend(self.records.gone_and_listed().iter().cloned());
        let contradicted = self.sources.processes.dead();
        pending.extend(contradicted.map(|(_, pod)| pod.uid.clone()));
        pending
    }

    /// Removes or inspects each pod that differs.
    fn settle(&mut self, now: Moment) {
        for uid in self.records.unsettled() {
            self.take_step(&uid, now);
        }
    }
}
