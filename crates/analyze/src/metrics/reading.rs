//! What the samples of a kubelet's metrics show.

use std::collections::BTreeMap;
use std::time::Duration;

use causes::facts::facts;
use pleg_text::GoDuration;
use serde::Serialize;

use super::Sample;
use crate::words::capital;

// The names since Kubernetes 1.14, and those before.
const RELISTS: [&str; 2] = [
    "kubelet_pleg_relist_duration_seconds",
    "kubelet_pleg_relist_latency_microseconds",
];
const INTERVALS: [&str; 2] = [
    "kubelet_pleg_relist_interval_seconds",
    "kubelet_pleg_relist_interval_microseconds",
];
const TIMES: [&str; 2] = [
    "kubelet_runtime_operations_duration_seconds",
    "kubelet_runtime_operations_latency_microseconds",
];
const COUNTERS: [&str; 2] = [
    "kubelet_runtime_operations_total",
    "kubelet_runtime_operations",
];

/// The kubelet's threshold for the time since the last relist, in seconds.
const THRESHOLD: f64 = 180.0;

/// Durations of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// The number of operations.
    pub count: f64,
    /// The mean, if the sum is known.
    pub mean_seconds: Option<f64>,
    /// The median.
    pub median_seconds: Option<f64>,
    /// The 99th percentile; estimated if it is computed from a histogram.
    pub p99_seconds: Option<f64>,
}

/// Calls of one type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// The type of the calls, such as `list_containers`.
    pub operation: String,
    /// The number of failed calls.
    pub errors: f64,
    /// The share of these calls in the known total time of all calls.
    pub share: f64,
    /// How long the calls take.
    #[serde(flatten)]
    pub spread: Spread,
}

/// What a kubelet's metrics show; `metrics` in the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricsReading {
    /// The duration of a relist.
    pub relist: Spread,
    /// The interval between relists.
    pub interval: Spread,
    /// Calls by type, the largest share of time first.
    pub operations: Vec<Operation>,
    /// The call with the largest share of time.
    pub dominant_operation: Option<String>,
    /// By which factor the slowest relists may grow before the node becomes NotReady.
    pub headroom: Option<f64>,
    /// Events that the kubelet discarded because its channel was full.
    pub discarded_events: f64,
    /// A summary in one sentence.
    pub reading: String,
}

/// Analyses the samples; `None` if none of them is about the PLEG or the runtime.
pub fn read(samples: &[Sample]) -> Option<MetricsReading> {
    if samples.is_empty() {
        return None;
    }
    let relist = spread(samples, &RELISTS, None);
    let interval = spread(samples, &INTERVALS, None);
    let operations = operations(samples);
    let slowest = relist.p99_seconds.or(relist.mean_seconds);
    let slowest = slowest.filter(|seconds| *seconds > 0.0);
    let mut reading = MetricsReading {
        relist,
        interval,
        dominant_operation: dominant(&operations).map(|at| at.operation.clone()),
        headroom: slowest.map(|seconds| THRESHOLD / seconds),
        discarded_events: total(samples, "kubelet_pleg_discard_events"),
        operations,
        reading: String::new(),
    };
    reading.reading = sentence(&reading);
    Some(reading)
}

impl MetricsReading {
    /// Whether relists are slow enough to trigger the usual alert.
    pub fn is_slow(&self) -> bool {
        self.relist
            .p99_seconds
            .is_some_and(|seconds| seconds >= facts().limits["slowRelistSeconds"])
    }
}

/// The first operation, which has the largest share of time; `None` if the times are not known.
fn dominant(operations: &[Operation]) -> Option<&Operation> {
    operations.first().filter(|at| at.share > 0.0)
}

fn total(samples: &[Sample], name: &str) -> f64 {
    let named = samples.iter().filter(|sample| sample.name == name);
    named.map(|sample| sample.value).sum()
}

fn operations(samples: &[Sample]) -> Vec<Operation> {
    let mut types: BTreeMap<&str, f64> = BTreeMap::new();
    for sample in samples {
        if let Some(operation) = sample.operation.as_deref() {
            let errors = sample.name.starts_with("kubelet_runtime_operations_errors");
            *types.entry(operation).or_default() += if errors { sample.value } else { 0.0 };
        }
    }
    let mut operations: Vec<Operation> = types
        .into_iter()
        .map(|(operation, errors)| {
            let mut spread = spread(samples, &TIMES, Some(operation));
            if spread.count == 0.0 {
                let of_it = samples.iter();
                let of_it = of_it.filter(|sample| sample.operation.as_deref() == Some(operation));
                let counted = of_it.filter(|sample| COUNTERS.contains(&&*sample.name));
                spread.count = counted.map(|sample| sample.value).sum();
            }
            Operation {
                operation: operation.to_owned(),
                errors,
                share: 0.0,
                spread,
            }
        })
        .collect();
    let cost = |at: &Operation| {
        let each = at.spread.mean_seconds.or(at.spread.median_seconds);
        each.unwrap_or(0.0) * at.spread.count
    };
    let all: f64 = operations.iter().map(cost).sum();
    if all > 0.0 {
        for operation in &mut operations {
            operation.share = cost(operation) / all;
        }
    }
    operations.sort_by(|one, other| other.share.total_cmp(&one.share));
    operations
}

/// The durations by the first of these metrics that exists: a histogram in seconds, or a summary in
/// microseconds.
fn spread(samples: &[Sample], names: &[&str], operation: Option<&str>) -> Spread {
    for name in names {
        let unit = if name.ends_with("_microseconds") {
            1e-6
        } else {
            1.0
        };
        let mine = || {
            samples.iter().filter(|sample| {
                sample.operation.as_deref() == operation && sample.name.starts_with(name)
            })
        };
        let one = |suffix: &str| {
            mine()
                .find(|at| at.name[name.len()..] == *suffix)
                .map(|at| at.value)
        };
        let Some(count) = one("_count") else {
            continue;
        };
        let quantile = |wanted: f64| {
            let summary = mine()
                .find(|at| at.quantile == Some(wanted))
                .map(|at| at.value * unit);
            summary.or_else(|| of_buckets(mine().filter(|at| at.name.ends_with("_bucket")), wanted))
        };
        let sum = one("_sum").map(|sum| sum * unit);
        return Spread {
            count,
            mean_seconds: sum.filter(|_| count > 0.0).map(|sum| sum / count),
            median_seconds: quantile(0.5).filter(|value| value.is_finite()),
            p99_seconds: quantile(0.99).filter(|value| value.is_finite()),
        };
    }
    Spread::default()
}

/// Prometheus' estimate of a quantile, which assumes that samples are evenly distributed within a bucket.
fn of_buckets<'a>(buckets: impl Iterator<Item = &'a Sample>, quantile: f64) -> Option<f64> {
    let mut bounds: Vec<(f64, f64)> = buckets.filter_map(|at| Some((at.le?, at.value))).collect();
    bounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    let all = bounds.last()?.1;
    if all <= 0.0 {
        return None;
    }
    let wanted = quantile * all;
    let (mut low, mut before) = (0.0, 0.0);
    for (bound, count) in bounds {
        if count >= wanted {
            if bound.is_infinite() {
                return Some(low);
            }
            let within = (wanted - before) / (count - before).max(f64::MIN_POSITIVE);
            return Some(low + (bound - low) * within.clamp(0.0, 1.0));
        }
        (low, before) = (bound, count);
    }
    None
}

fn sentence(reading: &MetricsReading) -> String {
    let relist = &reading.relist;
    let usual = relist.median_seconds.or(relist.mean_seconds);
    let usual = usual.map(|seconds| format!("a relist usually takes {}", rounded(seconds)));
    let slow = relist.p99_seconds;
    let slow = slow.map(|seconds| format!("99 of 100 relists take at most {}", rounded(seconds)));
    let mut parts: Vec<String> = usual.into_iter().chain(slow).collect();
    if parts.is_empty() {
        parts.push("the metrics do not show how long a relist takes".to_owned());
    }
    if let Some(operation) = dominant(&reading.operations) {
        parts.push(format!(
            "{:.0} % of the time in runtime calls is spent in {}",
            operation.share * 100.0,
            operation.operation
        ));
    }
    match reading.headroom {
        Some(headroom) if reading.is_slow() => {
            parts.push(format!(
                "the node becomes NotReady if relists take only {headroom:.1} times as long"
            ));
        }
        Some(headroom) => parts.push(format!(
            "the node becomes NotReady if relists take {headroom:.0} times as long"
        )),
        None => {}
    }
    if reading.discarded_events > 0.0 {
        parts.push(format!(
            "{} events were lost because the kubelet's event channel was full",
            reading.discarded_events
        ));
    }
    capital(parts.join(", ")) + "."
}

/// The duration, to the microsecond, or above a second to the millisecond.
fn rounded(seconds: f64) -> GoDuration {
    let micros = (seconds.clamp(0.0, 1e9) * 1e6).round() as u64;
    let step = if micros > 1_000_000 { 1_000 } else { 1 };
    GoDuration(Duration::from_micros(micros / step * step))
}
