//! Which reports of an agent are recorded.

use std::time::Duration;

use recorder::changes::Changes;
use recorder::{Entry, Recorded};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{report, time};

/// The seconds in which a report is recorded, with a report each second.
fn recorded(
    seconds: u64,
    report: impl Fn(u64) -> pleg::out::status_report::StatusReport,
) -> Vec<u64> {
    let began = Instant::now();
    let mut changes = Changes::new(began);
    let is_due =
        |second: &u64| changes.is_due(&report(*second), began + Duration::from_secs(*second));
    (0..seconds).filter(is_due).collect()
}

#[test]
fn a_status_without_a_change_is_recorded_once_a_minute() {
    let seconds = recorded(200, |second| {
        let mut report = report("Healthy", "AllSeen", 0);
        report.health.age_seconds = Some(second as f64);
        report.relist.count = second;
        report.stream.events = second;
        report
    });
    assert_eq!(seconds, [0, 60, 120, 180]);
}

#[test]
fn a_change_is_recorded_at_once_and_an_age_is_not_a_change() {
    let seconds = recorded(50, |second| {
        let mut report = match second {
            10..30 => report("Degraded", "ContainerStuck", 1),
            30..40 => report("Degraded", "ContainerStuck", 2),
            _ => report("Healthy", "AllSeen", 0),
        };
        for call in &mut report.stuck {
            call.since_seconds = second as f64;
        }
        report
    });
    assert_eq!(seconds, [0, 10, 30, 40]);
}

#[test]
fn a_change_of_health_is_recorded_at_once() {
    let began = Instant::now();
    let mut changes = Changes::new(began);
    let mut is_due = |millis, state, stuck| {
        let report = report(state, "ContainerStuck", stuck);
        changes.is_due(&report, began + Duration::from_millis(millis))
    };
    assert!(is_due(0, "Healthy", 0));
    assert!(is_due(10, "Degraded", 1));
    assert!(
        !is_due(20, "Degraded", 2),
        "the next status is soon enough for that"
    );
    assert!(is_due(30, "Healthy", 0));
}

#[test]
fn everything_of_interest_is_a_change() {
    let finding = json!({"cause": "disk-full", "sentence": "", "confidence": "high",
        "time": "2026-01-01T00:00:00Z"});
    let overdue = json!([{"call": "ListContainers", "id": null, "ageSeconds": 2.5}]);
    let failing = json!([{"call": "ContainerStatus", "id": "c", "container": null, "pod": null,
        "error": "no", "sinceSeconds": 1.0}]);
    for (pointer, value) in [
        ("/kubeletView/ready", json!(false)),
        ("/kubeletView/notReadyInSeconds", json!(100.0)),
        ("/inFlight", overdue),
        ("/failing", failing),
        ("/blind", json!(["newPods"])),
        ("/relist/sweeping", json!(true)),
        ("/stream/state", json!("retrying")),
        ("/kernel/state", json!("unavailable")),
        ("/runtime/version", json!("1.7")),
        ("/guard/mode", json!("pass")),
        ("/guard/unresponsive", json!(true)),
        ("/guard/guarding", json!(true)),
        ("/warnings", json!([finding])),
        ("/finding", finding),
    ] {
        let seconds = recorded(20, |second| {
            let report = report("Healthy", "AllSeen", 0);
            let mut json = serde_json::to_value(report).unwrap();
            json["warnings"] = json!([]);
            json["finding"] = json!(null);
            if second >= 5 {
                *json.pointer_mut(pointer).unwrap() = value.clone();
            }
            serde_json::from_value(json).unwrap()
        });
        assert_eq!(seconds, [0, 5], "{pointer}");
    }
}

#[test]
fn flapping_for_an_hour_is_recorded_for_a_minute_and_then_every_five_seconds() {
    let seconds = recorded(3600, |second| {
        report("Degraded", "ContainerStuck", second as usize % 2)
    });
    assert!(seconds.starts_with(&[0, 1, 2, 3, 4]));
    assert!(seconds.len() < 60 + 3600 / 5 + 20, "{}", seconds.len());
    let last = seconds.last().unwrap();
    assert!(*last > 3590);
}

#[test]
fn the_counters_of_a_guard_are_recorded_every_ten_seconds() {
    let seconds = recorded(40, |second| {
        let mut report = report("Healthy", "AllSeen", 0);
        report.guard.differences = second;
        report
    });
    assert_eq!(seconds, [0, 10, 20, 30]);
}

#[test]
fn long_lists_are_shortened_and_the_omitted_rows_are_counted() {
    let entry = Entry::status(time(0), report("Degraded", "RuntimeSilent", 1234));
    let Recorded::Status(status) = entry.what else {
        panic!("it is a status");
    };
    assert_eq!((status.report.stuck.len(), status.left_out), (100, 1134));
}

#[test]
fn initial_events_are_not_recorded() {
    let event = |initial: bool| {
        let json = json!({"kind": "event", "time": "2026-01-01T00:00:00Z", "type": "ContainerDied",
            "pod": {"uid": "u", "namespace": "n", "name": "p"}, "id": "c", "subject": "container",
            "container": "app", "exitCode": 1, "reason": null, "initial": initial,
            "source": "relist"});
        serde_json::from_value(json).unwrap()
    };
    assert!(Entry::published(event(true), None).is_none());
    assert!(Entry::published(event(false), None).is_some());
}
