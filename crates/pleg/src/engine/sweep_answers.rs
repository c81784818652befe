//! What the answers of a sweep change.

use tokio::time::Instant;

use super::call::Request;
use super::limits::OVERDUE_AT_LATEST;
use super::lists::PerList;
use super::passes::Basis;
use super::state::Engine;
use super::sweeper::Outcome;
use crate::model::id::{HostId, PodUid};
use crate::model::listed::ListedContainer;
use crate::model::status::{SandboxStatus, Status};
use crate::model::wall_time::Moment;
use crate::out::cache::Confirmation;
use crate::out::coverage::PassKind;
use crate::records::{Interval, Part};
use crate::runtime::CallError;

impl Engine {
    /// The host's ids were read: begins a sweep if there are ids to request.
    pub(super) fn begin_sweep(&mut self, ids: Option<Vec<HostId>>, now: Moment) {
        self.sweeper.on_host_ids(ids);
        self.unobserved
            .failures
            .keep_ids(|id| self.sweeper.has_host_id(id));
        let missing = self.missing(now.instant);
        if !missing.any() || !self.can_sweep() {
            return;
        }
        let is_stuck = self.relister.stuck(self.ages(now.instant)).any();
        let slow = self.relister.slow().any() && !is_stuck;
        let listed = self.records.listed().map(AsRef::as_ref);
        self.sweeper.begin(missing, listed, slow, &self.ledger, now);
        // Without the other list, the sweep does not show what is new.
        if let Some(list) = missing.of_the_other().single() {
            self.relister.request_list(list, now.instant);
        }
    }

    /// Whether there are ids to request in place of a list. Before the first lists only the host
    /// knows any.
    pub(super) fn can_sweep(&self) -> bool {
        self.relister.last_good().is_some() || self.sweeper.has_host_ids()
    }

    /// Whether an outstanding list will decide about this pod, whose status contradicts the last
    /// list. A list older than [`OVERDUE_AT_LATEST`] does not count.
    fn list_will_decide(&self, uid: Option<&PodUid>, now: Instant) -> bool {
        let oldest = self.ages(now).oldest_list();
        uid.is_some_and(|uid| self.unobserved.doubts.needs_lists(uid))
            && oldest.is_some_and(|age| age < OVERDUE_AT_LATEST)
    }

    /// Takes in the answer about one id of a sweep.
    pub(super) fn on_swept<S>(
        &mut self,
        uid: Option<PodUid>,
        request: &Request,
        answer: Result<S, CallError>,
        interval: Interval,
        now: Moment,
    ) where
        S: Status<Listed: Part>,
    {
        let known = observed_status(answer);
        let key = request.key();
        // The pod may have become known since the call was planned.
        let listed_uid = || Some(self.records.pod_of(key.1.as_ref()?)?.uid);
        let uid = uid.or_else(listed_uid);
        // One `NotFound` may be a mistake: an id counts as removed only after the second one.
        let is_listed =
            matches!((&uid, &key.1), (Some(uid), Some(id)) if self.records.is_listed(uid, id));
        let is_unconfirmed_removal = is_listed
            && matches!(known, Some(None))
            && (self.list_will_decide(uid.as_ref(), now.instant)
                || self.sweeper.note_not_found(request, now.instant));
        let outcome = match known {
            None => Outcome::Failed,
            Some(_) if is_unconfirmed_removal => Outcome::FirstNotFound,
            Some(_) => Outcome::Known,
        };
        self.sweeper
            .answered(&key, uid.as_ref(), outcome, now.instant);
        if let Some(uid) = uid.as_ref().filter(|_| is_unconfirmed_removal) {
            self.unobserved
                .differing
                .note(uid, interval.begun, now.instant);
            return;
        }
        let (Some(known), (_, Some(id))) = (known, key.clone()) else {
            return;
        };
        if known.is_some()
            && self.sweeper.note_found(&key)
            && let Some(uid) = uid.as_ref().filter(|uid| !self.records.is_pending(uid))
        {
            self.unobserved.differing.remove(uid);
        }
        let uid = match (uid, known) {
            (Some(uid), status) => {
                let state = status.map(|status| status.state());
                let records = &mut self.records;
                records.observe_one::<S::Listed>(&uid, &id, state, interval);
                uid
            }
            (None, Some(status)) => {
                let Some(pod) = status.pod().cloned() else {
                    return;
                };
                self.records.learn(&pod, status.into(), interval);
                pod.uid
            }
            (None, None) => return,
        };
        self.take_step(&uid, now);
    }

    /// Takes in the containers that a sandbox's status contains.
    pub(super) fn learn_containers(&mut self, sandbox: &SandboxStatus, interval: Interval) {
        let Some(pod) = &sandbox.pod else { return };
        let has_some = self.records.has_container_in(&pod.uid, &sandbox.id);
        self.sweeper
            .sandbox_status_received(!sandbox.containers.is_empty(), has_some);
        for container in &sandbox.containers {
            let row = ListedContainer {
                sandbox_id: sandbox.id.clone(),
                ..container.clone().into()
            };
            self.records.learn(pod, row, interval);
        }
    }

    /// Ends a complete sweep. If it observed a pod, a pass begins.
    pub(super) fn end_sweep(&mut self, now: Moment) {
        let Some(swept) = self.sweeper.complete(&self.ledger) else {
            return;
        };
        // Perhaps all answers were about ids that belong to no listed pod.
        let listed = || self.records.listed().map(|pod| &pod.pod.uid);
        let is_observed =
            |uid: &PodUid| !swept.unobserved.contains(uid) || swept.partly_observed.contains(uid);
        let has_observed_pod = listed().next().is_none() || listed().any(is_observed);
        // The sweep counts only if what it cannot observe is reported as unseen. A list that is
        // only suspect, or slow each time, is not reported as unseen: that list will show what is
        // new, and a pass follows it.
        let unseen = self.unseen_lists(now.instant);
        let is_complete = (swept.sandboxes_listed || unseen.sandboxes)
            && (swept.sees_new_containers || unseen.containers);
        if !is_complete {
            return;
        }
        let without = PerList {
            sandboxes: !swept.sandboxes_listed,
            containers: !swept.sees_new_containers,
        };
        self.relister
            .note_observed_without(without, swept.begun.instant);
        let mut unobserved = self.unobserved_unless_stuck(now.instant);
        unobserved.extend(swept.unobserved);
        unobserved.extend(self.stuck_pods());
        let mut pending = self.pending();
        pending.extend(unobserved.iter().cloned());
        self.out.cache.confirm(Confirmation {
            begun: swept.begun,
            pending,
            unseen: unobserved,
            sees_new_pods: swept.sandboxes_listed,
            sees_new_containers: swept.sees_new_containers,
        });
        if has_observed_pod {
            let basis = Basis {
                begun: swept.begun,
                kind: PassKind::Sweep,
                last_ticket_before: self.records.newest_ticket(),
            };
            self.begin_pass(basis, now);
            self.complete_pass(now);
        }
    }
}

/// What an answer shows: the status, or that the id was not found. Another error shows nothing.
fn observed_status<T>(answer: Result<T, CallError>) -> Option<Option<T>> {
    match answer {
        Ok(status) => Some(Some(status)),
        Err(CallError::NotFound(_)) => Some(None),
        Err(_) => None,
    }
}
