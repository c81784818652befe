//! Events of problems.

use super::*;

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
