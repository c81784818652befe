//! A pod whose inspection fails is reported as failing and shown as last known, until an inspection succeeds.

use crate::node::{
    LISTS, Node, STATUSES, broken, fault_each, generic, has_failing, is_healthy, many, not_found,
    pods, seconds,
};
use pleg::out::health::{HealthState, Reason};
use pleg::out::record::Record;
use pleg::runtime::Rpc;
use sim::{Fault, Malformation};

/// An inspection that fails for longer than this is reported.
const FAILING: f64 = 10.0;

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_inspected_for_ten_seconds_is_reported_and_the_node_is_degraded() {
    let node = Node::watch(pods).await;
    node.at(1.5).await;
    node.sim.fault(Rpc::ContainerStatus, None, broken());
    node.sim.exit("a", "app", 1);
    node.sim.exit("b", "app", 2);
    node.at(3.5).await;
    for uid in ["uid-a", "uid-b"] {
        let entry = node.pleg.cache().get(&uid.into());
        assert!(entry.error.is_some(), "what is shown is the last known");
    }
    node.at(1.5 + 1.0 + FAILING + 0.5).await;
    let status = node.status().await;
    let health = &status.health;
    assert_eq!(
        (health.state, health.reason),
        (HealthState::Degraded, Reason::InspectionsFail)
    );
    for id in ["a/app.0", "b/app.0"] {
        assert!(has_failing(&status, id), "{id} in {:?}", status.failing);
    }
    for failing in &status.failing {
        assert_eq!(failing.call, Rpc::ContainerStatus);
        assert!(failing.since_seconds >= FAILING, "{failing:?}");
    }
    let reported = node.trace().into_iter().any(|entry| match entry.record {
        Record::Health(health) => {
            health.reason == Reason::InspectionsFail && health.failing.len() == 2
        }
        _ => false,
    });
    assert!(reported, "{}", node.reported());
    node.sim.lift_all();
    node.wait(3.0, is_healthy)
        .await
        .expect("it is healthy again");
    for id in ["a/app.0", "b/app.0"] {
        assert_eq!(node.deaths(id).len(), 1);
    }
    assert!(node.status().await.failing.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_inspection_that_fails_for_a_moment_does_not_degrade_the_node() {
    let node = Node::watch(pods).await;
    node.at(1.5).await;
    node.sim.fault(Rpc::ContainerStatus, None, broken());
    node.sim.exit("a", "app", 1);
    node.sample(6.0, |at, status| {
        assert_eq!(status.health.state, HealthState::Healthy, "at {at}");
    })
    .await;
    node.sim.lift_all();
    node.sample(20.0, |at, status| {
        assert_eq!(status.health.state, HealthState::Healthy, "at {at}");
    })
    .await;
    assert_eq!(node.deaths("a/app.0").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_call_is_answered_again_fails_until_its_inspection_succeeds() {
    let node = Node::watch(|sim| {
        pods(sim);
        sim.run("two", &["app", "side"]);
    })
    .await;
    node.at(1.5).await;
    let (call, sandbox) = (Rpc::PodSandboxStatus, "two.0");
    node.sim.fault(call, Some(sandbox), broken());
    node.sim.exit("two", "app", 1);
    node.at(3.5).await;
    assert!(has_failing(&node.status().await, sandbox));
    // The status of the pod's sandbox is answered at once now, that of one container only after a
    // while.
    let slow = Fault::Slow(std::time::Duration::from_millis(900));
    node.sim
        .fault(Rpc::ContainerStatus, Some("two/side.0"), slow);
    node.sim.lift(call, Some(sandbox));
    for step in 0..60 {
        node.at(3.5 + f64::from(step) * 0.05).await;
        let fails = has_failing(&node.status().await, sandbox);
        let error = node.pleg.cache().get(&"uid-two".into()).error;
        assert!(fails || error.is_none(), "what is shown is old: {error:?}");
    }
    assert!(!has_failing(&node.status().await, sandbox), "it was seen");
}

#[tokio::test(start_paused = true)]
async fn the_status_of_another_id_is_refused() {
    for (call, id) in [
        (Rpc::ContainerStatus, "a/app.0"),
        (Rpc::PodSandboxStatus, "a.0"),
    ] {
        let node = Node::watch(pods).await;
        node.at(1.5).await;
        node.reported();
        let another = Fault::Malformed(Malformation::OfAnother);
        node.sim.fault(call, Some(id), another);
        node.sim.exit("a", "app", 1);
        node.at(3.5).await;
        let entry = node.pleg.cache().get(&"uid-a".into());
        let ids: Vec<&str> = entry
            .status
            .containers
            .iter()
            .map(|it| it.id.as_str())
            .collect();
        assert_eq!(ids, ["a/app.0"], "the last known");
        let ids: Vec<&str> = entry
            .status
            .sandboxes
            .iter()
            .map(|it| it.id.as_str())
            .collect();
        assert_eq!(ids, ["a.0"], "the last known");
        assert!(entry.error.is_some(), "{call}");
        node.at(2.5 + FAILING + 0.5).await;
        let status = node.status().await;
        assert!(has_failing(&status, id), "{call}: {:?}", status.failing);
        node.assert_reported_no_event();
        node.sim.lift_all();
        node.pass(2.0).await;
        assert_eq!(node.deaths("a/app.0").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_refuses_the_status_of_another_id_too() {
    let node = Node::watch(pods).await;
    node.at(1.5).await;
    node.reported();
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let another = Fault::Malformed(Malformation::OfAnother);
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), another);
    // The status of `b` is received in place of that of `a`.
    node.sim.exit("b", "app", 5);
    node.at(20.0).await;
    assert_eq!(node.deaths("b/app.0").len(), 1);
    assert_eq!(node.deaths("a/app.0").len(), 0, "a lives");
    let entry = node.pleg.cache().get(&"uid-a".into());
    let ids: Vec<&str> = entry
        .status
        .containers
        .iter()
        .map(|it| it.id.as_str())
        .collect();
    assert_eq!(ids, ["a/app.0"]);
    let status = node.status().await;
    assert!(has_failing(&status, "a/app.0"), "{:?}", status.failing);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_list_and_status_contradict_each_other_is_inspected_until_they_agree() {
    for (call, id) in [
        (Rpc::ContainerStatus, "a/app.0"),
        (Rpc::PodSandboxStatus, "a.0"),
    ] {
        let node = Node::watch(|sim| {
            pods(sim);
            sim.run("a", &["app", "other"]);
        })
        .await;
        node.at(3.5).await;
        node.sim.fault(call, Some(id), not_found());
        node.sim.exit("a", "other", 5);
        // The removal may follow the exit a moment later: that is no contradiction.
        node.at(4.8).await;
        assert!(node.status().await.failing.is_empty());
        node.at(8.5).await;
        let status = node.status().await;
        assert!(has_failing(&status, id), "{call}: {:?}", status.failing);
        assert!(node.pleg.cache().get(&"uid-a".into()).error.is_some());
        node.at(16.5).await;
        let health = node.status().await.health;
        assert_eq!(health.reason, Reason::InspectionsFail, "{call}");
        node.sim.lift_all();
        node.at(27.5).await;
        let status = node.status().await;
        assert_eq!(status.health.state, HealthState::Healthy, "{call}");
        assert!(status.failing.is_empty());
        let entry = node.pleg.cache().get(&"uid-a".into());
        assert_eq!(entry.error, None, "{call}");
        assert_eq!(entry.status.sandboxes.len(), 1, "{call}");
        assert_eq!(entry.status.containers.len(), 2, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_while_lists_are_stuck_is_shown_as_last_known_and_inspected_afterwards() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    fault_each(&node.sim, &LISTS, Fault::Hang);
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), broken());
    node.at(9.5).await;
    let error = || node.pleg.cache().get(&"uid-a".into()).error;
    assert!(error().is_some());
    assert_eq!(node.pleg.cache().get(&"uid-b".into()).error, None);
    node.sim.lift(Rpc::ContainerStatus, Some("a/app.0"));
    node.at(14.5).await;
    assert_eq!(error(), None);
    assert!(node.status().await.failing.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_because_too_many_calls_are_stuck_are_reported() {
    let node = Node::watch(|sim| {
        for number in 0..300 {
            sim.run(&format!("p{number:03}"), &["app"]);
        }
        sim.run("quiet", &["app"]);
    })
    .await;
    node.at(3.5).await;
    for number in 0..300 {
        let (pod, id) = (format!("p{number:03}"), format!("p{number:03}/app.0"));
        node.sim.fault(Rpc::ContainerStatus, Some(&id), Fault::Hang);
        node.sim.exit(&pod, "app", 1);
    }
    node.at(60.0).await;
    let status = node.status().await;
    assert_eq!(status.health.state, HealthState::Degraded);
    assert!(status.health.age_seconds < Some(3.0), "{:?}", status.health);
    let message = &status.health.message;
    assert!(
        message.contains("pods wait, because too many calls"),
        "{message}"
    );
    for entry in node.pleg.cache().all() {
        let is_quiet = &*entry.status.name == "quiet";
        assert_eq!(entry.error.is_none(), is_quiet, "{}", entry.status.name);
    }
    node.sim.lift_all();
    node.at(75.0).await;
    let status = node.status().await;
    assert_eq!(
        status.health.state,
        HealthState::Healthy,
        "{:?}",
        status.health
    );
    assert!(
        node.pleg
            .cache()
            .all()
            .iter()
            .all(|entry| entry.error.is_none())
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_runtime_does_not_contradict_itself() {
    let node = Node::watch(|sim| {
        for pod in ["a", "b", "c"] {
            sim.run(pod, &["app"]);
        }
    })
    .await;
    node.at(3.0).await;
    for status in STATUSES {
        let jitter = Fault::Jitter(seconds(0.6), seconds(3.3));
        node.sim.fault(status, None, jitter);
    }
    for _ in 0..60 {
        node.pass(0.25).await;
        for pod in ["a", "b", "c"] {
            let now = node.sim.now();
            let mut world = node.sim.world();
            world.pod(pod).restart("app", 1, now);
            world.pod(pod).containers.remove(0);
        }
        let failing = node.status().await.failing;
        assert!(failing.is_empty(), "{failing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_healthy_node_has_no_dead_container_that_is_not_found() {
    let node = Node::watch_with_kernel(generic(), pods).await;
    node.at(3.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), not_found());
    node.sim.kill("a", "app");
    node.at(600.0).await;
    let health = node.status().await.health;
    let a = node.pleg.cache().get(&"uid-a".into());
    let age = node.sim.now().since(a.as_of.unwrap().wall);
    assert!(
        health.state != HealthState::Healthy || age < seconds(5.0),
        "{}: a is as of {age:?} ago",
        health.message
    );
}

#[tokio::test(start_paused = true)]
async fn failing_pods_are_reported_after_a_start_under_the_lock() {
    let node = Node::watch(|sim| {
        pods(sim);
        sim.status_lock("locked", "app");
        sim.fault(Rpc::ContainerStatus, Some("a/app.0"), broken());
    })
    .await;
    node.at(60.0).await;
    let status = node.status().await;
    let a = node.pleg.cache().get(&"uid-a".into());
    let is_reported = !status.failing.is_empty()
        || status.health.message.contains("a/app.0")
        || a.error.is_some();
    assert!(
        is_reported,
        "{}; a has {} containers",
        status.health.message,
        a.status.containers.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_pod_does_not_fail_while_a_list_is_stuck() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), Fault::Hang);
    node.sim.exit("a", "app", 1);
    node.at(8.0).await;
    node.sim.world().remove("a");
    node.at(10.3).await;
    node.sim.status_lock("locked", "app");
    node.at(15.0).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), broken());
    node.at(60.0).await;
    let status = node.status().await;
    assert!(status.failing.is_empty(), "{}", status.health.message);
}

/// The first lists show three pods. One of them always fails, and the others are slow at first.
#[tokio::test(start_paused = true)]
async fn a_node_is_synced_although_a_pod_always_fails() {
    let call = Rpc::ContainerStatus;
    let node = Node::watch(|sim| {
        many(sim, 3, &["app"]);
        sim.fault(call, None, Fault::Hang);
        sim.fault(call, Some("p0/app.0"), broken());
    })
    .await;
    node.at(30.0).await;
    assert_eq!(node.synced(), None);
    node.sim.lift(call, None);
    node.at(60.0).await;
    assert!(node.synced().is_some());
}
