//! Where each answer is taken in.

use tokio::time::Instant;

use super::call::{Answer, Answered, Call, Purpose, Request};
use super::limits::OVERDUE_AT_LATEST;
use super::state::Engine;
use super::sweeper::Outcome;
use crate::model::event::Source;
use crate::model::id::{Id, PodRef};
use crate::model::listed::{ContainerState, Row};
use crate::model::status::{ContainerStatus, Status};
use crate::model::wall_time::Moment;
use crate::observer::Measurement;
use crate::records::diff::State;
use crate::records::{Hint, Interval, Part};
use crate::runtime::{About, CallError, NoConnection, OutstandingCall, Rpc};

impl Engine {
    pub(super) fn on_answered(&mut self, answered: Answered, now: Moment) {
        let Answered {
            call,
            begun,
            answer,
        } = answered;
        let key = call.request.key();
        let was_stuck = self.ledger.is_stuck(&key);
        let about = match answer.error() {
            Some(CallError::Unavailable(why)) => {
                match why.cause {
                    NoConnection::Lost => self.quarantine.lost(&call.request, begun, now.instant),
                    _ => self.quarantine.not_sent(&call.request),
                }
                // The next answer may be from another runtime, or from one with another
                // configuration.
                self.sweeper.runtime_changed();
                self.reporting.passes.abandon();
                let soon = now.instant + self.config.relist_period;
                self.relister.hurry_anyway(soon);
                self.ledger.lost(&key)
            }
            error => {
                self.quarantine.answered(&call.request, begun);
                match error {
                    Some(_) => self.ledger.failed(&key, now.instant),
                    None => self.ledger.answered(&key, now.instant),
                }
            }
        };
        let answer = match about.as_ref().and_then(|about| about.pod.as_ref()) {
            Some(requested) => self.checked_against_pod(requested, answer),
            None => answer,
        };
        let took = now.instant.duration_since(begun);
        self.measure(Measurement::CallEnded {
            call: key.0,
            took,
            error: answer.error().cloned(),
        });
        // A stuck call that ends shows how long the fault lasted, not what such a call costs.
        if !was_stuck || took < OVERDUE_AT_LATEST {
            self.record_cost(key.0, begun, &answer, now.instant);
        }
        self.take_in(call, about, begun, answer, now);
    }

    fn record_cost(&mut self, call: Rpc, begun: Instant, answer: &Answer, now: Instant) {
        match answer {
            Answer::Sandboxes(Ok(list)) => self.reporting.costs.list_received(call, list.bytes),
            Answer::Containers(Ok(list)) => self.reporting.costs.list_received(call, list.bytes),
            _ => {}
        }
        let is_earlier = |other: OutstandingCall| other.since <= begun;
        let has_waited_for_another = self.ledger.outstanding().any(is_earlier);
        self.reporting
            .costs
            .add(call, begun, answer.error(), has_waited_for_another, now);
    }

    /// Fails a call with [`CallError::Withheld`] instead of sending it.
    pub(super) fn withhold(&mut self, call: Call, about: About, now: Moment) {
        let answer = call.request.failed_with(CallError::Withheld);
        self.take_in(call, Some(about), now.instant, answer, now);
    }

    fn take_in(
        &mut self,
        call: Call,
        about: Option<About>,
        begun: Instant,
        answer: Answer,
        now: Moment,
    ) {
        let key = call.request.key();
        let error = answer.error();
        if let Some(about) = about.filter(|_| call.purpose.is_observation()) {
            if !matches!(call.purpose, Purpose::Sweep(_)) {
                let uid = about.pod.as_ref().map(|pod| &pod.uid);
                let outcome = match error {
                    None => Outcome::Known,
                    // The sandbox's status would have shown its containers to the sweep.
                    Some(CallError::NotFound(_)) => Outcome::FirstNotFound,
                    Some(_) => Outcome::Failed,
                };
                self.sweeper.answered(&key, uid, outcome, now.instant);
            }
            self.note_outcome(key, about, error, now.instant);
        }
        let interval = Interval {
            begun,
            ended: now.instant,
            source: Source::Sweep,
        };
        if let Answer::Sandbox(Ok(status)) = &answer
            && matches!(call.purpose, Purpose::Sweep(Some(_)) | Purpose::Inspect(..))
        {
            self.learn_containers(status, interval);
        }
        match (answer, call.request) {
            // The answer itself is not used: its arrival is the evidence.
            _ if call.purpose == Purpose::Witness => {}
            (Answer::Version(answer), _) => self.on_version(answer, begun, now),
            (Answer::Sandboxes(answer), _) => self.on_list(answer, interval, now),
            (Answer::Containers(answer), _) => self.on_list(answer, interval, now),
            (Answer::Pid(answer), Request::Pid(id)) => self.on_pid(id, answer, now),
            (Answer::Container(answer), Request::Container(id))
                if call.purpose == Purpose::Death =>
            {
                let source = Source::Kernel;
                let interval = Interval { source, ..interval };
                self.on_death_status(&id, answer, interval, now);
            }
            (Answer::Sandbox(answer), request) => {
                self.on_status(call.purpose, &request, answer, interval, now);
            }
            (Answer::Container(answer), request) => {
                self.on_status(call.purpose, &request, answer, interval, now);
            }
            (Answer::Pid(_), _) => {}
        }
    }

    fn on_status<S>(
        &mut self,
        purpose: Purpose,
        request: &Request,
        answer: Result<S, CallError>,
        interval: Interval,
        now: Moment,
    ) where
        S: Status<Listed: Part + Row<State: Into<State>>>,
    {
        match purpose {
            Purpose::Sweep(uid) => self.on_swept(uid, request, answer, interval, now),
            Purpose::Inspect(ticket) => {
                if let Some(ended) = self.inspector.on_status(&ticket, request, answer) {
                    self.on_inspected(ended, now);
                }
            }
            Purpose::Birth => self.on_followed(request, answer, now),
            // These calls do not request a status, or their statuses are taken in elsewhere.
            Purpose::Usual | Purpose::Death | Purpose::Witness => {}
        }
    }

    /// The answer, checked against the pod that the call was sent for.
    fn checked_against_pod(&self, requested: &PodRef, answer: Answer) -> Answer {
        match answer {
            Answer::Sandbox(Ok(status)) => {
                Answer::Sandbox(self.unless_of_another_pod(requested, status))
            }
            Answer::Container(Ok(mut status)) => {
                // If the id is listed in two pods, its status holds for both.
                let has_listed_it = |pod: &PodRef| self.records.is_listed(&pod.uid, &status.id);
                if has_listed_it(requested) && status.pod.as_deref().is_some_and(has_listed_it) {
                    status.pod = Some(requested.clone().into());
                }
                Answer::Container(self.unless_of_another_pod(requested, status))
            }
            other => other,
        }
    }

    /// The status, or an error if its id is listed in the `requested` pod but its labels name another
    /// pod. Then it is unknown which pod the id belongs to.
    fn unless_of_another_pod<S: Status>(
        &self,
        requested: &PodRef,
        status: S,
    ) -> Result<S, CallError> {
        let other = status
            .pod()
            .filter(|labelled| labelled.uid != requested.uid);
        let Some(labelled) = other.filter(|_| self.records.is_listed(&requested.uid, status.id()))
        else {
            return Ok(status);
        };
        let text = format!(
            "{} is listed in pod {requested}, and its status bears the labels of pod {labelled}",
            status.id()
        );
        Err(CallError::Malformed(text.into()))
    }

    fn on_death_status(
        &mut self,
        id: &Id,
        answer: Result<ContainerStatus, CallError>,
        interval: Interval,
        now: Moment,
    ) {
        let runs = match &answer {
            Ok(status) => Some(status.state == ContainerState::Running),
            // The container is still listed. A missing status does not prove its exit or its
            // removal: lists and events do.
            Err(CallError::NotFound(_)) => Some(true),
            Err(_) => None,
        };
        let Some(pod) = self
            .sources
            .processes
            .on_death_status(id, runs, now.instant)
        else {
            return;
        };
        if let Ok(status) = answer
            && status.state == ContainerState::Exited
        {
            self.commit_exit(&pod.uid, status, interval, now);
        }
        self.hint(&pod, Hint::of_kernel(now.instant), now);
    }
}
