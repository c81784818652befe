use pleg::model::wall_time::WallTime;
use pleg::out::status_report::StatusReport;
use serde_json::json;

use super::*;
use crate::condition::Status;
use crate::episodes::{Episodes, Regarding};

mod conflicts;
mod events;

/// The plan of the only agent, which also writes the taint.
fn tainting_plan(began: Instant) -> Plan {
    let config = KubernetesConfig {
        agents: 1,
        taint: vec![crate::TaintWhen::Unhealthy],
        ..KubernetesConfig::default()
    };
    Plan::new(&config, "node-1", began, Rng::with_seed(1))
}

fn busy() -> Failure {
    Failure::Busy {
        code: 503,
        retry_after: Duration::ZERO,
    }
}

fn report(state: &str, reason: &str) -> StatusReport {
    let report = json!({
        "health": {"state": state, "reason": reason, "since": "2026-11-22T20:00:00Z", "message": "so it is",
            "lastSeen": null, "ageSeconds": null, "thresholdSeconds": 180.0},
        "kubeletView": {"ready": true, "message": "", "notReadyInSeconds": null},
        "relist": {"mode": "generic", "count": 1, "periodSeconds": 1.0, "lastDurationSeconds": null,
            "lastKind": null, "lastFailure": null, "sweeping": false},
        "stuck": [], "failing": [], "blind": [], "inFlight": [],
        "stream": {"state": "off", "events": 0, "missed": 0, "reconnects": 0},
        "kernel": {"state": "off", "watched": 0, "why": null},
        "runtime": {"name": null, "version": null, "apiVersion": null, "endpoint": "unix:///x"},
        "pods": 0, "containers": {},
    });
    serde_json::from_value(report).unwrap()
}

fn node() -> NodeChange {
    let node = json!({"metadata": {"name": "n", "uid": "u"}});
    NodeChange::Exists(serde_json::from_value(node).unwrap())
}

fn at(began: Instant, seconds: f64) -> Moment {
    Moment {
        instant: began + Duration::from_secs_f64(seconds),
        wall: WallTime::from_unix_nanos(1_800_000_000_000_000_000 + (seconds * 1e9) as i64)
            .unwrap(),
    }
}

fn plan(agents: u32, seed: u64, began: Instant) -> Plan {
    let config = KubernetesConfig {
        agents,
        ..KubernetesConfig::default()
    };
    let mut plan = Plan::new(&config, "node-1", began, Rng::with_seed(seed));
    plan.on_node(node(), at(began, 0.0));
    plan
}

/// Performs the writes that are due at this time, and returns their kinds.
fn written(plan: &mut Plan, began: Instant, seconds: f64) -> Vec<Kind> {
    let mut kinds = Vec::new();
    while let Some(write) = plan.next(at(began, seconds)) {
        plan.written(&write, at(began, seconds).instant);
        kinds.push(write.kind());
    }
    kinds
}

#[tokio::test(start_paused = true)]
async fn a_quiet_node_writes_once_in_five_minutes() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    let mut writes = 0;
    for second in 0..3600 {
        plan.on_report(&report("Healthy", "AllSeen"), at(began, f64::from(second)));
        writes += written(&mut plan, began, f64::from(second)).len();
    }
    assert!((12..=13).contains(&writes), "{writes}");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_start_together_are_not_confirmed_together() {
    let began = Instant::now();
    let mut per_second = BTreeMap::<u64, u32>::new();
    for seed in 0..2000 {
        let mut plan = plan(1, seed, began);
        let mut now = began;
        for _ in 0..3 {
            let second = (now - began).as_secs_f64();
            plan.on_report(&report("Healthy", "AllSeen"), at(began, second));
            written(&mut plan, began, second + 0.1);
            let beat = plan.conditions[&OurCondition::PlegUnhealthy].beat.unwrap();
            *per_second.entry((beat - began).as_secs()).or_default() += 1;
            now = beat;
        }
    }
    let most = per_second.values().max();
    assert!(most.is_some_and(|most| *most < 40), "{most:?}");
}

#[tokio::test(start_paused = true)]
async fn a_condition_without_new_reports_is_not_confirmed() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    for second in 0..100 {
        plan.on_report(&report("Healthy", "AllSeen"), at(began, f64::from(second)));
        written(&mut plan, began, f64::from(second));
    }
    let later = (100..3600).flat_map(|second| written(&mut plan, began, f64::from(second)));
    assert_eq!(later.collect::<Vec<_>>(), []);
}

#[tokio::test(start_paused = true)]
async fn no_condition_is_written_before_the_first_observation() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    plan.on_report(&report("Starting", "Starting"), at(began, 0.0));
    assert_eq!(written(&mut plan, began, 100.0), []);
}

#[tokio::test(start_paused = true)]
async fn one_fault_on_five_thousand_nodes_is_at_most_two_hundred_writes_a_second() {
    let began = Instant::now();
    let mut per_second = BTreeMap::<u64, u32>::new();
    let mut writes = 0;
    for seed in 0..5000 {
        let mut plan = plan(5000, seed, began);
        plan.on_report(&report("Healthy", "AllSeen"), at(began, 0.0));
        written(&mut plan, began, 100.0);
        let mut now = at(began, 200.0).instant;
        plan.on_report(&report("Unhealthy", "RuntimeSilent"), at(began, 200.0));
        while let Some(next) = plan.alarm(now) {
            now = next;
            let second = (now - began).as_secs_f64();
            let count = written(&mut plan, began, second).len() as u32;
            writes += count;
            *per_second.entry(second as u64).or_default() += count;
        }
    }
    let most = per_second.values().max();
    assert!(most.is_some_and(|most| *most <= 200), "{most:?}");
    // One condition and one event each, and some heartbeats.
    assert!((10_000..10_500).contains(&writes), "{writes}");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_one_node_is_written_within_a_second() {
    let began = Instant::now();
    let mut plan = plan(KubernetesConfig::default().agents, 3, began);
    plan.on_report(&report("Healthy", "AllSeen"), at(began, 0.0));
    written(&mut plan, began, 10.0);
    plan.on_report(&report("Unhealthy", "ListStuck"), at(began, 20.0));
    assert_eq!(written(&mut plan, began, 20.8), [Kind::Condition]);
}

#[tokio::test(start_paused = true)]
async fn to_a_recreated_node_everything_is_written_at_once_despite_earlier_failures() {
    let began = Instant::now();
    let mut plan = tainting_plan(began);
    plan.on_node(node(), at(began, 0.0));
    plan.on_report(&report("Unhealthy", "ListStuck"), at(began, 0.0));
    let writes = written(&mut plan, began, 5.0);
    assert!(writes.contains(&Kind::Taint), "{writes:?}");
    plan.on_report(&report("Unhealthy", "RuntimeSilent"), at(began, 20.0));
    let write = plan.next(at(began, 21.0)).unwrap();
    assert_eq!(write.kind(), Kind::Condition);
    let entry = write.clone();
    for _ in 0..10 {
        plan.failed(&entry, &busy(), at(began, 21.0).instant);
        plan.failed(&Write::Taint(json!([])), &busy(), at(began, 21.0).instant);
    }
    plan.on_report(&report("Unhealthy", "RuntimeSilent"), at(began, 22.0));
    assert_eq!(plan.next(at(began, 22.0)), None, "both wait for minutes");
    plan.on_node(NodeChange::Deleted, at(began, 22.0));
    let node = json!({"metadata": {"name": "n", "uid": "another"}});
    let node = NodeChange::Exists(serde_json::from_value(node).unwrap());
    plan.on_node(node, at(began, 23.0));
    let writes = written(&mut plan, began, 23.0);
    for kind in [Kind::Condition, Kind::Taint] {
        assert!(writes.contains(&kind), "{writes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_being_written_when_the_node_was_recreated_is_written_to_the_new_one() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    plan.on_report(&report("Healthy", "AllSeen"), at(began, 0.0));
    let write = plan.next(at(began, 1.0)).expect("the condition is due");
    let json = json!({"metadata": {"name": "n", "uid": "another"}});
    let another = NodeChange::Exists(serde_json::from_value(json).unwrap());
    plan.on_node(another, at(began, 1.1));
    // The answer does not show to which of the two Nodes the condition was written.
    plan.written(&write, at(began, 1.2).instant);
    assert_eq!(written(&mut plan, began, 1.3), [Kind::Condition]);
    assert_eq!(written(&mut plan, began, 1.4), []);
}
