//! A status report for tests.

use pleg::out::status_report::StatusReport;
use serde_json::json;

/// A report with this health, in which the calls of these containers are stuck.
pub(crate) fn report(state: &str, reason: &str, stuck: &[&str]) -> StatusReport {
    let stuck: Vec<_> = stuck
        .iter()
        .map(|id| {
            json!({"call": "ContainerStatus", "id": id, "container": "app", "sinceSeconds": 5.0,
                "pod": {"uid": "u", "namespace": "n", "name": "p"}})
        })
        .collect();
    let time = "2026-11-22T20:00:00Z";
    let report = json!({
        "health": {"state": state, "reason": reason, "since": time, "message": "",
            "lastSeen": time, "ageSeconds": 0.1, "thresholdSeconds": 180.0},
        "kubeletView": {"ready": true, "message": "", "notReadyInSeconds": null},
        "relist": {"mode": "generic", "count": 1, "periodSeconds": 1.0,
            "lastDurationSeconds": 0.1, "lastKind": "list", "lastFailure": null,
            "sweeping": false},
        "stuck": stuck, "failing": [], "blind": [], "inFlight": [],
        "stream": {"state": "off", "events": 0, "missed": 0, "reconnects": 0},
        "kernel": {"state": "off", "watched": 0, "why": null},
        "runtime": {"name": null, "version": null, "apiVersion": null, "endpoint": "unix:///x"},
        "pods": 2, "containers": {},
    });
    serde_json::from_value(report).unwrap()
}
