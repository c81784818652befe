//! The writes to an API server, with any answers.

use std::time::Duration;

use api_double::{Double, until};
use cluster::{Figures, KubernetesConfig, Reporter, start};
use pleg::model::wall_time::system_clock;
use pleg::out::status_report::StatusReport;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::time::sleep;

mod access;
mod condition;
mod events;
mod taint;

fn config(double: &Double) -> KubernetesConfig {
    KubernetesConfig {
        node_name: Some("node-1".to_owned()),
        kubeconfig: Some(double.kubeconfig()),
        agents: 1,
        ..KubernetesConfig::default()
    }
}

fn reporter(config: KubernetesConfig) -> (Reporter, Registry) {
    let registry = Registry::new();
    let figures = Figures::register(&registry).unwrap();
    (start(config, figures, system_clock()).unwrap(), registry)
}

fn report(state: &str, reason: &str, message: &str, stuck: Value) -> StatusReport {
    let report = json!({
        "health": {"state": state, "reason": reason, "since": "2026-11-22T20:00:00Z", "message": message,
            "lastSeen": "2026-11-22T20:00:00Z", "ageSeconds": 0.1, "thresholdSeconds": 180.0},
        "kubeletView": {"ready": true, "message": "", "notReadyInSeconds": null},
        "relist": {"mode": "generic", "count": 1, "periodSeconds": 1.0, "lastDurationSeconds": 0.1,
            "lastKind": "list", "lastFailure": null, "sweeping": false},
        "stuck": stuck, "failing": [], "blind": [], "inFlight": [],
        "stream": {"state": "off", "events": 0, "missed": 0, "reconnects": 0},
        "kernel": {"state": "off", "watched": 0, "why": null},
        "runtime": {"name": null, "version": null, "apiVersion": null, "endpoint": "unix:///x"},
        "pods": 2, "containers": {},
    });
    serde_json::from_value(report).unwrap()
}

fn healthy() -> StatusReport {
    report("Healthy", "AllSeen", "all pods are up to date", json!([]))
}

fn stuck() -> StatusReport {
    let call = json!({"call": "ContainerStatus", "id": "abc", "container": "app", "sinceSeconds": 12.3,
        "pod": {"uid": "pod-uid", "namespace": "shop", "name": "web-1"}});
    let message = "all pods are up to date except: ContainerStatus of app in shop/web-1 (abc) has \
                   not answered for 12s";
    report("Degraded", "ContainerStuck", message, json!([call]))
}

fn unhealthy() -> StatusReport {
    let message = "PLEG is not healthy: pleg was last seen active 3m1s ago";
    report("Unhealthy", "RuntimeSilent", message, json!([]))
}

async fn says(double: &Double, status: &str, reason: &str) {
    until(&format!("{status} {reason}"), || {
        let condition = double.condition("PLEGUnhealthy");
        condition.is_some_and(|it| it["status"] == status && it["reason"] == reason)
    })
    .await;
}
