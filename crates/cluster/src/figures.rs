//! Counters of the requests to an API server.

use prometheus::{Gauge, IntCounterVec, Opts, Registry};

use crate::api::Failure;
use crate::plan::Kind;

/// The counters of a registry.
#[derive(Clone, Debug)]
pub struct Figures {
    writes: IntCounterVec,
    confirmed: Gauge,
    left_out: Gauge,
}

impl Figures {
    /// Creates the counters in the registry, at zero.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let figures = Self {
            writes: IntCounterVec::new(
                Opts::new(
                    "pleg_kubernetes_writes_total",
                    "Writes to the Kubernetes API by kind and result.",
                ),
                &["kind", "result"],
            )?,
            confirmed: Gauge::new(
                "pleg_kubernetes_condition_confirmed_seconds",
                "Unix time at which the node condition was last written; 0 before the first time.",
            )?,
            left_out: Gauge::new(
                "pleg_kubernetes_events_left_out",
                "Events that were not created because there were too many.",
            )?,
        };
        registry.register(Box::new(figures.writes.clone()))?;
        registry.register(Box::new(figures.confirmed.clone()))?;
        registry.register(Box::new(figures.left_out.clone()))?;
        for kind in Kind::ALL {
            figures.writes.with_label_values(&[kind.as_str(), "ok"]);
        }
        Ok(figures)
    }

    pub(crate) fn ended(&self, kind: Kind, failure: Option<&Failure>, unix_seconds: f64) {
        let result = failure.map_or("ok", Failure::as_str);
        let labels = [kind.as_str(), result];
        self.writes.with_label_values(&labels).inc();
        if let (Kind::Condition, None) = (kind, failure) {
            self.confirmed.set(unix_seconds);
        }
    }

    pub(crate) fn left_out(&self, events: u64) {
        self.left_out.set(events as f64);
    }
}
