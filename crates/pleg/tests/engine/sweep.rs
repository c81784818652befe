//! A sweep by id replaces a list that is stuck, and finds the culprit.

use crate::node::{Node, broken, not_found, seconds, three_pods};
use pleg::out::coverage::PassKind;
use pleg::out::health::{Blind, HealthState, Reason};
use pleg::runtime::{CallError, Rpc};
use sim::{Fault, Sim};

/// containerd's status lock is held: the list of containers is stuck, and the status of one container.
fn lock_status(sim: &Sim, id: &str) {
    sim.fault(Rpc::ListContainers, None, Fault::Hang);
    sim.fault(Rpc::ContainerStatus, Some(id), Fault::Hang);
}

#[tokio::test(start_paused = true)]
async fn under_the_status_lock_exits_of_other_pods_and_the_culprit_are_reported() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    lock_status(&node.sim, "locked/app.0");
    node.at(3.5).await;
    node.assert_reported(
        "3.000 Degraded: ListContainers has not answered for 2s; \
         sweeping containers, new containers may be missed
         3.010 Degraded: container app of default/locked is stuck and blocks ListContainers (1s); \
         sweeping containers, new containers may be missed",
    );
    for round in 0..20 {
        let at = 4.0 + f64::from(round);
        node.at(at - 0.4).await;
        let now = node.sim.now();
        let pod = if round % 2 == 0 { "a" } else { "b" };
        node.sim.exit(pod, "app", round);
        node.at(at + 0.7).await;
        let reported = node.reported();
        assert!(
            reported.contains(&format!("Died {pod}/app.0 with {round}")),
            "at {at}: {reported}"
        );
        {
            let mut world = node.sim.world();
            let container = world.container(pod, "app");
            container.start(now);
            container.ended = None;
        }
        node.at(at + 0.9).await;
    }
    let status = node.status().await;
    assert_eq!(status.health.state, HealthState::Degraded);
    assert!(
        status
            .health
            .message
            .contains("container app of default/locked is stuck"),
        "{}",
        status.health.message
    );
    assert!(status.health.age_seconds.unwrap() < 7.0, "sweeps complete");
    assert_eq!(status.relist.last_kind, Some(PassKind::Sweep));
    assert_eq!(node.sim.max_outstanding_per_id(), 1);
    let view = status.kubelet_view;
    assert!(
        view.not_ready_in_seconds.unwrap() < 180.0 - 20.0,
        "{view:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn when_the_list_is_answered_relists_resume_and_nothing_is_reported_twice() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    lock_status(&node.sim, "locked/app.0");
    node.sim.exit("locked", "app", 1);
    node.at(9.5).await;
    node.sim.exit("a", "app", 2);
    node.at(60.5).await;
    let reported = node.reported();
    assert_eq!(reported.matches("Died a/app.0").count(), 1, "{reported}");
    assert!(!reported.contains("Died locked"), "{reported}");
    node.sim.lift_all();
    node.at(70.5).await;
    let reported = node.reported();
    assert_eq!(reported.matches("Died").count(), 1, "{reported}");
    assert!(
        reported.contains("60.500 Died locked/app.0 with 1"),
        "{reported}"
    );
    assert!(
        reported.contains("60.500 Healthy: all pods are up to date"),
        "{reported}"
    );
    let lists = node.sim.calls_made(Rpc::ListContainers);
    node.at(75.5).await;
    assert_eq!(node.sim.calls_made(Rpc::ListContainers), lists + 5);
}

#[tokio::test(start_paused = true)]
async fn new_and_removed_pods_are_observed_while_only_containers_cannot_be_listed() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    lock_status(&node.sim, "locked/app.0");
    node.at(9.5).await;
    node.reported();
    node.sim.run("new", &["app"]);
    node.sim.world().remove("b");
    node.at(12.5).await;
    let reported = node.reported();
    let lines = [
        "Started new.0",
        // The host shows the id of the new container.
        "Started new/app.0",
        "Died b/app.0",
        "Removed b/app.0",
        "Died b.0",
        "Removed b.0",
    ];
    for line in lines {
        assert_eq!(reported.matches(line).count(), 1, "{line}: {reported}");
    }
    node.sim.lift_all();
    node.at(14.5).await;
    node.assert_reported("12.500 Healthy: all pods are up to date");
}

#[tokio::test(start_paused = true)]
async fn a_new_container_is_found_in_the_status_of_its_sandbox_if_the_runtime_includes_it() {
    for fills in [true, false] {
        let node = Node::watch_knowing_no_host(|sim| {
            three_pods(sim);
            if fills {
                sim.fill_sandboxes();
            }
        })
        .await;
        node.at(0.5).await;
        node.reported();
        lock_status(&node.sim, "locked/app.0");
        node.at(9.5).await;
        node.reported();
        let sent = node.sim.calls_made(Rpc::PodSandboxStatus);
        let now = node.sim.now();
        node.sim.world().pod("a").create("late", now).start(now);
        node.at(11.5).await;
        let reported = node.reported();
        assert_eq!(reported.contains("Started a/late.0"), fills, "{reported}");
        let sent = node.sim.calls_made(Rpc::PodSandboxStatus) - sent;
        assert_eq!(sent > 0, fills, "{sent} needless calls");
    }
}

#[tokio::test(start_paused = true)]
async fn sandboxes_that_cannot_be_listed_are_swept_too() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.at(5.5).await;
    let reported = node.reported();
    assert!(
        reported.starts_with(
            "3.000 Degraded: ListPodSandbox has not answered for 2s; sweeping sandboxes"
        ),
        "{reported}"
    );
    let now = node.sim.now();
    node.sim.world().pod("a").stop(now);
    node.sim.world().pod("b").restart("app", 4, now);
    node.at(7.5).await;
    let reported = node.reported();
    for line in [
        "Died a.0",
        "Died a/app.0 with 137",
        "Died b/app.0 with 4",
        "Started b/app.1",
    ] {
        assert_eq!(reported.matches(line).count(), 1, "{line}: {reported}");
    }
    assert_eq!(node.status().await.health.state, HealthState::Degraded);
}

#[tokio::test(start_paused = true)]
async fn with_both_lists_stuck_known_pods_are_observed_and_the_node_stays_degraded() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(3.5).await;
    let reported = node.reported();
    assert!(reported.contains("new pods may be missed"), "{reported}");
    node.at(600.0).await;
    node.sim.exit("a", "app", 6);
    node.sim.world().remove("b");
    node.at(602.0).await;
    let reported = node.reported();
    assert!(reported.contains("Died a/app.0 with 6"), "{reported}");
    assert!(reported.contains("Removed b.0"), "{reported}");
    assert_eq!(node.status().await.health.state, HealthState::Degraded);
}

/// The sweep requests the status of the container while the container is removed, and is answered
/// only once the removal is known.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_container_was_removed_beside_a_sweep_is_inspected() {
    for list in [
        Fault::Slow(seconds(4.5)),
        Fault::Slow(seconds(0.3)),
        broken(),
    ] {
        for phase in 0..40 {
            let node = Node::watch(three_pods).await;
            node.at(0.5).await;
            node.sim.fault(Rpc::ListPodSandbox, None, broken());
            node.sim.fault(Rpc::ListContainers, None, list.clone());
            let slow = Fault::Slow(seconds(0.2));
            node.sim.fault(Rpc::ContainerStatus, Some("a/app.0"), slow);
            node.at(30.0 + f64::from(phase) / 20.0).await;
            node.sim.world().pod("a").containers.clear();
            node.pass(0.3).await;
            node.sim.lift(Rpc::ListContainers, None);
            node.pass(9.0).await;
            node.sample(10.0, |at, status| {
                let message = &status.health.message;
                let is_seen = status.failing.is_empty() && !message.contains("inspected");
                assert!(is_seen, "{list:?}, {phase}, at {at}: {message}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_serve_cri_is_not_reported_as_swept() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    for call in [
        Rpc::Version,
        Rpc::ListContainers,
        Rpc::ListPodSandbox,
        Rpc::ContainerStatus,
        Rpc::PodSandboxStatus,
    ] {
        let none = Fault::Fail(CallError::Unimplemented("unknown service".into()));
        node.sim.fault(call, None, none);
    }
    node.at(30.0).await;
    let health = node.status().await.health;
    assert_eq!(health.reason, Reason::ListFails, "{health:?}");
    assert!(
        health.message.starts_with("pods cannot be listed: "),
        "{health:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_stuck_again_right_after_its_release_is_reported_within_seconds() {
    let node = Node::watch(three_pods).await;
    node.at(5.5).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(155.5).await;
    // The delayed list is answered; the next one, requested at once, is a little slow.
    let slow = Fault::Slow(seconds(0.002));
    node.sim.fault(Rpc::ListContainers, None, slow);
    node.pass(0.001).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(160.0).await;
    let status = node.status().await;
    assert_eq!(status.stuck[0].call, Rpc::ListContainers);
    assert_eq!(status.health.reason, Reason::ListStuck);
    assert_eq!(status.blind, [Blind::NewContainers]);
    node.at(300.0).await;
    let age = node.status().await.health.age_seconds.unwrap();
    assert!(age < 3.0, "everybody is seen by id: {age}");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_not_found_once_beside_a_stuck_list_is_not_dead() {
    let node = Node::watch(three_pods).await;
    node.at(8.4).await;
    lock_status(&node.sim, "locked/app.0");
    node.at(20.0).await;
    node.reported();
    let id = Some("a/app.0");
    node.sim.fault(Rpc::ContainerStatus, id, not_found());
    node.pass(0.3).await;
    node.sim.lift(Rpc::ContainerStatus, id);
    node.pass(10.0).await;
    let reported = node.reported();
    assert!(!reported.contains("a/app.0"), "{reported}");
    // A container that is repeatedly not found is removed.
    node.sim.fault(Rpc::ContainerStatus, id, not_found());
    node.pass(5.0).await;
    let reported = node.reported();
    assert!(reported.contains("Removed a/app.0"), "{reported}");
}
