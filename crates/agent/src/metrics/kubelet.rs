//! The kubelet's names, types, labels and buckets, as of 1.36: a dashboard made for a
//! kubelet reads ours.

use pleg::model::listed::ContainerState;
use pleg::model::snapshot::Counts;
use pleg::model::wall_time::WallTime;
use prometheus::{Gauge, Histogram, IntCounter, IntGauge, IntGaugeVec, Registry};

use super::register::Register;
use super::{Operations, operation_buckets};

pub(super) struct Kubelet {
    pub(super) relist_duration: Histogram,
    pub(super) relist_interval: Histogram,
    pub(super) pod_relist_duration: Histogram,
    /// Events that were merged for a slow subscriber; a kubelet loses such events.
    pub(super) discarded: IntCounter,
    pub(super) operations: Operations,
    pub(super) stream_opened: IntCounter,
    pub(super) stream_errors: IntCounter,
    /// The time from the creation of an event to its arrival, whatever the kubelet's help text
    /// says.
    pub(super) stream_latency: Histogram,
    last_seen: Gauge,
    running_pods: IntGauge,
    running_containers: IntGaugeVec,
}

impl Kubelet {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let register = Register(registry);
        let running_containers = register.int_gauges(
            "kubelet_running_containers",
            "[ALPHA] Number of containers currently running",
            &["container_state"],
        )?;
        for state in ContainerState::ALL {
            running_containers.with_label_values(&[state.as_str()]);
        }
        Ok(Self {
            stream_errors: register.counter(
                "kubelet_evented_pleg_connection_error_count",
                "[ALPHA] The number of errors encountered during the establishment of streaming connection with the CRI runtime.",
            )?,
            stream_opened: register.counter(
                "kubelet_evented_pleg_connection_success_count",
                "[ALPHA] The number of times a streaming client was obtained to receive CRI Events.",
            )?,
            stream_latency: register.histogram(
                "kubelet_evented_pleg_connection_latency_seconds",
                "[ALPHA] The latency of streaming connection with the CRI runtime, measured in seconds.",
            )?,
            relist_duration: register.histogram(
                "kubelet_pleg_relist_duration_seconds",
                "[ALPHA] Duration in seconds for relisting pods in PLEG.",
            )?,
            relist_interval: register.histogram(
                "kubelet_pleg_relist_interval_seconds",
                "[ALPHA] Interval in seconds between relisting in PLEG.",
            )?,
            pod_relist_duration: register.histogram(
                "kubelet_pleg_pod_relist_duration_seconds",
                "[ALPHA] Duration in seconds for relisting a single pod in PLEG.",
            )?,
            discarded: register.counter(
                "kubelet_pleg_discard_events",
                "[ALPHA] The number of discard events in PLEG.",
            )?,
            last_seen: register.gauge(
                "kubelet_pleg_last_seen_seconds",
                "[ALPHA] Timestamp in seconds when PLEG was last seen active.",
            )?,
            running_pods: register.int_gauge(
                "kubelet_running_pods",
                "[ALPHA] Number of pods that have a running pod sandbox",
            )?,
            running_containers,
            operations: Operations {
                total: register.counters(
                    "kubelet_runtime_operations_total",
                    "[ALPHA] Cumulative number of runtime operations by operation type.",
                    &["operation_type"],
                )?,
                errors: register.counters(
                    "kubelet_runtime_operations_errors_total",
                    "[ALPHA] Cumulative number of runtime operation errors by operation type.",
                    &["operation_type"],
                )?,
                duration: register.histograms(
                    "kubelet_runtime_operations_duration_seconds",
                    "[ALPHA] Duration in seconds of runtime operations. Broken down by operation type.",
                    operation_buckets()?,
                    &["operation_type"],
                )?,
            },
        })
    }

    pub(super) fn seen(&self, time: WallTime, counts: Counts) {
        self.last_seen.set(time.as_unix_seconds());
        self.running_pods.set(counts.running_pods as i64);
        for state in ContainerState::ALL {
            let gauge = self.running_containers.with_label_values(&[state.as_str()]);
            gauge.set(counts.containers(state) as i64);
        }
    }
}
