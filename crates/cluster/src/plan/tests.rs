use pleg::model::wall_time::WallTime;
use pleg::out::status_report::StatusReport;
use serde_json::json;

use super::*;
use crate::condition::Status;
use crate::episodes::{Episodes, Regarding};

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

/// A report of one stuck container in a separate pod.
fn stuck(pod: u32) -> StatusReport {
    let mut report = report("Degraded", "ContainerStuck");
    let call = json!({"call": "ContainerStatus", "id": format!("id-{pod}"), "container": "app",
        "sinceSeconds": 4.0,
        "pod": {"uid": "uid", "namespace": "shop", "name": format!("web-{pod}")}});
    report.stuck = vec![serde_json::from_value(call).unwrap()];
    report
}

/// The events that are written at this time.
fn events_written(plan: &mut Plan, began: Instant, seconds: f64) -> Vec<NewEvent> {
    let mut events = Vec::new();
    while let Some(write) = plan.next(at(began, seconds)) {
        plan.written(&write, at(began, seconds).instant);
        if let Write::Event(event, _) = write {
            events.push(event);
        }
    }
    events
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_problems_is_ten_events_and_one_more_a_minute() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    let mut events = 0;
    for second in 0..600 {
        let report = match second % 2 {
            0 => report("Healthy", "AllSeen"),
            _ => stuck(second),
        };
        plan.on_report(&report, at(began, f64::from(second)));
        let written = events_written(&mut plan, began, f64::from(second));
        events += written.iter().filter(|it| it.series.is_none()).count();
    }
    assert!((15..=21).contains(&events), "{events}");
    assert!(plan.left_out() > 200);
}

#[tokio::test(start_paused = true)]
async fn a_recurring_problem_is_one_event_whose_series_counts_it() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    let mut written = Vec::new();
    for second in 0..1200 {
        let report = match second {
            601.. => report("Healthy", "AllSeen"),
            _ if second % 2 == 0 => report("Healthy", "AllSeen"),
            _ => stuck(7),
        };
        plan.on_report(&report, at(began, f64::from(second)));
        written.extend(events_written(&mut plan, began, f64::from(second)));
    }
    assert_eq!(plan.left_out(), 0);
    let created = written.iter().filter(|it| it.series.is_none());
    let reasons: Vec<_> = created.map(|it| it.reason).collect();
    let begin_and_end = [
        "ContainerStuck",
        "ContainerStuck",
        "ContainerAnswers",
        "AllSeen",
    ];
    let mut sorted = reasons.clone();
    sorted.sort_unstable();
    let mut expected = begin_and_end.to_vec();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    assert!(written.len() <= 4 * 4, "{}", written.len());
    let last = written.iter().rfind(|it| it.reason == "ContainerStuck");
    let (count, last) = last.unwrap().series.unwrap();
    assert_eq!(count, 300, "the last one is counted too");
    assert_eq!(last, at(began, 599.0).wall);
}

#[tokio::test(start_paused = true)]
async fn a_problem_with_another_culprit_or_after_a_long_time_is_a_new_event() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    let mut written = Vec::new();
    for (second, pod) in [(1.0, 1), (20.0, 2), (1000.0, 2)] {
        plan.on_report(&stuck(pod), at(began, second));
        written.extend(events_written(&mut plan, began, second + 2.0));
        plan.on_report(&report("Healthy", "AllSeen"), at(began, second + 3.0));
        written.extend(events_written(&mut plan, began, second + 5.0));
    }
    let stuck = written.iter().filter(|it| it.reason == "ContainerStuck");
    let series: Vec<_> = stuck.map(|it| it.series).collect();
    assert_eq!(series, [None; 6], "one on each pod and one on the Node");
}

#[tokio::test(start_paused = true)]
async fn an_event_about_an_earlier_node_object_is_not_continued() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    let mut written = Vec::new();
    for (second, uid) in [(1.0, "u"), (20.0, "another")] {
        let node = json!({"metadata": {"name": "n", "uid": uid}});
        let node = NodeChange::Exists(serde_json::from_value(node).unwrap());
        plan.on_node(node, at(began, second));
        plan.on_report(&stuck(1), at(began, second));
        written.extend(events_written(&mut plan, began, second + 2.0));
        plan.on_report(&report("Healthy", "AllSeen"), at(began, second + 3.0));
        written.extend(events_written(&mut plan, began, second + 5.0));
    }
    let about = written.iter().filter(|it| it.reason == "ContainerStuck");
    let (of_node, of_pod): (Vec<_>, Vec<_>) = about.partition(|it| it.regarding == Regarding::Node);
    let is_series = |events: Vec<&NewEvent>| -> Vec<bool> {
        events.iter().map(|it| it.series.is_some()).collect()
    };
    assert_eq!(is_series(of_node), [false, false]);
    assert_eq!(is_series(of_pod), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn recurrences_while_the_server_is_unreachable_are_counted_in_the_queued_event() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    let mut seconds = 0.0;
    for _ in 0..5 {
        plan.on_report(&report("Degraded", "ListStuck"), at(began, seconds));
        plan.on_report(&report("Healthy", "AllSeen"), at(began, seconds + 1.0));
        let write = plan.next(at(began, seconds + 2.0));
        if let Some(write) = write {
            plan.failed(&write, &busy(), at(began, seconds + 2.0).instant);
        }
        seconds += 30.0;
    }
    let mut written = Vec::new();
    for _ in 0..400 {
        plan.on_report(&report("Healthy", "AllSeen"), at(began, seconds));
        written.extend(events_written(&mut plan, began, seconds));
        seconds += 2.0;
    }
    let stuck: Vec<_> = written
        .iter()
        .filter(|it| it.reason == "ListStuck")
        .collect();
    let counts: Vec<_> = stuck
        .iter()
        .map(|it| it.series.map(|(count, _)| count))
        .collect();
    assert_eq!(counts.last(), Some(&Some(5)), "{counts:?}");
    assert!(counts.len() <= 2, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn to_a_recreated_node_everything_is_written_at_once_despite_earlier_failures() {
    let began = Instant::now();
    let config = KubernetesConfig {
        agents: 1,
        taint: vec![crate::TaintWhen::Unhealthy],
        ..KubernetesConfig::default()
    };
    let mut plan = Plan::new(&config, "node-1", began, Rng::with_seed(1));
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

/// The conditions of a Node, and its taints.
fn node_with(conditions: serde_json::Value, taints: serde_json::Value) -> NodeChange {
    let node = json!({
        "metadata": {"name": "n", "uid": "u"},
        "spec": {"taints": taints},
        "status": {"conditions": conditions},
    });
    NodeChange::Exists(serde_json::from_value(node).unwrap())
}

fn busy() -> Failure {
    Failure::Busy {
        code: 503,
        retry_after: Duration::ZERO,
    }
}

/// The time until a write of this kind.
fn wait_for(plan: &mut Plan, kind: Kind, began: Instant, from: f64) -> f64 {
    let mut seconds = from;
    while seconds < from + 20_000.0 {
        if let Some(write) = plan.next(at(began, seconds))
            && write.kind() == kind
        {
            return seconds - from;
        }
        seconds += 0.1;
    }
    panic!("it is never written");
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_corrected_if_the_content_has_changed() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    plan.on_report(&report("Healthy", "AllSeen"), at(began, 0.0));
    written(&mut plan, began, 1.0);
    plan.on_report(&report("Unhealthy", "ListStuck"), at(began, 20.0));
    let write = plan.next(at(began, 21.0)).unwrap();
    plan.failed(&write, &Failure::TimedOut, at(began, 36.0).instant);
    // The last written content, if known.
    plan.on_report(&report("Healthy", "AllSeen"), at(began, 36.0));
    assert!(wait_for(&mut plan, Kind::Condition, began, 36.0) < 5.0);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_a_server_that_has_just_started_is_retried_within_seconds() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    plan.on_report(&report("Healthy", "AllSeen"), at(began, 0.0));
    let write = plan.next(at(began, 1.0)).unwrap();
    let forbidden = Failure::Forbidden("patch nodes/status", String::new());
    plan.failed(&write, &forbidden, at(began, 1.0).instant);
    assert!(wait_for(&mut plan, Kind::Condition, began, 1.0) < 2.0);
    for _ in 0..4 {
        plan.failed(&write, &forbidden, at(began, 1.0).instant);
    }
    assert!(wait_for(&mut plan, Kind::Condition, began, 1.0) > 250.0);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_always_refused_delays_no_other() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    plan.on_report(&report("Degraded", "ListStuck"), at(began, 0.0));
    plan.on_report(&report("Healthy", "AllSeen"), at(began, 1.0));
    let condition = plan.next(at(began, 10.0)).unwrap();
    plan.written(&condition, at(began, 10.0).instant);
    let first = plan.next(at(began, 10.0)).unwrap();
    let forbidden = Failure::Forbidden("create events.k8s.io", "it is terminated".to_owned());
    for _ in 0..4 {
        plan.failed(&first, &forbidden, at(began, 10.0).instant);
    }
    wait_for(&mut plan, Kind::Event, began, 10.0);
    let next = plan.next(at(began, 10_000.0));
    assert_ne!(next, Some(first));
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_another_client_removes_is_set_again_at_most_once_a_minute() {
    let began = Instant::now();
    let config = KubernetesConfig {
        agents: 1,
        taint: vec![crate::TaintWhen::Unhealthy],
        ..KubernetesConfig::default()
    };
    let mut plan = Plan::new(&config, "node-1", began, Rng::with_seed(1));
    let bare = || node_with(json!([]), json!([]));
    plan.on_node(bare(), at(began, 0.0));
    let mut taints = 0;
    for second in 0..600 {
        plan.on_report(
            &report("Unhealthy", "ListStuck"),
            at(began, f64::from(second)),
        );
        let kinds = written(&mut plan, began, f64::from(second));
        taints += kinds.iter().filter(|kind| **kind == Kind::Taint).count();
        plan.on_node(bare(), at(began, f64::from(second) + 0.5));
    }
    assert!((9..=11).contains(&taints), "{taints}");
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_another_owner_releases_is_taken_over() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    let theirs = json!([{"type": "PLEGUnhealthy", "status": "True"}]);
    plan.on_node(node_with(theirs, json!([])), at(began, 0.0));
    plan.on_report(&report("Healthy", "AllSeen"), at(began, 0.0));
    let write = plan.next(at(began, 1.0)).unwrap();
    let conflict = Failure::Conflict("theirs".to_owned());
    plan.failed(&write, &conflict, at(began, 1.0).instant);
    plan.on_report(&report("Unhealthy", "ListStuck"), at(began, 2.0));
    assert_eq!(
        plan.conditions[&OurCondition::PlegUnhealthy]
            .due(None)
            .map(|due| { (due - began).as_secs() }),
        Some(3601)
    );
    plan.on_node(node_with(json!([]), json!([])), at(began, 5.0));
    plan.on_report(&report("Unhealthy", "ListStuck"), at(began, 5.0));
    let waited = wait_for(&mut plan, Kind::Condition, began, 5.0);
    assert!(waited < 20.0, "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_another_client_removes_is_written_again_a_minute_after_the_last_write() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    plan.on_report(&report("Healthy", "AllSeen"), at(began, 0.0));
    assert_eq!(written(&mut plan, began, 1.0), [Kind::Condition]);
    plan.on_node(node_with(json!([]), json!([])), at(began, 10.0));
    let mut again = None;
    for second in 10..120 {
        plan.on_report(&report("Healthy", "AllSeen"), at(began, f64::from(second)));
        let kinds = written(&mut plan, began, f64::from(second));
        again = again.or((!kinds.is_empty()).then_some(second));
    }
    assert_eq!(again, Some(61));
}

#[tokio::test(start_paused = true)]
async fn a_cause_is_reported_although_all_calls_are_answered() {
    let finding = json!({"cause": "runc-hung", "sentence": "`runc kill` has not returned for 31s",
        "confidence": "high", "time": "2026-11-22T20:00:00Z"});
    let mut report = report("Healthy", "AllSeen");
    let healthy = OurCondition::PlegUnhealthy.content(&report).unwrap();
    report.finding = serde_json::from_value(finding).unwrap();
    let problem = OurCondition::PlegUnhealthy.content(&report).unwrap();
    assert_eq!(problem.status, Status::False);
    assert!(
        problem.message.contains("`runc kill`"),
        "{}",
        problem.message
    );
    assert!(problem.differs(&healthy) && healthy.differs(&problem));
    assert_eq!(problem.summary.unwrap().cause.as_deref(), Some("runc-hung"));
    assert_eq!(healthy.summary.unwrap().cause, None);

    let began = Instant::now();
    let mut episodes = Episodes::new(began);
    for second in [0.0, 20.0] {
        let Moment { instant, wall } = at(began, second);
        episodes.on_report(&report, wall, instant);
    }
    let event = episodes.next().unwrap().clone();
    assert_eq!(event.reason, "Diagnosed");
    assert!(event.note.contains("`runc kill`"), "{}", event.note);
    episodes.done(&event);
    assert!(episodes.next().is_none(), "once");
}

#[tokio::test(start_paused = true)]
async fn events_are_created_even_if_the_node_may_not_be_read() {
    let began = Instant::now();
    let config = KubernetesConfig {
        agents: 1,
        ..KubernetesConfig::default()
    };
    let mut plan = Plan::new(&config, "node-1", began, Rng::with_seed(1));
    plan.on_unreadable();
    plan.on_report(&report("Unhealthy", "ListStuck"), at(began, 0.0));
    let condition = plan.next(at(began, 10.0)).unwrap();
    plan.failed(&condition, &busy(), at(began, 10.0).instant);
    let event = plan.next(at(began, 10.0));
    assert!(
        matches!(&event, Some(Write::Event(_, uid)) if uid == "node-1"),
        "{event:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_earlier_write_that_is_performed_after_a_newer_one_is_corrected() {
    let began = Instant::now();
    let mut plan = plan(1, 1, began);
    plan.on_report(&report("Healthy", "AllSeen"), at(began, 0.0));
    assert_eq!(written(&mut plan, began, 1.0), [Kind::Condition]);
    let content = OurCondition::PlegUnhealthy.content(&report("Healthy", "AllSeen"));
    let content = content.unwrap();
    let newer = json!([{"type": "PLEGUnhealthy", "status": content.status.as_str(),
        "reason": content.reason, "message": content.message}]);
    let late = json!([{"type": "PLEGUnhealthy", "status": "False", "reason": "ListStuck",
        "message": "the list hangs"}]);
    let mut again = None;
    for second in 2..120 {
        let seen = match (second, again) {
            (20.., None) => late.clone(),
            _ => newer.clone(),
        };
        plan.on_node(node_with(seen, json!([])), at(began, f64::from(second)));
        plan.on_report(&report("Healthy", "AllSeen"), at(began, f64::from(second)));
        let kinds = written(&mut plan, began, f64::from(second));
        again = again.or((!kinds.is_empty()).then_some(second));
    }
    assert_eq!(again, Some(61), "a minute after the last write");
}
