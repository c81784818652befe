//! Subscribers: each begins with the present state, and none loses the final state.

use crate::node::{Node, line, many, seconds};
use pleg::model::event::EventType;
use pleg::out::record::Record;
use pleg::out::subscribers::Subscription;
use pleg::runtime::{CallError, Rpc};
use sim::Fault;
use tokio::time::timeout;

pub async fn read_all(subscription: &mut Subscription) -> Vec<Record> {
    let mut records = Vec::new();
    while let Ok(Some(record)) = timeout(seconds(0.1), subscription.next()).await {
        records.push(record);
    }
    records
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_begins_with_the_present_state() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app", "done"]);
        sim.exit("a", "done", 7);
    })
    .await;
    node.at(5.5).await;
    let mut late = node.pleg.subscribe().await.unwrap();
    let lines: Vec<String> = read_all(&mut late).await.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "Started a/app.0 (initial)",
            "Died a/done.0 with 7 (initial)",
            "Started a.0 (initial)",
            "synced 1 pods, 2 containers",
            "Healthy: all pods are up to date"
        ]
    );
    node.sim.exit("a", "app", 1);
    node.at(7.0).await;
    let lines: Vec<String> = read_all(&mut late).await.iter().map(line).collect();
    assert_eq!(lines, ["Died a/app.0 with 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_begins_before_the_first_pass_receives_the_problem() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.stop();
    })
    .await;
    node.at(20.0).await;
    let mut early = node.pleg.subscribe().await.unwrap();
    let records = read_all(&mut early).await;
    assert!(
        matches!(&records[..], [Record::Health(health)] if !health.stuck.is_empty()),
        "{records:?}"
    );
}

/// Enforces O5.
#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_delays_no_other_and_still_receives_the_final_state() {
    let node = Node::watch(|sim| {
        for number in 0..800 {
            sim.run(&format!("p{number}"), &["app"]);
        }
    })
    .await;
    node.at(0.5).await;
    let mut slow = node.pleg.subscribe().await.unwrap();
    let first = read_all(&mut slow).await;
    assert_eq!(first.len(), 1602);
    node.reported();

    for round in 0..3 {
        for number in 0..800 {
            let now = node.sim.now();
            node.sim
                .world()
                .pod(&format!("p{number}"))
                .restart("app", round, now);
        }
        node.at(f64::from(round) + 1.9).await;
    }
    let fast = node.reported();
    assert_eq!(fast.matches("Died").count(), 2400);
    assert!(!fast.contains("gap"));

    let records = read_all(&mut slow).await;
    let Record::Gap {
        conflated,
        pods,
        all,
        ..
    } = &records[0]
    else {
        panic!("a gap comes first: {:?}", records[0]);
    };
    let apart = records[1..]
        .iter()
        .filter(|record| matches!(record, Record::Event(event) if !event.initial))
        .count();
    assert_eq!(
        *conflated as usize + apart,
        4800,
        "every event is reported or counted"
    );
    // Too many pods to name.
    assert!(*all && pods.is_empty());

    // The last event of each container is its present state.
    let mut last = std::collections::BTreeMap::new();
    for record in &records {
        if let Record::Event(event) = record {
            last.insert(event.id.clone(), event.event_type);
        }
    }
    for number in 0..800 {
        for attempt in 0..4 {
            let id = format!("p{number}/app.{attempt}");
            let expected = match attempt {
                3 => EventType::ContainerStarted,
                _ => EventType::ContainerDied,
            };
            assert_eq!(last[&Some(id.as_str().into())], expected, "{id}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_begins_while_a_container_is_not_found_receives_it_as_running() {
    let node = Node::watch(|sim| {
        many(sim, 3, &["app"]);
        sim.run("victim", &["app", "side"]);
    })
    .await;
    node.at(8.4).await;
    let not_found = CallError::NotFound("for a moment".into());
    let app = Some("victim/app.0");
    node.sim
        .fault(Rpc::ContainerStatus, app, Fault::Fail(not_found));
    node.sim.exit("victim", "side", 1);
    node.pass(0.8).await;
    let mut subscription = node.pleg.subscribe().await.unwrap();
    node.sim.lift_all();
    node.pass(60.0).await;
    let records = read_all(&mut subscription).await;
    let reported: Vec<String> = records.iter().map(line).collect();
    let is_reported = reported
        .iter()
        .any(|it| it.starts_with("Started victim/app.0"));
    assert!(is_reported, "{reported:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_begins_between_two_lists_receives_the_next_changes_once() {
    let node = Node::watch(|sim| {
        many(sim, 3, &["app"]);
        sim.run("victim", &["app", "side"]);
    })
    .await;
    node.at(8.4).await;
    node.sim.exit("victim", "side", 1);
    let slow = Fault::Slow(seconds(0.2));
    let sandbox = Some("victim.0");
    node.sim.fault(Rpc::PodSandboxStatus, sandbox, slow.clone());
    let side = Some("victim/side.0");
    node.sim.fault(Rpc::ContainerStatus, side, slow);
    node.at(9.05).await;
    // The inspection that is in progress shows this, and so does the next list.
    let now = node.sim.now();
    {
        let mut world = node.sim.world();
        let pod = world.pod("victim");
        pod.stop(now);
        pod.create("late", now).start(now);
    }
    node.at(9.6).await;
    let mut subscription = node.pleg.subscribe().await.unwrap();
    node.pass(20.0).await;
    let records = read_all(&mut subscription).await;
    let reported: Vec<String> = records.iter().map(line).collect();
    for what in [
        "Died victim.0",
        "Died victim/app.0",
        "Died victim/side.0",
        "Started victim/late.0",
    ] {
        let times = reported.iter().filter(|it| it.starts_with(what)).count();
        assert_eq!(times, 1, "{what}: {reported:#?}");
    }
}
