//! Asking for both lists, again and again, and taking in what they say.

use std::time::Duration;

use tokio::time::Instant;

use super::lists::Asking;
use super::round::Round;
use super::{Generic, Message};
use crate::calls::About;
use crate::event::Source;
use crate::listed::{ListedContainer, ListedSandbox};
use crate::runtime::grpc::MAX_MESSAGE_SIZE;
use crate::runtime::{Call, CallError, Listing, Runtime, RuntimeVersion};
use crate::snapshot::Snapshot;
use crate::wall_time::WallTime;

/// How long a list that was too large is not asked for again.
const TOO_LARGE_PAUSE: Duration = Duration::from_secs(30);

impl<R: Runtime> Generic<R> {
    /// Asks for both lists at once, so that one that hangs does not keep the other from
    /// being known. Before anything else the runtime is asked who it is: that settles
    /// which version of CRI it is spoken to in.
    pub(super) fn begin_relist(&mut self) {
        self.lists.begin();
        if self.ask_version {
            let runtime = self.runtime.clone();
            let answer = async move { runtime.version().await };
            self.ask(Call::Version, answer, Message::Version);
            return;
        }
        if let Some(last) = self.lists.last_good {
            let since = self.lists.begun.duration_since(last);
            self.environment.observer.relist_interval(since);
        }
        let runtime = self.runtime.clone();
        let answer = async move { runtime.list_sandboxes().await };
        self.ask(Call::ListPodSandbox, answer, Message::Sandboxes);
        let runtime = self.runtime.clone();
        let answer = async move { runtime.list_containers().await };
        self.ask(Call::ListContainers, answer, Message::Containers);
    }

    /// Makes a call for the whole node in a task of its own.
    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        call: Call,
        answer: impl Future<Output = Result<T, CallError>> + Send + 'static,
        message: impl FnOnce(Result<T, CallError>) -> Message + Send + 'static,
    ) {
        let (calls, reports) = (self.calls.clone(), self.reports.clone());
        self.tasks.spawn(async move {
            let answer = calls.run(About::node(call), answer).await;
            // Nobody listens any more when the generator stops.
            let _ = reports.send(message(answer));
        });
    }

    pub(super) fn on_version(&mut self, answer: Result<RuntimeVersion, CallError>) {
        match answer {
            Ok(version) => {
                tracing::debug!("the runtime is {version}");
                self.version = Some(version);
                self.ask_version = false;
                self.streaming.runtime_answered(Instant::now());
                self.begin_relist();
            }
            Err(error) => self.lists_failed(error),
        }
    }

    pub(super) fn on_sandboxes(&mut self, answer: Result<Listing<ListedSandbox>, CallError>) {
        self.lists.sandboxes = self.answered(Call::ListPodSandbox, answer);
        self.end_lists();
    }

    pub(super) fn on_containers(&mut self, answer: Result<Listing<ListedContainer>, CallError>) {
        self.lists.containers = self.answered(Call::ListContainers, answer);
        self.end_lists();
    }

    fn answered<Row>(
        &mut self,
        call: Call,
        answer: Result<Listing<Row>, CallError>,
    ) -> Asking<Row> {
        match answer {
            Ok(listing) => {
                self.patience.learn(self.lists.begun.elapsed());
                self.environment.observer.list_received(call, listing.bytes);
                self.lists.largest = self.lists.largest.max(listing.bytes);
                Asking::Answered(listing.rows)
            }
            Err(error) => Asking::Failed(error),
        }
    }

    fn end_lists(&mut self) {
        match self.lists.take() {
            None => {}
            Some(Ok(snapshot)) => self.lists_good(&snapshot),
            Some(Err(error)) => self.lists_failed(error),
        }
    }

    fn lists_good(&mut self, snapshot: &Snapshot) {
        self.lists.recovered = true;
        if snapshot.homeless > self.lists.homeless {
            let homeless = snapshot.homeless;
            tracing::warn!("{homeless} listed sandboxes or containers belong to no pod");
        }
        self.lists.homeless = snapshot.homeless;
        self.lists.good_before = self.lists.last_good.replace(snapshot.taken);
        if self.lists.largest <= MAX_MESSAGE_SIZE {
            self.lists.good_for_kubelet = self.lists.last_good;
        }
        self.hinted_ids.clear();
        self.records
            .observe(snapshot, Instant::now(), Source::Relist);
        let observer = &self.environment.observer;
        observer.seen(self.wall_time(), snapshot.counts);

        for uid in self.records.unsettled() {
            self.take_step(&uid);
        }
        self.cache.relisted(snapshot.taken, self.records.pending());
        self.begin_round(snapshot.taken, self.wall_time(), Source::Relist);
        // Lists that were overdue tell how things were when they were asked for, at best.
        let overdue = snapshot.taken.elapsed() >= self.patience.with(Call::ListContainers);
        let pause = if overdue {
            Duration::ZERO
        } else {
            if let Some(proof) = self.streaming.proof() {
                proof.relisted();
            }
            self.period()
        };
        self.lists.end(Instant::now() + pause);
    }

    /// From the end of this relist to the next one.
    pub(super) fn period(&self) -> Duration {
        // Health must be able to tell a stall from a pause.
        let ceiling = self.config.relist_ceiling;
        let ceiling = ceiling.min(self.config.relist_threshold / 4);
        self.streaming.period(self.config.relist_period, ceiling)
    }

    /// All pods have been looked at: what differs is being inspected.
    pub(super) fn begin_round(&mut self, begun: Instant, time: WallTime, source: Source) {
        if self.round.is_none() {
            // Who is named already is not waited for.
            let mut waiting = self.records.inspecting().clone();
            for stuck in self.overdue() {
                if let Some(pod) = stuck.about.pod {
                    waiting.remove(&pod.uid);
                }
            }
            self.round = Some(Round::new(begun, time, source, waiting));
        }
        self.complete_round();
    }

    fn lists_failed(&mut self, error: CallError) {
        if self.lists.failure.as_ref() != Some(&error) {
            tracing::debug!("unable to list: {error}");
        }
        // The runtime that answers next may be another one.
        if matches!(
            error,
            CallError::Unavailable(_) | CallError::Unimplemented(_)
        ) {
            self.ask_version = true;
        }
        let pause = match error {
            // Made for nothing each time, at a great cost to the runtime.
            CallError::TooLarge(_) => TOO_LARGE_PAUSE.max(self.config.relist_period),
            _ => self.config.relist_period,
        };
        self.lists.failure = Some(error);
        self.lists.recovered = false;
        let took = self.lists.begun.elapsed();
        self.environment.observer.relist_ended(took);
        self.lists.end(Instant::now() + pause);
    }
}
