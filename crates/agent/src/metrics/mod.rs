//! The metrics, in two registries, so that no dashboard counts twice: one has our own names, the
//! other the kubelet's. Label values are from fixed sets: nothing that a runtime sends gets into a
//! label.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pleg::model::snapshot::Counts;
use pleg::out::coverage::{Pass, PassKind};
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, Rpc};
use pleg::{Measurement, Observer};
use prometheus::{Registry, TextEncoder};
use recorder::ListTimes;
use tokio::sync::Notify;

use crate::history::lists::ListCalls;

mod diagnosed;
mod guard_added;
mod history;
mod kubelet;
mod own;
mod register;

pub(crate) use diagnosed::Diagnosed;
pub use history::HistoryFigures;

use guard_added::GuardAdded;
use kubelet::Kubelet;
use own::Own;

/// Counts what the library reports to it.
pub struct Metrics {
    own: Own,
    own_registry: Registry,
    guard_added: GuardAdded,
    kubelet: Kubelet,
    kubelet_registry: Registry,
    /// The list calls, for the history.
    lists: ListCalls,
    stream: Stream,
}

/// Whether there is an event stream, and a notification when that changes.
#[derive(Default)]
struct Stream {
    is_open: AtomicBool,
    turned: Notify,
}

impl Metrics {
    /// All figures at zero. The names are fixed, so an error is a bug of ours.
    pub fn new() -> prometheus::Result<Self> {
        let (own_registry, kubelet_registry) = (Registry::new(), Registry::new());
        let guard_added = GuardAdded::new()?;
        own_registry.register(Box::new(guard_added.clone()))?;
        Ok(Self {
            guard_added,
            own: Own::new(&own_registry)?,
            own_registry,
            kubelet: Kubelet::new(&kubelet_registry)?,
            kubelet_registry,
            lists: ListCalls::default(),
            stream: Stream::default(),
        })
    }

    /// Sets how much time the guard has added to the calls that it passed; `None` without a guard.
    pub fn show_added(&self, added: Option<&guard_api::Added>) {
        self.guard_added.show(added);
    }

    /// Registers the metrics of the writer to Kubernetes.
    pub fn count_kubernetes(&self) -> prometheus::Result<cluster::Figures> {
        cluster::Figures::register(&self.own_registry)
    }

    /// Registers the metrics of the history.
    pub fn count_history(&self) -> prometheus::Result<HistoryFigures> {
        HistoryFigures::register(&self.own_registry)
    }

    /// Takes the list calls since the last time.
    pub(crate) fn take_lists(&self) -> Vec<ListTimes> {
        self.lists.take()
    }

    /// Waits until the event stream starts or ends.
    pub(crate) async fn stream_turned(&self) {
        self.stream.turned.notified().await;
    }

    /// Counts a diagnosis that has ended.
    pub(crate) fn diagnosed(&self, how: Diagnosed) {
        self.own.diagnosed(how);
    }

    /// Sets when systemd will have used its last serial number, in Unix time, according to a
    /// diagnosis.
    pub fn systemd_cookie_overflow(&self, time: Option<f64>) {
        self.own.systemd_cookie_overflow(time);
    }

    /// What `/metrics` shows of a gauge without labels.
    #[cfg(test)]
    pub(crate) fn shown(&self, gauge: &str) -> Option<f64> {
        let families = self.own_registry.gather();
        let family = families.iter().find(|family| family.name() == gauge)?;
        Some(family.get_metric().first()?.get_gauge().get_value())
    }

    /// `/metrics`: our own names. Values that change with time (health, ages of calls) are taken from
    /// the report.
    pub fn own_text(&self, now: &StatusReport) -> prometheus::Result<String> {
        self.own.show(now);
        TextEncoder::new().encode_to_string(&self.own_registry.gather())
    }

    /// `/metrics/kubelet`: the kubelet's names, types, labels and buckets.
    pub fn kubelet_text(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.kubelet_registry.gather())
    }
}

impl Stream {
    fn turn(&self, is_open: bool) {
        if self.is_open.swap(is_open, Ordering::Relaxed) != is_open {
            self.turned.notify_one();
        }
    }
}

impl Observer for Metrics {
    fn observe(&self, measurement: &Measurement) {
        match measurement {
            Measurement::CallEnded { call, took, error } => {
                self.lists.ended(*call, *took, error.is_some());
                self.own.operations.ended(*call, *took, error.as_ref());
                self.kubelet.operations.ended(*call, *took, error.as_ref());
            }
            Measurement::ListReceived { call, bytes } => {
                self.lists.received(*call, *bytes);
                self.own.list_received(*call, *bytes);
            }
            Measurement::RelistFailed(took) => {
                self.own.relist_duration.observe(took.as_secs_f64());
                self.kubelet.relist_duration.observe(took.as_secs_f64());
            }
            Measurement::RelistBegan(since_last) => {
                let interval = &self.kubelet.relist_interval;
                interval.observe(since_last.as_secs_f64());
            }
            Measurement::PodRelistEnded(took) => {
                let duration = &self.kubelet.pod_relist_duration;
                duration.observe(took.as_secs_f64());
            }
            Measurement::Seen(pass, counts) => self.seen(pass, *counts),
            Measurement::Event {
                event_type,
                source,
                latency,
            } => self.own.event(*event_type, *source, *latency),
            Measurement::StreamOpened => {
                self.kubelet.stream_opened.inc();
                self.stream.turn(true);
            }
            Measurement::StreamFailed => {
                self.kubelet.stream_errors.inc();
                self.stream.turn(false);
            }
            Measurement::StreamEvent(latency) => {
                if let Some(latency) = latency {
                    self.kubelet.stream_latency.observe(latency.as_secs_f64());
                }
            }
            Measurement::Conflated(events) => {
                self.own.conflated.inc_by(*events);
                self.kubelet.discarded.inc_by(*events);
            }
        }
    }
}

impl Metrics {
    fn seen(&self, pass: &Pass, counts: Counts) {
        let took = pass.took.as_secs_f64();
        self.own.relist_duration.observe(took);
        // A kubelet makes no sweeps.
        if pass.kind == PassKind::List {
            self.kubelet.relist_duration.observe(took);
        }
        let time = pass.begun.wall;
        self.own.last_seen.set(time.as_unix_seconds());
        self.kubelet.seen(time, counts);
    }
}

/// The metrics of calls by `operation_type`. The same three exist under our prefix and under the
/// kubelet's.
struct Operations {
    total: prometheus::IntCounterVec,
    errors: prometheus::IntCounterVec,
    duration: prometheus::HistogramVec,
}

impl Operations {
    fn ended(&self, call: Rpc, took: Duration, error: Option<&CallError>) {
        let labels = &[call.operation_type()];
        self.total.with_label_values(labels).inc();
        let seconds = took.as_secs_f64();
        self.duration.with_label_values(labels).observe(seconds);
        if error.is_some() {
            self.errors.with_label_values(labels).inc();
        }
    }
}

/// The kubelet's buckets for runtime operations: 5 ms to 745 s.
fn operation_buckets() -> prometheus::Result<Vec<f64>> {
    prometheus::exponential_buckets(0.005, 2.5, 14)
}
