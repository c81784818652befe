//! The findings of a recording.

use causes::finding::{Confidence, Finding};
use recorder::fold::Fold;
use recorder::{Entry, Recorded};
use serde_json::json;

use super::{at, began, healthy, status};
use crate::support::time;

fn diagnosed(seconds: u64, confidence: &str, pid: u32) -> Entry {
    let finding = json!({"cause": "container-status-lock", "title": "t", "verdict": "problem",
        "sentence": format!("shim {pid} is stopped"), "confidence": confidence,
        "culprit": {"pid": pid, "process": "containerd-shim"}, "evidence": ["state T"],
        "advice": [format!("kill -CONT {pid}")], "fixedIn": ["none"]});
    let diagnosed = json!({"began": time(seconds), "findings": [finding],
        "bundle": "/var/lib/pleg/bundles/x.json.gz"});
    at(
        seconds + 9,
        Recorded::Diagnosed(serde_json::from_value(diagnosed).unwrap()),
    )
}

/// A status that shows the leading finding of a diagnosis at that time.
fn with_finding(seconds: u64, cause: &str, diagnosed: u64) -> Entry {
    let finding = json!({"cause": cause, "sentence": "it is so", "confidence": "high",
        "time": time(diagnosed).to_string()});
    status(seconds, &[("/finding", finding)])
}

fn findings(entries: Vec<Entry>) -> Vec<Finding> {
    let mut fold = Fold::default();
    entries.into_iter().for_each(|entry| fold.take(entry));
    fold.findings()
}

#[test]
fn the_findings_of_a_recovered_node_are_past_and_keep_culprit_evidence_and_advice() {
    let lock = "container-status-lock";
    let problem = vec![
        began(0),
        diagnosed(10, "medium", 7),
        with_finding(20, lock, 10),
        diagnosed(70, "certain", 7),
        with_finding(80, lock, 70),
    ];
    let [now] = &findings(problem.clone())[..] else {
        panic!("one fault");
    };
    assert!(!now.past);
    let recovered = [problem, vec![healthy(100)]].concat();
    let [past] = &findings(recovered)[..] else {
        panic!("one fault");
    };
    assert!(past.past && past.past_note().starts_with("past, found at "));
    assert_eq!(past.found_at, Some(time(70)));
    assert_eq!(past.confidence, Confidence::Certain);
    assert_eq!(past.culprit.pid, Some(7));
    assert_eq!(past.advice, ["kill -CONT 7"]);
    assert_eq!(past.evidence.last().unwrap(), "state T");
    assert!(past.evidence[0].contains("--from /var/lib/pleg/bundles/x.json.gz"));
    assert_eq!(past.said(), "shim 7 is stopped");
}

#[test]
fn another_culprit_is_another_fault_and_an_older_recording_has_the_advice_of_the_page() {
    let two = vec![
        diagnosed(10, "high", 7),
        diagnosed(70, "certain", 8),
        healthy(100),
    ];
    let pids = |entries| {
        let all: Vec<Finding> = findings(entries);
        all.iter().map(|it| it.culprit.pid).collect::<Vec<_>>()
    };
    assert_eq!(pids(two), [Some(8), Some(7)]);

    let older = vec![with_finding(20, "disk-full", 10), healthy(100)];
    let [past] = &findings(older)[..] else {
        panic!("one fault");
    };
    assert!(past.past && !past.advice.is_empty());
    assert_eq!(past.said(), "it is so");
    let unknown = vec![with_finding(20, "of-a-newer-pleg", 10), healthy(100)];
    assert_eq!(findings(unknown), []);
}
