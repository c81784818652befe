//! `Version` is stuck or fails, and nodes are observed nevertheless.

use crate::node::{LISTS, Node, broken, pods, seconds, too_large};
use pleg::out::health::{HealthState, Reason};
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;
use sim::Fault;

#[tokio::test(start_paused = true)]
async fn a_stuck_version_prevents_no_list() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    node.sim.fault(Rpc::Version, None, Fault::Hang);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(9.5).await;
    node.sim.lift(Rpc::ListContainers, None);
    node.at(12.0).await;
    node.sim.exit("a", "app", 1);
    node.at(60.0).await;
    let status = node.status().await;
    assert!(
        node.deaths("a/app.0").len() == 1 || status.blind.len() == 2,
        "{} blind {:?}, seen {:?} s ago",
        status.health.message,
        status.blind,
        status.health.age_seconds
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_stuck_from_the_start_prevents_no_observation() {
    let node = Node::watch(|sim| {
        pods(sim);
        sim.fault(Rpc::Version, None, Fault::Hang);
    })
    .await;
    node.at(4.0).await;
    let status = node.status().await;
    assert_eq!(
        status.health.reason,
        Reason::ListStuck,
        "{}",
        status.health.message
    );
    assert!(node.synced().is_some());
    node.at(20.0).await;
    node.sim.exit("a", "app", 1);
    node.at(22.0).await;
    assert_eq!(node.deaths("a/app.0").len(), 1);
    let status = node.status().await;
    let message = &status.health.message;
    assert_eq!(status.health.reason, Reason::ListStuck, "{message}");
    let kubelet = &status.kubelet_view;
    assert!(
        kubelet.ready && kubelet.not_ready_in_seconds.is_none(),
        "{message}"
    );
    assert_eq!(status.blind, []);
    assert!(
        message.starts_with("the runtime does not answer Version: Version has not answered"),
        "{message}"
    );
    assert_eq!(node.sim.calls_made(Rpc::Version), 1);
    node.sim.lift(Rpc::Version, None);
    node.at(24.0).await;
    let status = node.status().await;
    assert_eq!(
        status.health.state,
        HealthState::Healthy,
        "{}",
        status.health.message
    );
    assert!(status.runtime.version.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_answers_only_statuses_after_a_restart_is_swept() {
    for restarts in [1.0, 4.8] {
        let node = Node::watch(pods).await;
        node.at(5.5).await;
        node.sim.restart(seconds(restarts));
        for call in [Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers] {
            node.sim.fault(call, None, Fault::Hang);
        }
        node.pass(restarts + 5.5).await;
        node.sim.exit("a", "app", 1);
        node.pass(3.0).await;
        assert_eq!(node.deaths("a/app.0").len(), 1, "{restarts}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_without_a_version_is_listed() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    node.sim.fault(Rpc::Version, None, broken());
    node.sim.restart(seconds(1.0));
    node.at(10.0).await;
    node.sim.exit("a", "app", 1);
    node.at(12.0).await;
    assert_eq!(node.deaths("a/app.0").len(), 1);
    assert_eq!(node.status().await.health.state, HealthState::Healthy);
}

/// The list that a sweep requests was slow each time, so it takes long to become stuck: only `Version`
/// shows that the runtime is back.
#[tokio::test(start_paused = true)]
async fn a_reconnected_runtime_is_not_unreachable_although_a_slow_list_is_stuck() {
    for down in [5.0, 5.25, 5.5, 5.75] {
        let node = Node::watch(pods).await;
        node.at(2.5).await;
        let slow = Fault::Slow(seconds(7.0));
        node.sim.fault(Rpc::ListContainers, None, slow);
        node.at(62.0).await;
        node.sim.fault(Rpc::ListPodSandbox, None, too_large());
        node.at(64.0).await;
        node.sim.restart(seconds(down));
        node.pass(4.5).await;
        for list in LISTS {
            node.sim.fault(list, None, Fault::Hang);
        }
        node.pass(down - 4.5).await;
        let is_back = |status: &StatusReport| status.health.reason != Reason::RuntimeUnreachable;
        let after = node.wait(60.0, is_back).await.unwrap();
        assert!(after < 7.5, "down for {down} s: {after} s");
    }
}
