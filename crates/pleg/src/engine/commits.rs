//! The results of inspections: what the records commit is written to the cache and published.

use std::sync::Arc;

use tokio::time::Instant;

use super::doubts::{Judged, contradictions};
use super::inspector::Inspected;
use super::state::{Action, Engine};
use crate::model::event::{Event, EventType, Source};
use crate::model::id::{Id, PodUid};
use crate::model::listed::ContainerState;
use crate::model::status::{ContainerStatus, PodStatus};
use crate::model::wall_time::{Moment, WallTime};
use crate::observer::Measurement;
use crate::out::cache::{Confirmed, Inspection};
use crate::out::failure::InspectError;
use crate::out::health::Blind;
use crate::out::record::{Record, events_of};
use crate::records::diff::Subject;
use crate::records::{Commit, Interval, Step, Ticket, just_after};

impl Engine {
    /// Removes or inspects a pod, as the records require. A pod is not removed while one of its
    /// processes runs.
    pub(super) fn take_step(&mut self, uid: &PodUid, now: Moment) {
        if self.records.listed_as(uid).is_none()
            && let known = self.out.reader.get(uid).status
            && let Err(error) = self.check_missing(uid, &known, |_| false, now.instant)
        {
            self.out.cache.set_error(uid, error, now.instant);
            self.hurry(now);
            self.reporting.passes.ended(uid);
            return;
        }
        match self.records.plan(uid, now.instant) {
            Step::Nothing => {}
            Step::Removed(commit) => {
                self.out.cache.remove(uid);
                let differed = self.unobserved.differing.remove(uid);
                self.unobserved.doubts.forget(uid);
                self.unobserved.overdue_pods.remove(uid);
                self.inspector.withdraw(uid);
                self.unobserved.failures.forget(uid);
                self.reporting.passes.ended(uid);
                self.publish_commit(&commit, None, differed, now);
            }
            Step::Inspect { ticket, pod, begun } => {
                self.unobserved.differing.note(uid, begun, now.instant);
                // A pod that only a hint has named may not exist.
                self.out.cache.set_pending(uid, self.records.listed_as(uid));
                self.inspector.inspect(ticket, pod, now.instant);
            }
        }
    }

    pub(super) fn on_inspected(&mut self, inspected: Inspected, now: Moment) {
        let Inspected {
            ticket,
            begun,
            result,
        } = inspected;
        let last_good = self.out.reader.get(&ticket.uid).status;
        let result = result.and_then(|status| {
            let is_found = |id: &Id| status.contains(id);
            self.check_missing(&ticket.uid, &last_good, is_found, now.instant)?;
            Ok(status)
        });
        let is_valid = match result {
            Ok(status) => self.on_found(&ticket, begun, status, last_good, now),
            Err(error) => self.on_inspection_failed(&ticket, error, now),
        };
        // An inspection that was planned before the pass may have missed what the lists show.
        let is_inspected_again = self.records.inspecting().contains(&ticket.uid);
        if is_valid && (!is_inspected_again || self.reporting.passes.is_newer(ticket.number)) {
            self.reporting.passes.ended(&ticket.uid);
        }
    }

    /// Takes in a failed inspection. Returns whether its ticket is valid.
    fn on_inspection_failed(&mut self, ticket: &Ticket, error: InspectError, now: Moment) -> bool {
        let Some(begun) = self.records.defer(ticket) else {
            return false;
        };
        let uid = &ticket.uid;
        tracing::debug!("the inspection of {uid} failed: {error}");
        // The pod is inspected again after the next relist, so that must be soon.
        self.hurry(now);
        self.out.cache.set_error(uid, error, begun);
        true
    }

    /// Takes in what an inspection found. Returns whether its ticket is valid.
    fn on_found(
        &mut self,
        ticket: &Ticket,
        begun: Instant,
        mut status: PodStatus,
        last_good: Arc<PodStatus>,
        now: Moment,
    ) -> bool {
        let uid = &ticket.uid;
        status.keep_exit_codes_of(&last_good);
        self.records.inspected(ticket, &status, begun, now.instant);
        // The pod may have been removed, and even created again, meanwhile. Then the result is
        // about an earlier state.
        let Some(commit) = self.records.commit(ticket) else {
            self.take_step(uid, now);
            return false;
        };
        if let Some(hint) = &commit.hint {
            let took = now.instant.duration_since(hint.at);
            self.measure(Measurement::PodRelistEnded(took));
        }
        let differed = self.unobserved.differing.remove(uid);
        // Each id that the pod still has was answered after `begun`.
        self.unobserved.failures.forget_until(uid, begun);
        let listed = self.records.listed_as(uid);
        let requested = commit.after.as_deref();
        let contradictions = requested
            .map(|requested| contradictions(&status, requested, listed))
            .unwrap_or_default();
        let processes = &self.sources.processes;
        let disproved = running(&status).any(|it| processes.was_dead(&it.id, commit.begun));
        let lacks_listed = contradictions.keys().any(|id| !status.contains(id));
        let is_listed_since = |time| self.records.is_listed_since(uid, time);
        let judged = self.unobserved.doubts.inspected(
            &status,
            contradictions,
            last_good,
            is_listed_since,
            now.instant,
        );
        let confirmed = self.confirmation(uid, &commit, &judged, now);
        let inspection = Inspection {
            begun: now.back_at(commit.begun),
            confirmed,
            listed: self.listed_as_of(uid, &commit),
            differs: self.records.is_pending(uid) || self.unobserved.doubts.needs_lists(uid),
            lacks_listed,
            disproved,
        };
        let status = match (&judged, listed) {
            (Judged::Fails { error, last_good }, Some(listed)) => {
                let in_doubt = (last_good.as_ref(), listed, error.clone());
                self.out
                    .cache
                    .set_in_doubt(uid, status, in_doubt, inspection)
            }
            _ => self.out.cache.set(uid, status, inspection),
        };
        self.note_inspected(inspection.begun, now.instant);
        if let Confirmed::Blindly(time) = confirmed {
            let unseen = self.unseen_lists(now.instant);
            self.relister.note_observed_without(unseen, time.instant);
        }
        if let Some(reported) = &commit.after {
            self.out.cache.keep_reported(uid, reported);
        }
        if let Judged::Contradicts | Judged::Fails { .. } = judged {
            self.hurry(now);
        }
        self.publish_commit(&commit, Some(&status), differed, now);
        // If the pod differs again, it is inspected now and not after the next relist. It may have
        // differed since this inspection began. If lists arrived meanwhile, it may have differed
        // for as long as before, but not in the lists that are inspected now.
        self.take_step(uid, now);
        let newest = self.relister.last_good();
        let since = match newest.filter(|newest| Some(*newest) > commit.listed) {
            None => begun,
            Some(newest) => {
                let inspected = commit.listed.map(just_after);
                let differed = differed.max(inspected).unwrap_or(newest);
                begun.min(newest).min(differed)
            }
        };
        self.unobserved.differing.note_earlier(uid, since);
        true
    }

    /// Fails if a container of the `last` status still runs although it is neither found nor
    /// listed. Then the runtime could not read its own records, and its answer that the container
    /// or the pod is gone is not believed.
    fn check_missing(
        &mut self,
        uid: &PodUid,
        last: &PodStatus,
        is_found: impl Fn(&Id) -> bool,
        now: Instant,
    ) -> Result<(), InspectError> {
        let mut first = Ok(());
        for id in last.containers.iter().map(|container| &container.id) {
            if !is_found(id)
                && !self.records.is_listed(uid, id)
                && self.sources.processes.unlist(id, now)
            {
                first = first.and_then(|()| Err(InspectError::Unlisted { id: id.clone() }));
            }
        }
        first
    }

    /// The time as of which an inspection confirms a pod. Only lists, or the statuses of all
    /// sandboxes, show which containers exist and which of two contradicting answers is right. The
    /// stream is not enough, because it may stop announcing changes at any time.
    fn confirmation(
        &self,
        uid: &PodUid,
        commit: &Commit,
        judged: &Judged,
        now: Moment,
    ) -> Confirmed {
        if self
            .unseen_parts_now(now.instant)
            .contains(&Blind::NewContainers)
        {
            return Confirmed::Blindly(now.back_at(commit.begun));
        }
        let listed = match judged {
            Judged::Agrees => self.listed_as_of(uid, commit),
            _ => None,
        };
        match listed {
            None => Confirmed::No,
            Some(listed) => Confirmed::Seen(now.back_at(commit.begun.min(listed))),
        }
    }

    /// When the newest lists that show the pod as the inspection found it were requested. They are
    /// those that caused the inspection, or later ones.
    fn listed_as_of(&self, uid: &PodUid, commit: &Commit) -> Option<Instant> {
        let differs = self.records.is_pending(uid) || self.records.gone_and_listed().contains(uid);
        let newest = self.relister.last_good().filter(|_| !differs);
        newest
            .map(|newest| newest.min(commit.begun))
            .max(commit.listed)
    }

    /// Commits the exit of a single container at once, while other calls about its pod may be
    /// outstanding.
    pub(super) fn commit_exit(
        &mut self,
        uid: &PodUid,
        status: ContainerStatus,
        interval: Interval,
        now: Moment,
    ) {
        let known = self.out.reader.get(uid);
        if known.status.container(&status.id).is_none() {
            return;
        }
        let Some(commit) = self.records.commit_exit(uid, &status.id, interval) else {
            return;
        };
        self.inspector.note_exit(uid, &status);
        if let Some(status) = self.out.cache.set_container(uid, status) {
            if let Some(reported) = &commit.after {
                self.out.cache.keep_reported(uid, reported);
            }
            self.unobserved.doubts.exited(&status, now.instant);
            self.publish_commit(&commit, Some(&status), None, now);
        }
    }

    /// Commits exits that slow inspections have found, before the inspections end.
    pub(super) fn commit_exits_of_slow(&mut self, now: Moment) {
        for (uid, begun, status) in self.inspector.exits_of_slow(now.instant) {
            let interval = Interval {
                begun,
                ended: now.instant,
                source: Source::Relist,
            };
            self.commit_exit(&uid, status, interval, now);
        }
    }

    /// Inspects the pods again whose status is in doubt, once their pause has ended.
    pub(super) fn retry_doubtful(&mut self, now: Moment) {
        for uid in self.unobserved.doubts.due(now.instant) {
            self.records.retry(&uid);
            self.take_step(&uid, now);
        }
    }

    /// Publishes the changes of a commit, and watches the processes of the running containers.
    /// `differed` is the time as of which the pod was known to differ.
    fn publish_commit(
        &mut self,
        commit: &Commit,
        status: Option<&PodStatus>,
        differed: Option<Instant>,
        now: Moment,
    ) {
        let changed = commit.begun.min(differed.unwrap_or(commit.begun));
        let is_first_pass = self.reporting.passes.completed() == 0;
        for event in events_of(commit, status, now.wall, is_first_pass) {
            self.expect_hint(&event, commit.since, changed, now.instant);
            let announced = commit.hint.as_ref().and_then(|hint| hint.announced);
            self.measure(measured(&event, announced, status));
            self.publish(Record::Event(event));
        }
        self.watch_processes(commit, status, now.instant);
    }

    /// Expects a reliable stream to announce this change. The pod was last inspected as of
    /// `inspected`, and its change happened before `changed`.
    fn expect_hint(
        &mut self,
        event: &Event,
        inspected: Option<Instant>,
        changed: Instant,
        now: Instant,
    ) {
        let listed = self.relister.good_before(changed);
        if let (Some(trust), Some(id), Some(listed)) =
            (self.sources.streaming.trust(), &event.id, listed)
        {
            trust.on_change(id, inspected, listed, now);
        }
    }

    /// Watches the running containers of an inspected pod, and stops watching the changed ones.
    fn watch_processes(&mut self, commit: &Commit, status: Option<&PodStatus>, now: Instant) {
        for change in &commit.changes {
            if self.sources.processes.forget(&change.id) {
                self.act(Action::Unwatch(change.id.clone()));
            }
        }
        let Some(status) = status else {
            return;
        };
        for container in running(status) {
            self.sources
                .processes
                .watch(&container.id, &container.name, &status.pod(), now);
        }
    }
}

fn running(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let containers = status.containers.iter();
    containers.filter(|container| container.state == ContainerState::Running)
}

/// The event as a measurement, with the time since it happened.
fn measured(event: &Event, announced: Option<WallTime>, status: Option<&PodStatus>) -> Measurement {
    let container = || status?.container(event.id.as_ref()?);
    let happened = match (event.subject, event.event_type) {
        _ if event.initial => None,
        _ if event.source == Source::Stream => announced,
        (Some(Subject::Container), EventType::ContainerStarted) => {
            container().and_then(|container| container.started_at)
        }
        (Some(Subject::Container), EventType::ContainerDied) => {
            container().and_then(|container| container.finished_at)
        }
        _ => None,
    };
    Measurement::Event {
        event_type: event.event_type,
        source: event.source,
        latency: happened.map(|happened| event.time.since(happened)),
    }
}
