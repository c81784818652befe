//! What is told about ourselves: health at each change, and everything on demand.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Generic;
use crate::config::Config;
use crate::event::Source;
use crate::health::{HealthReport, StuckCall, Vitals, assess};
use crate::id::PodUid;
use crate::inspect::InspectError;
use crate::kubelet_view::{KubeletView, Obstacles, kubelet_view};
use crate::listed::ContainerState;
use crate::runtime::Runtime;
use crate::snapshot::Counts;
use crate::status_report::{HealthStatus, InFlight, RelistStatus, RuntimeStatus, StatusReport};
use crate::subscribers::{Lifeline, Subscription};
use crate::told::{Record, present_events};
use crate::wall_time::WallTime;

/// The health of a generator that has not done anything yet.
pub(super) fn first_report(config: &Config, now: Instant, time: WallTime) -> HealthReport {
    let (state, message) = assess(Vitals {
        now,
        started: now,
        last_seen: None,
        threshold: config.relist_threshold,
        stuck: &[],
        failure: None,
        sweeping: None,
    });
    HealthReport {
        time,
        state,
        message,
        stuck: Vec::new(),
    }
}

/// Names that come within this time of the last record are told in one.
const TOGETHER: Duration = Duration::from_millis(100);

/// Whether these are the same calls, older or younger.
fn are_same(now: &[StuckCall], told: &[StuckCall]) -> bool {
    now.len() == told.len() && now.iter().zip(told).all(|(now, told)| now.is_same(told))
}

impl<R: Runtime> Generic<R> {
    /// Looks at what is overdue, and tells our health if it changed: a state at once, names
    /// together with those that come in the next moment.
    pub(super) fn review(&mut self) {
        let report = self.health();
        if !report.stuck.is_empty() {
            self.doubt_stream();
        }
        for stuck in &report.stuck {
            if !self.stuck.iter().any(|known| known.is_same(stuck)) {
                self.set_aside(stuck);
            }
        }
        let cause = (self.lists.failure.is_some(), self.missing());
        // The message alone may differ by an age, which is no change.
        let same = report.state == self.told.state
            && are_same(&report.stuck, &self.told.stuck)
            && cause == self.told_cause;
        self.stuck.clone_from(&report.stuck);
        let now = Instant::now();
        let next = self.told_at + TOGETHER;
        if same {
            self.health_due = None;
        } else if report.state == self.told.state && now < next {
            self.health_due = Some(next);
        } else {
            tracing::info!("{}: {}", report.state, report.message);
            self.publish(&Record::Health(report.clone()));
            self.told = report;
            self.told_cause = cause;
            self.told_at = now;
            self.health_due = None;
        }
    }

    /// A call became overdue: the round goes on without its pod, and whoever waits for the
    /// pod's status is told why there is none.
    fn set_aside(&mut self, stuck: &StuckCall) {
        if let (Some(pod), Some(id)) = (&stuck.pod, &stuck.id)
            && self.records.inspecting().contains(&pod.uid)
        {
            let error = InspectError::Overdue {
                call: stuck.call,
                id: id.clone(),
            };
            self.cache.set_error(&pod.uid, error, Instant::now());
            self.end_of_inspection(&pod.uid);
        }
    }

    fn health(&self) -> HealthReport {
        let stuck = self.stuck();
        let failure = self.lists.failure.as_ref().map(ToString::to_string);
        let (state, message) = assess(Vitals {
            now: Instant::now(),
            started: self.started,
            last_seen: self.seen.begun(),
            threshold: self.config.relist_threshold,
            stuck: &stuck,
            failure: failure.as_deref(),
            sweeping: self.missing().sentence(),
        });
        HealthReport {
            time: self.wall_time(),
            state,
            message,
            stuck,
        }
    }

    fn stuck(&self) -> Vec<StuckCall> {
        self.overdue().iter().map(StuckCall::new).collect()
    }

    /// Begins a subscription with what is there now. Before the first round is complete
    /// that is not all, and the rest is told as it is found.
    pub(super) fn subscribe(&mut self, lifeline: Lifeline) -> Subscription {
        let time = self.wall_time();
        let mut first: Vec<Record> = self
            .reader
            .all()
            .iter()
            .flat_map(|entry| present_events(&entry.status, time))
            .map(Record::Event)
            .collect();
        if self.seen.rounds > 0 {
            first.push(self.synced());
        }
        // A node that is sick from the beginning says so to whoever comes.
        let health = self.health();
        if self.seen.rounds > 0 || !health.stuck.is_empty() || self.lists.failure.is_some() {
            first.push(Record::Health(health));
        }
        let clock = self.environment.clock.clone();
        self.subscribers
            .subscribe(lifeline, self.reader.clone(), first, clock)
    }

    pub(super) fn status(&self) -> StatusReport {
        let health = self.health();
        let counts = Counts::of(self.records.listed().map(AsRef::as_ref));
        let containers = ContainerState::ALL
            .iter()
            .map(|state| (state.as_str().to_owned(), counts.containers(*state)))
            .collect::<BTreeMap<_, _>>();
        StatusReport {
            kubelet_view: self.kubelet_view(),
            relist: RelistStatus {
                mode: match self.streaming.is_live() {
                    true => "evented".to_owned(),
                    false => "generic".to_owned(),
                },
                count: self.seen.rounds,
                period_seconds: self.period().as_secs_f64(),
                last_duration_seconds: self.seen.last.map(|last| last.took.as_secs_f64()),
                last_kind: self.seen.last.map(|last| match last.source {
                    Source::Sweep => "sweep".to_owned(),
                    _ => "list".to_owned(),
                }),
                last_failure: self.lists.failure.as_ref().map(ToString::to_string),
                sweeping: self.missing().any(),
            },
            health: HealthStatus {
                state: health.state,
                message: health.message,
                last_seen: self.seen.last.map(|last| last.time),
                age_seconds: self.seen.begun().map(|begun| begun.elapsed().as_secs_f64()),
                threshold_seconds: self.config.relist_threshold.as_secs_f64(),
            },
            stuck: health.stuck,
            in_flight: self
                .calls
                .outstanding()
                .into_iter()
                .map(|call| InFlight {
                    call: call.about.call,
                    id: call.about.id,
                    age_seconds: call.since.elapsed().as_secs_f64(),
                })
                .collect(),
            stream: self.streaming.status(),
            kernel: self.processes.status(),
            runtime: RuntimeStatus::new(self.environment.endpoint.clone(), self.version.as_ref()),
            pods: counts.pods,
            containers,
        }
    }

    fn kubelet_view(&self) -> KubeletView {
        let overdue = self.overdue();
        let mut stuck_pods = BTreeMap::<PodUid, Instant>::new();
        for call in &overdue {
            if let Some(pod) = &call.about.pod {
                let since = stuck_pods.entry(pod.uid.clone()).or_insert(call.since);
                *since = call.since.min(*since);
            }
        }
        let obstacles = Obstacles {
            started: self.started,
            last_good_lists: self.lists.good_for_kubelet,
            lists_fail: self.lists.fail() || overdue.iter().any(|call| call.about.pod.is_none()),
            stuck_pods: stuck_pods.into_values().collect(),
        };
        kubelet_view(Instant::now(), &obstacles)
    }
}
