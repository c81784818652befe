//! What lists and `Version` change when they are answered.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::call::List;
use super::passes::Basis;
use super::relister::ListRow;
use super::state::Engine;
use super::unobserved::ids_in;
use crate::model::event::Source;
use crate::model::listed::{ListedContainer, ListedSandbox};
use crate::model::snapshot::Snapshot;
use crate::model::wall_time::Moment;
use crate::observer::Measurement;
use crate::out::cache::Confirmation;
use crate::out::coverage::PassKind;
use crate::records::{Interval, Part};
use crate::runtime::{CallError, Listing, OutstandingCall, RuntimeVersion};

impl Engine {
    pub(super) fn on_list<R: ListRow + Part>(
        &mut self,
        answer: Result<Listing<R>, CallError>,
        interval: Interval,
        now: Moment,
    ) {
        match answer {
            Ok(listing) => {
                self.measure(Measurement::ListReceived {
                    call: R::LIST.rpc(),
                    bytes: listing.bytes,
                });
                self.relister.received(listing, now.instant);
            }
            Err(error) => {
                self.relister.failed(R::LIST, &error, now.instant);
            }
        }
        let failed = self
            .relister
            .failed_relist(R::LIST, interval.begun, now.instant);
        if let Some(took) = failed {
            self.measure(Measurement::RelistFailed(took));
        }
        self.take_in_lists(now);
    }

    /// Takes in the lists that have arrived. While no list is missing, a list is held until the
    /// other one has ended, if that was not sent later: then each pod that changed is inspected
    /// once.
    pub(super) fn take_in_lists(&mut self, now: Moment) {
        let waits = !self.missing(now.instant).any();
        if let Some((snapshot, begun)) = self.relister.complete(waits) {
            self.complete_relist(&snapshot, begun, now);
        }
        // Before a sweep is possible, one list is not taken in without the other, unless a list
        // fails.
        if self.can_sweep() || self.relister.failing().any() {
            self.take_in_list::<ListedSandbox>(waits, now);
            self.take_in_list::<ListedContainer>(waits, now);
        }
    }

    /// Takes in one list without the other.
    fn take_in_list<R: ListRow + Part>(&mut self, waits: bool, now: Moment) {
        if let Some((rows, interval)) = self.relister.take_new::<R>(waits) {
            self.records.observe_list(&rows, interval);
            self.sweeper.list_answered(R::LIST, interval.begun);
            self.settle(now);
        }
    }

    pub(super) fn on_version(
        &mut self,
        answer: Result<RuntimeVersion, CallError>,
        begun: Instant,
        now: Moment,
    ) {
        match answer {
            Ok(version) => {
                tracing::debug!("the runtime is {version}");
                if self.relister.version_known(version, now.instant) {
                    self.sweeper.runtime_changed();
                    self.sources.streaming.runtime_answered(now.instant);
                }
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
                self.relister.skip_version();
            }
            Err(error) => {
                if self.relister.version_failed(&error, begun, now.instant) {
                    self.measure(Measurement::RelistFailed(Duration::ZERO));
                }
            }
        }
    }

    /// Takes in a complete relist, which shows all pods as of `begun`.
    fn complete_relist(&mut self, snapshot: &Snapshot, begun: Moment, now: Moment) {
        for list in List::BOTH {
            if let Some(as_of) = self.relister.known_as_of(list) {
                self.sweeper.list_answered(list, as_of);
            }
        }
        self.records.observe(snapshot, now.instant, Source::Relist);
        self.forget_removed(begun.instant);
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
                records.is_listed(uid, id)
            });
        let suspects = self.quarantine.ids();
        if !suspects.is_empty() {
            let listed = self.records.listed().map(AsRef::as_ref);
            self.quarantine.keep(&ids_in(listed, &suspects));
        }
        // The list and the status of these pods contradict each other, and the next status decides.
        pending.extend(self.unobserved.doubts.needing_lists().cloned());
        self.out.cache.confirm(Confirmation {
            begun,
            pending,
            unseen: BTreeSet::new(),
            sees_new_pods: true,
            sees_new_containers: true,
        });
        let basis = Basis {
            begun,
            kind: PassKind::List,
            last_ticket_before,
        };
        self.begin_pass(basis, now);
        if !self.relister.are_late()
            && let Some(trust) = self.sources.streaming.trust()
        {
            trust.on_relist();
        }
    }

    /// Stops waiting for stuck calls about ids that are gone: lists that were requested at
    /// `listed`, after the call, do not show the id.
    fn forget_removed(&mut self, listed: Instant) {
        let stuck = self.stuck_status_calls();
        let stuck: Vec<OutstandingCall> = stuck.filter(|call| call.since <= listed).collect();
        for OutstandingCall { about, .. } in stuck {
            if let (Some(pod), Some(id)) = (about.pod, about.id)
                && let Some(listed) = self.records.listed_as(&pod.uid)
                && !listed.names(&id)
            {
                self.inspector.forget(&pod.uid, &(about.call, Some(id)));
            }
        }
    }

    /// Removes or inspects each pod that differs.
    fn settle(&mut self, now: Moment) {
        for uid in self.records.unsettled() {
            self.take_step(&uid, now);
        }
    }
}
