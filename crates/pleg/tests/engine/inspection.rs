//! Inspections that fail, are requested, or get stuck: nothing is lost, and no other pod waits.

use crate::node::{Node, broken, seconds};
use pleg::Config;
use pleg::model::listed::SandboxState;
use pleg::out::failure::InspectError;
use pleg::runtime::{CallError, Rpc};
use sim::Fault;

#[tokio::test(start_paused = true)]
async fn a_failed_inspection_is_cached_and_its_events_are_reported_once_it_succeeds() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
        sim.fault(Rpc::ContainerStatus, Some("b/app.0"), broken());
    })
    .await;
    node.at(0.5).await;
    node.assert_reported(
        "0.000 Started a/app.0 (initial)
         0.000 Started a.0 (initial)
         0.000 synced 1 pods, 1 containers
         0.000 Healthy: ContainerStatus of app in default/b (b/app.0) fails: \
         the runtime answered Unknown: broken; all other pods are up to date",
    );
    let entry = node.pleg.cache().get(&"uid-b".into());
    assert!(
        matches!(entry.error, Some(InspectError::Failed { .. })),
        "{entry:?}"
    );

    node.sim.lift_all();
    let inspections = node.sim.calls_made(Rpc::PodSandboxStatus);
    node.at(1.5).await;
    node.assert_reported(
        "1.000 Started b/app.0
         1.000 Started b.0",
    );
    assert_eq!(node.pleg.cache().get(&"uid-b".into()).error, None);
    assert_eq!(
        node.sim.calls_made(Rpc::PodSandboxStatus),
        inspections + 1,
        "a was not inspected again"
    );
}

/// Enforces O2.
#[tokio::test(start_paused = true)]
async fn an_exit_is_reported_once_even_if_its_inspection_fails_many_times() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    node.sim.exit("a", "app", 9);
    node.sim.fault(Rpc::PodSandboxStatus, None, broken());
    node.at(7.5).await;
    node.assert_reported("");
    node.sim.lift_all();
    node.at(12.5).await;
    node.assert_reported("8.000 Died a/app.0 with 9");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_was_removed_before_its_inspection_is_skipped() {
    let node = Node::watch(|sim| sim.run("a", &["app", "other"])).await;
    node.at(0.5).await;
    node.reported();
    node.sim.exit("a", "other", 1);
    let gone = Fault::Fail(CallError::NotFound("no such container".into()));
    node.sim.fault(Rpc::ContainerStatus, Some("a/app.0"), gone);
    node.at(1.5).await;
    node.assert_reported("1.000 Died a/other.0 with 1");
}

#[tokio::test(start_paused = true)]
async fn a_requested_inspection_ends_in_a_pod_sync() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    node.pleg.request_reinspect("uid-a".into());
    node.at(3.5).await;
    node.assert_reported("1.000 PodSync a");
}

#[tokio::test(start_paused = true)]
async fn a_requested_inspection_that_fails_is_repeated() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    node.sim.fault(Rpc::ContainerStatus, None, broken());
    node.pleg.request_reinspect("uid-a".into());
    node.at(2.5).await;
    node.assert_reported("");
    assert!(node.pleg.cache().get(&"uid-a".into()).error.is_some());
    node.sim.lift_all();
    node.at(4.5).await;
    node.assert_reported("3.000 PodSync a");
}

#[tokio::test(start_paused = true)]
async fn a_requested_inspection_that_finds_a_change_reports_only_the_change() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    node.pleg.request_reinspect("uid-a".into());
    node.sim.exit("a", "app", 1);
    node.at(3.5).await;
    node.assert_reported("1.000 Died a/app.0 with 1");
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_pod_is_not_inspected_without_a_request() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.pleg.request_reinspect("uid-of-no-pod".into());
    let made = node.sim.calls_made(Rpc::ContainerStatus);
    node.at(9.5).await;
    assert_eq!(node.sim.calls_made(Rpc::ContainerStatus), made);
}

#[tokio::test(start_paused = true)]
async fn a_requested_inspection_of_a_removed_pod_ends_with_the_pod() {
    let node = Node::watch(|sim| sim.run("a", &[])).await;
    node.at(0.5).await;
    node.reported();
    node.pleg.request_reinspect("uid-a".into());
    node.sim.world().remove("a");
    node.at(3.5).await;
    node.assert_reported(
        "1.000 Died a.0
         1.000 Removed a.0",
    );
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_keeps_its_addresses_even_across_a_failed_inspection() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    let ips = || node.pleg.cache().get(&"uid-a".into()).status.ips().to_vec();
    let known = ips();
    assert_eq!(known.len(), 1);

    node.sim.fault(Rpc::ContainerStatus, None, broken());
    let now = node.sim.now();
    node.sim.world().pod("a").stop(now);
    node.at(1.5).await;
    assert!(node.pleg.cache().get(&"uid-a".into()).error.is_some());
    node.sim.lift_all();
    node.at(2.5).await;
    let entry = node.pleg.cache().get(&"uid-a".into());
    assert_eq!(entry.status.sandboxes[0].state, SandboxState::NotReady);
    assert_eq!(ips(), known);
}

/// Enforces O1.
#[tokio::test(start_paused = true)]
async fn a_stuck_pod_is_reported_and_delays_no_other() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.reported();
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), Fault::Hang);
    node.sim.exit("a", "app", 1);
    node.at(1.5).await;
    node.sim.exit("b", "app", 2);
    node.at(2.5).await;
    // Other calls of its kind are answered, so the runtime as a whole is not slow.
    node.assert_reported(
        "2.000 Died b/app.0 with 2
         2.000 Degraded: container app of default/a is stuck (1s); all other pods are up to date",
    );

    node.at(9.5).await;
    node.assert_reported("");
    let status = node.status().await;
    assert_eq!(status.stuck.len(), 1);
    assert_eq!(status.stuck[0].call, Rpc::ContainerStatus);
    assert_eq!(status.stuck[0].container.as_deref(), Some("app"));
    assert!((status.stuck[0].since_seconds - 8.5).abs() < 0.01);
    assert_eq!(node.sim.max_outstanding_per_id(), 1);

    node.sim.lift_all();
    node.at(9.6).await;
    node.assert_reported(
        "9.500 Died a/app.0 with 1
         9.500 Healthy: all pods are up to date",
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_waits_for_a_stuck_pod_receives_the_reason() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.sim.fault(Rpc::ContainerStatus, None, Fault::Hang);
    node.sim.exit("a", "app", 1);
    node.at(1.2).await;
    let requested = tokio::time::Instant::now();
    let uid = "uid-a".into();
    let entry = node.pleg.cache().newer_than(&uid, requested).await.unwrap();
    assert_eq!(requested.elapsed(), seconds(4.8));
    assert!(matches!(entry.error, Some(InspectError::Overdue { .. })));
    assert_eq!(
        entry.status.containers.len(),
        1,
        "the last good status is kept"
    );
}

#[tokio::test(start_paused = true)]
async fn any_number_of_stuck_pods_does_not_slow_down_the_others() {
    let node = Node::watch(|sim| {
        for number in 0..60 {
            sim.run(&format!("stuck-{number}"), &["app"]);
        }
        sim.run("free", &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.reported();
    for number in 0..60 {
        let name = format!("stuck-{number}");
        let id = format!("{name}/app.0");
        node.sim.fault(Rpc::ContainerStatus, Some(&id), Fault::Hang);
        node.sim.exit(&name, "app", 1);
    }
    for second in 1..300 {
        node.at(f64::from(second) - 0.5).await;
        let now = node.sim.now();
        node.sim.world().pod("free").restart("app", 7, now);
        node.at(f64::from(second) + 0.999).await;
        let reported = node.reported();
        let died = reported.lines().find(|line| line.contains("Died free"));
        assert!(died.is_some(), "at {second}: {reported}");
    }
    let status = node.status().await;
    assert_eq!(status.stuck.len(), 60);
    assert_eq!(
        status.health.state,
        pleg::out::health::HealthState::Degraded
    );
    assert_eq!(node.sim.max_outstanding_per_id(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_pods_are_inspected_at_once_but_no_more_than_the_limit() {
    let config = Config {
        max_inspections: 4,
        ..Config::default()
    };
    let node = Node::watch_with(config, |sim| {
        for number in 0..8 {
            sim.run(&format!("p{number}"), &[]);
        }
        sim.fault(Rpc::PodSandboxStatus, None, Fault::Slow(seconds(0.1)));
    })
    .await;
    node.at(0.05).await;
    assert_eq!(node.status().await.in_flight.len(), 4);
    node.at(0.25).await;
    assert!(node.reported().contains("0.200 synced 8 pods"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_its_inspection_is_inspected_as_it_is_listed_by_then() {
    let config = Config {
        max_inspections: 1,
        calls_per_pod: 1,
        ..Config::default()
    };
    // The list of sandboxes is applied alone while the list of containers takes long.
    let node = Node::watch_with(config, |sim| {
        for number in 0..20 {
            sim.run(&format!("p{number}"), &["app"]);
        }
        sim.fault(Rpc::ListContainers, None, Fault::Slow(seconds(1.5)));
        sim.fault(Rpc::PodSandboxStatus, None, Fault::Slow(seconds(0.2)));
    })
    .await;
    node.at(1.4).await;
    node.sim.lift(Rpc::ListContainers, None);
    node.at(1.6).await;
    let before = node.sim.calls_made(Rpc::PodSandboxStatus);
    node.at(14.0).await;
    let reported = node.reported();
    assert_eq!(
        reported.matches("app.0 (initial)").count(),
        20,
        "{reported}"
    );
    let made = node.sim.calls_made(Rpc::PodSandboxStatus) - before;
    assert!(made <= 24, "{made} for 20 pods: most were inspected twice");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_and_ten_pods_that_restart_at_once_are_reported_within_a_second() {
    let node = Node::watch(|sim| {
        for number in 0..110 {
            sim.run(&format!("p{number}"), &["one", "two"]);
        }
    })
    .await;
    node.at(0.5).await;
    node.reported();
    let now = node.sim.now();
    for number in 0..110 {
        node.sim
            .world()
            .pod(&format!("p{number}"))
            .restart("one", 1, now);
    }
    let slow = Fault::Slow(seconds(0.02));
    node.sim.fault(Rpc::PodSandboxStatus, None, slow.clone());
    node.sim.fault(Rpc::ContainerStatus, None, slow);
    node.at(2.0).await;
    let reported = node.reported();
    assert_eq!(reported.matches("Died").count(), 110);
    assert_eq!(reported.matches("Started").count(), 110);
    let last = reported.lines().last().unwrap();
    assert!(
        last < "1.9",
        "the relist began at 1.000, the last event came at {last}"
    );
}

/// A container that fails each time is replaced by another one that fails too.
#[tokio::test(start_paused = true)]
async fn a_removed_container_is_not_reported_as_failing_although_its_pod_still_is() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
    })
    .await;
    node.at(3.5).await;
    for attempt in 0..4 {
        let id = format!("b/app.{attempt}");
        let next = format!("b/app.{}", attempt + 1);
        node.sim.fault(Rpc::ContainerStatus, Some(&next), broken());
        let now = node.sim.now();
        node.sim.world().pod("b").restart("app", 1, now);
        node.pass(2.0).await;
        node.sim.world().remove_container(&id);
        node.pass(3.0).await;
        let status = node.status().await;
        let failing = status.failing.iter().map(|failing| failing.id.to_string());
        assert_eq!(failing.collect::<Vec<_>>(), [next]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_status_are_in_the_order_of_the_list_whichever_is_answered_first() {
    let node = Node::watch(|sim| {
        sim.run("a", &["x", "y"]);
        let slow = Fault::Slow(seconds(0.1));
        sim.fault(Rpc::ContainerStatus, Some("a/x.0"), slow);
    })
    .await;
    node.at(2.5).await;
    let status = node.pleg.cache().get(&"uid-a".into()).status;
    let names: Vec<&str> = status.containers.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["x", "y"]);
}
