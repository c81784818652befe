//! The metrics under our own names (prefix `pleg_`): the kubelet's figures, and what those do not
//! show during a stall.

use std::time::Duration;

use pleg::model::event::{EventType, Source};
use pleg::out::health::HealthState;
use pleg::out::status_report::{GuardMode, StatusReport};
use pleg::runtime::{CALLS, Rpc};
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Registry,
};

use super::diagnosed::Diagnosed;
use super::register::Register;
use super::{Operations, operation_buckets};

/// Bounds in seconds: from a millisecond, in which an event of a healthy runtime arrives, to the
/// timeout of a list.
const LATENCY_BUCKETS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0,
];

/// The calls that the guard answers in place of a runtime.
const LISTS: [Rpc; 2] = [Rpc::ListPodSandbox, Rpc::ListContainers];
/// The changes that the guard completes or refuses.
const CHANGES: [Rpc; 7] = [
    Rpc::RunPodSandbox,
    Rpc::StopPodSandbox,
    Rpc::RemovePodSandbox,
    Rpc::CreateContainer,
    Rpc::StartContainer,
    Rpc::StopContainer,
    Rpc::RemoveContainer,
];

const SOURCES: [Source; 4] = [
    Source::Relist,
    Source::Sweep,
    Source::Stream,
    Source::Kernel,
];

pub(super) struct Own {
    pub(super) relist_duration: Histogram,
    pub(super) last_seen: Gauge,
    pub(super) conflated: IntCounter,
    pub(super) operations: Operations,
    events: IntCounterVec,
    event_latency: HistogramVec,
    list_bytes: IntGaugeVec,
    health: IntGaugeVec,
    inflight: GaugeVec,
    stuck: IntGaugeVec,
    diagnoses: IntCounterVec,
    finding: IntGaugeVec,
    /// Without labels; a vector, because it can be absent.
    systemd_cookie_overflow: GaugeVec,
    guard_mode: IntGaugeVec,
    guarding: IntGauge,
    guard_unresponsive: IntGauge,
    /// Without labels; a vector, because it can be absent.
    guard_idle: GaugeVec,
    guard_answers: IntCounterVec,
    guard_completed: IntCounterVec,
    guard_refused: IntCounterVec,
    guard_differences: IntCounter,
    /// Without labels; a vector, because it can be absent.
    notready_in: GaugeVec,
}

impl Own {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let register = Register(registry);
        let events = register.counters(
            "pleg_events_total",
            "Lifecycle events reported, by type.",
            &["type"],
        )?;
        for event_type in EventType::ALL {
            events.with_label_values(&[event_type.as_str()]);
        }
        register
            .int_gauges(
                "pleg_build_info",
                "1, with the version of pleg.",
                &["version"],
            )?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        let diagnoses = register.counters(
            "pleg_diagnoses_total",
            "Diagnoses of the node, by result.",
            &["result"],
        )?;
        for how in Diagnosed::ALL {
            diagnoses.with_label_values(&[how.as_str()]);
        }
        let own = Self {
            diagnoses,
            finding: register.int_gauges(
                "pleg_finding",
                "1 for each cause that diagnoses of the node have found: of the current problem \
                 (kind=\"trouble\"), or of a possible future problem (kind=\"warning\").",
                &["cause", "kind"],
            )?,
            events,
            relist_duration: register.histogram(
                "pleg_relist_duration_seconds",
                "From asking for the lists to the last inspection of what had changed.",
            )?,
            last_seen: register.gauge(
                "pleg_last_seen_seconds",
                "When all pods were last seen, in Unix time.",
            )?,
            conflated: register.counter(
                "pleg_conflated_events_total",
                "Events that were not kept apart for a slow subscriber.",
            )?,
            event_latency: register.histograms(
                "pleg_event_latency_seconds",
                "From the runtime's own time of a start or death to its event.",
                LATENCY_BUCKETS.to_vec(),
                &["source"],
            )?,
            list_bytes: register.int_gauges(
                "pleg_list_response_bytes",
                "Size of the last list answer; a kubelet takes up to 16777216.",
                &["operation_type"],
            )?,
            health: register.int_gauges("pleg_health", "1 for the current state.", &["state"])?,
            inflight: register.gauges(
                "pleg_inflight_seconds",
                "Age of the oldest call that has not been answered; 0 if there is none.",
                &["operation_type"],
            )?,
            stuck: register.int_gauges("pleg_stuck", "Stuck calls.", &["operation_type"])?,
            systemd_cookie_overflow: register.gauges(
                "pleg_systemd_cookie_overflow_seconds",
                "When systemd will have used its last serial number on the system bus, in Unix \
                 time, at the rate of the last diagnosis; absent if it can go on after that.",
                &[],
            )?,
            guard_mode: register.int_gauges(
                "pleg_guard_mode",
                "1 for what the guard does; off if there is none.",
                &["mode"],
            )?,
            guarding: register.int_gauge(
                "pleg_guard_guarding",
                "1 while lists are answered in place of the runtime.",
            )?,
            guard_unresponsive: register.int_gauge(
                "pleg_guard_unresponsive",
                "1 while there is a guard that does not respond.",
            )?,
            guard_idle: register.gauges(
                "pleg_guard_idle_seconds",
                "How long ago a client last asked the guard for both lists; absent without a \
                 guard.",
                &[],
            )?,
            guard_answers: register.counters(
                "pleg_guard_answers_total",
                "Calls that the guard answered in place of the runtime.",
                &["operation_type"],
            )?,
            guard_completed: register.counters(
                "pleg_guard_completed_total",
                "Changes that were proved to be done while their answers were held up.",
                &["operation_type"],
            )?,
            guard_differences: register.counter(
                "pleg_guard_differences_total",
                "Entries of lists that the guard would have answered differently from the runtime.",
            )?,
            guard_refused: register.counters(
                "pleg_guard_refused_total",
                "Changes that were refused because an earlier one of the same id is overdue.",
                &["operation_type"],
            )?,
            notready_in: register.gauges(
                "pleg_kubelet_notready_in_seconds",
                "Seconds until a kubelet's Ready condition becomes False if nothing changes; \
                 absent if no problem is expected.",
                &[],
            )?,
            operations: Operations {
                total: register.counters(
                    "pleg_runtime_operations_total",
                    "Calls to the runtime.",
                    &["operation_type"],
                )?,
                errors: register.counters(
                    "pleg_runtime_operations_errors_total",
                    "Calls to the runtime that failed.",
                    &["operation_type"],
                )?,
                duration: register.histograms(
                    "pleg_runtime_operations_duration_seconds",
                    "How long answered calls to the runtime took.",
                    operation_buckets()?,
                    &["operation_type"],
                )?,
            },
        };
        // Create all series, so that a query of what has not happened yet finds 0 instead of
        // nothing.
        for source in SOURCES {
            own.event_latency.with_label_values(&[source.as_str()]);
        }
        for call in CALLS {
            let labels = &[call.operation_type()];
            own.operations.errors.with_label_values(labels);
        }
        Ok(own)
    }

    /// Creates the series of a guard, so that a query of what it has not done yet finds 0 as well.
    fn expect_guard(&self) {
        for list in LISTS {
            let labels = &[list.operation_type()];
            self.guard_answers.with_label_values(labels);
        }
        for change in CHANGES {
            let labels = &[change.operation_type()];
            self.guard_completed.with_label_values(labels);
            self.guard_refused.with_label_values(labels);
        }
    }

    pub(super) fn diagnosed(&self, how: Diagnosed) {
        self.diagnoses.with_label_values(&[how.as_str()]).inc();
    }

    pub(super) fn systemd_cookie_overflow(&self, time: Option<f64>) {
        set_or_remove(&self.systemd_cookie_overflow, time);
    }

    pub(super) fn list_received(&self, call: Rpc, bytes: usize) {
        let gauge = self.list_bytes.with_label_values(&[call.operation_type()]);
        gauge.set(bytes as i64);
    }

    pub(super) fn event(&self, event_type: EventType, source: Source, latency: Option<Duration>) {
        self.events.with_label_values(&[event_type.as_str()]).inc();
        if let Some(latency) = latency {
            let histogram = self.event_latency.with_label_values(&[source.as_str()]);
            histogram.observe(latency.as_secs_f64());
        }
    }

    /// Sets the metrics that depend on the current status.
    pub(super) fn show(&self, now: &StatusReport) {
        for state in HealthState::ALL {
            let gauge = self.health.with_label_values(&[state.as_str()]);
            gauge.set(i64::from(state == now.health.state));
        }
        for call in CALLS {
            let label = &[call.operation_type()];
            let of_call = now.in_flight.iter().filter(|flight| flight.call == call);
            let oldest = of_call.map(|flight| flight.age_seconds).fold(0.0, f64::max);
            self.inflight.with_label_values(label).set(oldest);
            let stuck = now.stuck.iter().filter(|stuck| stuck.call == call).count();
            self.stuck.with_label_values(label).set(stuck as i64);
        }
        self.finding.reset();
        let found = now.finding.iter().map(|finding| (finding, "trouble"));
        let warnings = now.warnings.iter().map(|finding| (finding, "warning"));
        for (finding, kind) in found.chain(warnings) {
            let label = &[finding.cause.as_str(), kind];
            self.finding.with_label_values(label).set(1);
        }
        let guard = &now.guard;
        for mode in GuardMode::ALL {
            let gauge = self.guard_mode.with_label_values(&[mode.as_str()]);
            gauge.set(i64::from(mode == guard.mode));
        }
        self.guarding.set(i64::from(guard.guarding));
        let unresponsive = &self.guard_unresponsive;
        unresponsive.set(i64::from(guard.unresponsive));
        set_or_remove(&self.guard_idle, guard.idle_seconds);
        set(&self.guard_differences, guard.differences);
        if guard.mode != GuardMode::Off {
            self.expect_guard();
        }
        let figures = [
            (&self.guard_answers, &guard.answers),
            (&self.guard_completed, &guard.completed),
            (&self.guard_refused, &guard.refused),
        ];
        for (counter, counts) in figures {
            for (call, count) in counts {
                set(&counter.with_label_values(&[call.operation_type()]), *count);
            }
        }
        set_or_remove(&self.notready_in, now.kubelet_view.not_ready_in_seconds);
    }
}

/// Sets a counter to what the guard has counted, which starts at zero when the guard starts.
fn set(counter: &IntCounter, count: u64) {
    counter.reset();
    counter.inc_by(count);
}

/// A gauge without labels that is absent while there is nothing to show.
fn set_or_remove(gauge: &GaugeVec, value: Option<f64>) {
    match value {
        Some(value) => gauge.with_label_values(&[] as &[&str]).set(value),
        None => gauge.reset(),
    }
}
