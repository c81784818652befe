//! The list, the status and the kernel do not agree, or one of them shows for a moment that an id
//! does not exist: what is reported of a pod is still true.

use crate::node::{Node, generic, seconds};
use pleg::model::listed::ContainerState;
use pleg::out::health::{HealthState, Reason};
use pleg::out::record::Record;
use pleg::runtime::{CallError, Rpc};
use sim::{Fault, Sim};
use tokio::time::timeout;

const PODS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn pods(sim: &Sim) {
    for name in PODS {
        sim.run(name, &["app"]);
    }
}

fn no_such() -> Fault {
    Fault::Fail(CallError::NotFound("no such container".into()))
}

#[tokio::test(start_paused = true)]
async fn a_dead_process_whose_status_fails_is_a_failing_inspection() {
    let node = Node::watch_with_kernel(generic(), pods).await;
    node.at(5.5).await;
    let broken = Fault::Fail(CallError::Refused("Unknown: broken".into()));
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), broken);
    node.sim.kill("a", "app");
    node.at(20.0).await;
    let status = node.status().await;
    assert_eq!(status.health.reason, Reason::InspectionsFail);
    assert_eq!(status.failing[0].id, "a/app.0".into());
    assert!(node.pleg.cache().get(&"uid-a".into()).error.is_some());
    node.sim.lift_all();
    node.sim.exit("a", "app", 1);
    node.at(25.0).await;
    assert_eq!(node.status().await.health.state, HealthState::Healthy);
    assert_eq!(node.deaths("a/app.0").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_dead_at_the_start_is_found_too() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        pods(sim);
        sim.kill("a", "app");
    })
    .await;
    node.at(10.0).await;
    let status = node.status().await;
    assert_eq!(status.health.reason, Reason::InspectionsFail);
    assert_eq!(status.failing[0].id, "a/app.0".into());
    assert_eq!(status.failing.len(), 1);
    node.sim.exit("a", "app", 1);
    node.at(15.0).await;
    assert_eq!(node.status().await.health.state, HealthState::Healthy);
    assert_eq!(node.deaths("a/app.0").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_does_not_exist_for_a_moment_after_a_death_removes_nothing() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        sim.run("two", &["x", "y"]);
    })
    .await;
    node.at(5.5).await;
    node.reported();
    node.sim
        .fault(Rpc::ContainerStatus, Some("two/x.0"), no_such());
    node.sim.kill("two", "x");
    node.at(5.6).await;
    node.sim.lift_all();
    node.at(8.0).await;
    let reported = node.reported();
    assert!(
        !reported.contains("two/x.0"),
        "it runs, by the runtime: {reported}"
    );
    node.sim.exit("two", "x", 7);
    node.at(12.0).await;
    let reported = node.reported();
    assert_eq!(reported.matches("two/x.0").count(), 1, "{reported}");
    assert!(reported.contains("Died two/x.0 with 7"), "{reported}");
}

/// While lists are unavailable, a removed id is requested again: it may exist again.
async fn is_known_again_after_a_sweep(list: Rpc, call: Rpc, id: &str) {
    let node = Node::watch_knowing_no_host(pods).await;
    node.at(5.5).await;
    node.sim.fault(list, None, Fault::Hang);
    node.at(9.0).await;
    node.sim.fault(call, Some(id), no_such());
    node.at(10.5).await;
    node.sim.lift(call, Some(id));
    node.at(13.0).await;
    let entry = node.pleg.cache().get(&"uid-a".into());
    let parts = (entry.status.sandboxes.len(), entry.status.containers.len());
    assert_eq!((parts, entry.error), ((1, 1), None), "{list}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_found_for_a_moment_is_known_again_without_a_list() {
    is_known_again_after_a_sweep(Rpc::ListContainers, Rpc::ContainerStatus, "a/app.0").await;
    is_known_again_after_a_sweep(Rpc::ListPodSandbox, Rpc::PodSandboxStatus, "a.0").await;
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_observed_while_every_pod_contradicts_the_kernel() {
    let node = Node::watch_with_kernel(generic(), pods).await;
    node.at(5.5).await;
    for pod in PODS {
        node.sim.kill(pod, "app");
    }
    node.at(200.0).await;
    let health = node.status().await.health;
    assert_eq!(health.state, HealthState::Unhealthy, "{health:?}");
    assert!(health.age_seconds.unwrap() > 180.0, "{health:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_status_never_existed_is_not_observed() {
    let node = Node::watch(|sim| {
        pods(sim);
        for call in [Rpc::ContainerStatus, Rpc::PodSandboxStatus] {
            sim.fault(call, None, no_such());
        }
    })
    .await;
    node.at(30.0).await;
    let health = node.status().await.health;
    assert_eq!(health.last_seen, None, "{health:?}");
    assert_ne!(health.state, HealthState::Healthy);
    assert_eq!(node.synced(), None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_status_is_not_found_is_shown_and_reported_as_last_known() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
    })
    .await;
    node.at(5.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), no_such());
    node.sim
        .fault(Rpc::PodSandboxStatus, Some("a.0"), no_such());
    node.pleg.request_reinspect("uid-a".into());
    node.at(8.0).await;
    let entry = node.pleg.cache().get(&"uid-a".into());
    let parts = (entry.status.sandboxes.len(), entry.status.containers.len());
    assert_eq!(parts, (1, 1));
    assert!(entry.error.is_some());
    let mut subscription = node.pleg.subscribe().await.unwrap();
    let mut initial = String::new();
    while let Ok(Some(record)) = timeout(seconds(0.1), subscription.next()).await {
        if let Record::Event(_) = record {
            initial.push_str(&crate::node::line(&record));
            initial.push('\n');
        }
    }
    assert!(initial.contains("Started a/app.0"), "{initial}");
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_contradiction_counts_from_when_it_was_found() {
    let node = Node::watch(pods).await;
    node.at(5.5).await;
    let slow = Fault::Slow(seconds(1.5));
    node.sim.fault(Rpc::ListContainers, None, slow);
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), no_such());
    node.pleg.request_reinspect("uid-a".into());
    node.at(14.0).await;
    let failing = node.status().await.failing;
    let since: Vec<f64> = failing.iter().map(|it| it.since_seconds).collect();
    assert!(matches!(since[..], [since] if since > 6.5), "{failing:?}");
    node.at(18.0).await;
    let health = node.status().await.health;
    assert_eq!(health.reason, Reason::InspectionsFail, "{health:?}");
}

#[tokio::test(start_paused = true)]
async fn a_listed_exit_is_shown_although_no_status_exists() {
    let node = Node::watch(|sim| sim.run("two", &["x", "y"])).await;
    node.at(5.5).await;
    node.sim.exit("two", "x", 3);
    node.sim
        .fault(Rpc::ContainerStatus, Some("two/x.0"), no_such());
    for time in [9.0, 20.0] {
        node.at(time).await;
        let entry = node.pleg.cache().get(&"uid-two".into());
        assert!(entry.error.is_some(), "{time}");
        let status = entry.status.container(&"two/x.0".into());
        let status = status.expect("it is listed");
        assert_eq!(status.state, ContainerState::Exited, "{time}");
        let as_of = entry.as_of.map(|moment| moment.instant.elapsed());
        assert!(as_of > Some(seconds(0.9)), "nothing confirms it: {as_of:?}");
    }
}

/// containerd could not write its records to a full disk, and was restarted.
#[tokio::test(start_paused = true)]
async fn a_container_whose_process_runs_and_that_is_not_listed_any_more_is_reported() {
    let node = Node::watch_with_kernel(generic(), pods).await;
    node.at(5.5).await;
    node.sim.lose("a");
    for at in [9.0, 20.0, 300.0] {
        node.at(at).await;
        let status = node.status().await;
        assert_eq!(status.health.reason, Reason::InspectionsFail, "{at}");
        assert_eq!(status.failing.len(), 1);
        assert_eq!(status.failing[0].id, "a/app.0".into());
        let message = &status.health.message;
        assert!(message.contains("app in default/a"), "{message}");
        assert!(message.contains("runs, but"), "{message}");
        assert_eq!(node.deaths("a/app.0").len(), 0, "it runs");
    }
    // The runtime finds it again.
    node.sim.run("a", &["app"]);
    node.at(330.0).await;
    assert_eq!(node.status().await.health.state, HealthState::Healthy);
    node.sim.lose("a");
    node.at(350.0).await;
    assert_eq!(node.status().await.health.state, HealthState::Degraded);
    assert_eq!(node.deaths("a/app.0").len(), 0, "it runs");
    node.sim.kill_lost("a/app.0");
    node.at(351.0).await;
    assert_eq!(node.deaths("a/app.0").len(), 1, "now it has ended");
    node.at(380.0).await;
    let status = node.status().await;
    assert_eq!(status.health.state, HealthState::Healthy);
    assert!(status.failing.is_empty(), "{:?}", status.failing);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_unlisted_a_moment_before_its_process_ends_is_no_problem() {
    let node = Node::watch_with_kernel(generic(), pods).await;
    node.at(5.5).await;
    node.sim.lose("a");
    node.at(7.0).await;
    node.sim.kill_lost("a/app.0");
    node.at(20.0).await;
    assert_eq!(node.deaths("a/app.0").len(), 1);
    assert_eq!(node.health_reports(5.5), []);
}
