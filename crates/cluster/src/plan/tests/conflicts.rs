//! Refusals, lost answers, and changes by other clients.

use super::*;

/// A Node with these conditions and taints.
fn node_with(conditions: serde_json::Value, taints: serde_json::Value) -> NodeChange {
    let node = json!({
        "metadata": {"name": "n", "uid": "u"},
        "spec": {"taints": taints},
        "status": {"conditions": conditions},
    });
    NodeChange::Exists(serde_json::from_value(node).unwrap())
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
    // This is the last content that is known to have been written.
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
    let mut plan = tainting_plan(began);
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
        episodes.on_report(&report, at(began, second));
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
