//! Reports on request: the status, and the records with which a subscription begins.

use std::time::Duration;

use tokio::time::Instant;

use super::state::Engine;
use crate::model::listed::ContainerState;
use crate::model::run_clock::RunClock;
use crate::model::snapshot::Counts;
use crate::model::wall_time::Moment;
use crate::out::kubelet_view::kubelet_view;
use crate::out::record::Record;
use crate::out::status_report::{
    GuardStatus, HealthStatus, InFlight, Progress, RelistStatus, RuntimeStatus, StatusReport,
};

impl Engine {
    /// The records with which a subscription begins, after the pods in the cache. Before the first
    /// pass is complete, the other pods follow as they are found.
    pub(crate) fn first_records(&self, now: Moment) -> Vec<Record> {
        let mut then = Vec::new();
        let synced = self.reporting.passes.completed() > 0;
        if synced {
            then.push(self.synced(now));
        }
        // A node with a problem from the beginning reports it before the first pass.
        if synced
            || self
                .reporting
                .reporter
                .has_problem(&self.reporting.coverage)
        {
            let health = self
                .reporting
                .reporter
                .report(&self.reporting.coverage, now);
            then.push(Record::Health(health));
        }
        then
    }

    pub(crate) fn status(&self, now: Moment, clock: &RunClock) -> StatusReport {
        let health = self
            .reporting
            .reporter
            .report(&self.reporting.coverage, now);
        let counts = Counts::of(self.records.listed().map(AsRef::as_ref));
        let containers = ContainerState::ALL.iter();
        let pass = self.reporting.passes.last();
        let age = |since: Instant| now.instant.duration_since(since).as_secs_f64();
        StatusReport {
            kubelet_view: kubelet_view(now.instant, &self.reporting.coverage, clock),
            relist: RelistStatus {
                mode: match self.sources.streaming.is_live() {
                    true => "evented".to_owned(),
                    false => "generic".to_owned(),
                },
                count: self.reporting.passes.completed(),
                period_seconds: self.period(now.instant).as_secs_f64(),
                last_duration_seconds: pass.map(|pass| pass.took.as_secs_f64()),
                last_kind: pass.map(|pass| pass.kind),
                last_failure: self.relister.failure().cloned(),
                sweeping: self.sweeper.is_sweeping(),
                progress: self.reporting.passes.progress().map(|progress| Progress {
                    seen: progress.observed,
                    of: progress.awaited,
                }),
            },
            health: HealthStatus {
                state: health.state,
                reason: health.reason,
                since: self.reporting.reporter.since().wall,
                message: health.message,
                last_seen: pass.map(|pass| pass.begun.wall),
                age_seconds: pass.map(|pass| {
                    let last_observed = clock.monotonic(pass.begun.instant);
                    let age = clock.monotonic(now.instant).duration_since(last_observed);
                    age.as_secs_f64()
                }),
                threshold_seconds: self.config.relist_threshold.as_secs_f64(),
            },
            stuck: health.stuck,
            failing: health.failing,
            blind: health.blind,
            suspects: self.lost_calls(),
            in_flight: self
                .ledger
                .outstanding()
                .map(|call| InFlight {
                    call: call.about.call,
                    id: call.about.id,
                    age_seconds: age(call.since),
                })
                .collect(),
            costs: self.reporting.costs.report(now.instant),
            stream: self.sources.streaming.status(),
            kernel: self.sources.processes.status(
                self.quarantine.admits_pids(now.instant),
                self.sources.births.status(),
            ),
            guard: GuardStatus::default(),
            finding: None,
            warnings: Vec::new(),
            runtime: RuntimeStatus::new(self.out.endpoint.clone(), self.relister.runtime()),
            pods: counts.pods,
            containers: containers
                .map(|state| (state.as_str().to_owned(), counts.containers(*state)))
                .collect(),
        }
    }

    /// The current pause between two relists. It is short while a status call has been outstanding
    /// for long or fails, or the runtime contradicts the kernel: other changes may have been missed
    /// too, and lists show whether the runtime is unresponsive.
    pub(super) fn period(&self, now: Instant) -> Duration {
        let mut contradictions = self.sources.processes.contradictions(now);
        if self.ledger.has_suspect_status(now)
            || self.unobserved.failures.iter().next().is_some()
            || contradictions.next().is_some()
        {
            return self.config.relist_period;
        }
        // Health must be able to distinguish a stall from a pause.
        let ceiling = self.config.relist_ceiling;
        let ceiling = ceiling.min(self.config.relist_threshold / 4);
        self.sources
            .streaming
            .period(self.config.relist_period, ceiling, self.is_all_watched(now))
    }

    /// Whether each birth and exit is reported, so that lists only check what is known.
    fn is_all_watched(&self, now: Instant) -> bool {
        self.sources.births.are_watched()
            && self.quarantine.admits_pids(now)
            && self.sources.processes.are_all_watched()
    }
}
