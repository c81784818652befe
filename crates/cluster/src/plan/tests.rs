use pleg::model::wall_time::WallTime;
use pleg::out::status_report::StatusReport;
use serde_json::json;

use super::*;

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

fn node() -> Seen {
    let node = json!({"metadata": {"name": "n", "uid": "u"}});
    Seen::There(serde_json::from_value(node).unwrap())
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
    let mut plan = Plan::new(&config, began, Rng::with_seed(seed));
    plan.on_node(node(), at(began, 0.0));
    plan
}

/// Does what is due at this time; says when, and what it was.
fn written(plan: &mut Plan, began: Instant, seconds: f64) -> Vec<Kind> {
    let mut kinds = Vec::new();
    while let Some(write) = plan.next(at(began, seconds)) {
        plan.written(&write, None, at(began, seconds).instant);
        kinds.push(write.kind());
    }
    kinds
}

#[tokio::test(start_paused = true)]
async fn at_rest_a_node_writes_once_in_five_minutes() {
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
async fn nodes_that_were_started_together_are_not_confirmed_together() {
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
async fn what_nobody_reports_any_more_is_not_confirmed() {
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
async fn nothing_is_said_before_anything_is_known() {
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
    // A condition and an event each, and some heartbeats.
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
async fn a_flood_of_troubles_is_ten_events_and_one_more_a_minute() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    let mut events = 0;
    for second in 0..600 {
        let report = match second % 2 {
            0 => report("Healthy", "AllSeen"),
            _ => report("Degraded", "ListStuck"),
        };
        plan.on_report(&report, at(began, f64::from(second)));
        let kinds = written(&mut plan, began, f64::from(second));
        events += kinds.iter().filter(|kind| **kind == Kind::Event).count();
    }
    assert!((15..=21).contains(&events), "{events}");
    assert!(plan.left_out() > 200);
}
