//! Carrying out what the records plan, and committing or deferring what comes of it.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Generic, Message};
use crate::diff::Subject;
use crate::event::{Event, EventType, Source};
use crate::id::PodUid;
use crate::inspect::{InspectError, inspect};
use crate::listed::ListedPod;
use crate::records::{Commit, Step, Ticket};
use crate::runtime::Runtime;
use crate::status::PodStatus;
use crate::told::{Record, events_of};
use crate::wall_time::WallTime;

impl<R: Runtime> Generic<R> {
    /// Does what the records want done about a pod.
    pub(super) fn take_step(&mut self, uid: &PodUid) {
        match self.records.plan(uid, Instant::now()) {
            Step::Nothing => {}
            Step::Removed(commit) => {
                self.cache.remove(uid);
                self.end_of_inspection(uid);
                self.tell(&commit, None);
            }
            Step::Inspect { ticket, pod } => {
                self.cache.set_pending(&pod.pod);
                self.begin_inspection(ticket, pod);
            }
        }
    }

    fn begin_inspection(&mut self, ticket: Ticket, pod: Arc<ListedPod>) {
        let (runtime, calls) = (self.runtime.clone(), self.calls.clone());
        let (lanes, reports) = (self.lanes.clone(), self.reports.clone());
        self.tasks.spawn(async move {
            let (begun, status) = lanes
                .run(async { (Instant::now(), inspect(&*runtime, &calls, &pod).await) })
                .await;
            // Nobody listens any more when the generator stops.
            let _ = reports.send(Message::Inspected(ticket, begun, status));
        });
    }

    pub(super) fn on_inspected(
        &mut self,
        ticket: &Ticket,
        begun: Instant,
        result: Result<PodStatus, InspectError>,
    ) {
        let uid = &ticket.uid;
        match result {
            Ok(status) => {
                self.records.looked(ticket, &status, begun, Instant::now());
                // The pod may be gone, and even back, since: then this tells nothing.
                let Some(commit) = self.records.commit(ticket) else {
                    self.take_step(uid);
                    return;
                };
                if let Some(hint) = &commit.hint {
                    let took = hint.at.elapsed();
                    self.environment.observer.pod_relist_ended(took);
                }
                let status = self.cache.set(uid, status, commit.begun);
                self.tell(&commit, Some(&status));
                // What differed again meanwhile is due now, not at the next relist.
                self.take_step(uid);
            }
            Err(error) => {
                let Some(begun) = self.records.defer(ticket) else {
                    return;
                };
                tracing::debug!("{uid} could not be inspected: {error}");
                // It is tried again at the next relist, which must not be far.
                self.doubt_stream();
                self.cache.set_error(uid, error, begun);
            }
        }
        // The first round tells all that is there: a pod of which a hint told a part is
        // waited for once more.
        let goes_on = self.records.inspecting().contains(uid);
        if !(goes_on && self.seen.rounds == 0) {
            self.end_of_inspection(uid);
        }
    }

    /// The round no longer waits for this pod.
    pub(super) fn end_of_inspection(&mut self, uid: &PodUid) {
        if let Some(round) = &mut self.round {
            round.ended(uid);
        }
        self.complete_round();
    }

    pub(super) fn complete_round(&mut self) {
        let Some(round) = self.round.take_if(|round| round.is_complete()) else {
            return;
        };
        self.lists.caught_up();
        let took = self.seen.complete(&round);
        self.environment.observer.relist_ended(took);
        if self.seen.rounds == 1 {
            let record = self.synced();
            self.publish(&record);
        }
    }

    fn tell(&mut self, commit: &Commit, status: Option<&PodStatus>) {
        let time = self.wall_time();
        let first_round = self.seen.rounds == 0;
        for event in events_of(commit, status, time, first_round) {
            self.expect_announcement(&event, commit);
            let announced = commit.hint.as_ref().and_then(|hint| hint.announced);
            self.observe(&event, announced, status);
            self.publish(&Record::Event(event));
        }
        self.watch_processes(commit, status);
    }

    fn observe(&self, event: &Event, announced: Option<WallTime>, status: Option<&PodStatus>) {
        let happened = match (event.subject, event.event_type) {
            _ if event.initial => None,
            _ if event.source == Source::Stream => announced,
            (Some(Subject::Container), EventType::ContainerStarted) => event
                .id
                .as_ref()
                .and_then(|id| status?.container(id)?.started_at),
            (Some(Subject::Container), EventType::ContainerDied) => event
                .id
                .as_ref()
                .and_then(|id| status?.container(id)?.finished_at),
            _ => None,
        };
        let latency = happened.map(|happened| event.time.since(happened));
        let observer = &self.environment.observer;
        observer.event(event.event_type, event.source, latency);
    }

    pub(super) fn publish(&mut self, record: &Record) {
        let conflated = self.subscribers.publish(record);
        if conflated > 0 {
            self.environment.observer.conflated(conflated);
        }
    }

    pub(super) fn synced(&self) -> Record {
        let (pods, containers) = self
            .records
            .committed()
            .fold((0, 0), |(pods, containers), pod| {
                (pods + 1, containers + pod.containers.len())
            });
        Record::Synced {
            time: self.wall_time(),
            pods,
            containers,
        }
    }
}
