//! The kernel's hints: an exit is reported as soon as the runtime knows it, whatever is stuck.

use crate::node::{Node, generic, seconds};
use pleg::kernel::{Kernel, Watching};
use pleg::model::id::Id;
use pleg::out::health::HealthState;
use pleg::runtime::{CallError, Rpc};
use sim::Fault;
use tokio::time::timeout;

#[tokio::test(start_paused = true)]
async fn an_exit_is_reported_while_the_list_is_stuck_and_no_sweep_is_due() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.reported();
    assert_eq!(node.status().await.kernel.watched, 2);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), Fault::Hang);

    node.at(1.5).await;
    node.sim.kill("b", "app");
    // The runtime notices the exit later than the kernel.
    node.at(1.56).await;
    node.sim.exit("b", "app", 137);
    node.at(1.66).await;
    node.assert_reported("1.568 Died b/app.0 with 137 (kernel)");
}

#[tokio::test(start_paused = true)]
async fn an_exit_beside_a_stuck_call_of_the_same_pod_is_reported_at_once() {
    let node = Node::watch_with_kernel(generic(), |sim| sim.run("a", &["app", "side", "stuck"]));
    let node = node.await;
    node.at(0.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/stuck.0"), Fault::Hang);
    // This causes an inspection, which does not end.
    node.sim.kill("a", "side");
    node.sim.exit("a", "side", 0);
    node.at(20.0).await;
    node.sim.kill("a", "app");
    node.sim.exit("a", "app", 1);
    node.at(20.1).await;
    assert_eq!(node.deaths("a/app.0"), [20.005]);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_exit_is_found_as_soon_as_the_pid_namespace_is_known() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        // The first container whose PID is requested.
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
        sim.kill("a", "app");
    })
    .await;
    node.at(2.5).await;
    let failing = node.status().await.failing;
    let named: Vec<&str> = failing.iter().map(|failing| failing.id.as_str()).collect();
    assert_eq!(named, ["a/app.0"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_starts_later_is_watched_and_a_dead_one_is_not() {
    let node = Node::watch_with_kernel(generic(), |sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    node.sim.run("late", &["app"]);
    node.at(1.5).await;
    assert_eq!(node.status().await.kernel.watched, 2);
    node.reported();
    node.sim.kill("late", "app");
    node.sim.exit("late", "app", 1);
    node.at(1.6).await;
    node.assert_reported("1.505 Died late/app.0 with 1 (kernel)");
    assert_eq!(node.status().await.kernel.watched, 1);
    node.sim.world().remove("a");
    node.at(3.5).await;
    assert_eq!(node.status().await.kernel.watched, 0);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_never_notices_an_exit_is_called_less_often() {
    let node = Node::watch_with_kernel(generic(), |sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    node.sim.kill("a", "app");
    node.at(20.0).await;
    let sent = node.sim.calls_made(Rpc::ContainerStatus);
    // Four calls a second for two seconds, after some in quick succession.
    assert!(sent < 30, "{sent} calls");
    node.at(60.0).await;
    let more = node.sim.calls_made(Rpc::ContainerStatus) - sent;
    assert!(more <= 20, "then one in two seconds, not {more} in forty");
    let reported = node.reported();
    assert!(
        reported.contains("the process of container a/app.0 is dead"),
        "{reported}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_container_that_starts_again_under_its_own_id_is_not_dead() {
    let node = Node::watch_with_kernel(generic(), |sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    node.sim.kill("a", "app");
    node.sim.start_again("a", "app");
    node.at(12.0).await;
    let status = node.status().await;
    assert_eq!(status.health.state, HealthState::Healthy);
    assert_eq!(status.kernel.watched, 1);
    let reported = node.reported();
    assert!(!reported.contains("Died"), "{reported}");
    // And its new process is watched.
    node.sim.kill("a", "app");
    node.sim.exit("a", "app", 1);
    node.at(12.1).await;
    node.assert_reported("12.005 Died a/app.0 with 1 (kernel)");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_without_pids_leaves_kernel_hints_unavailable_with_the_reason() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        sim.run("a", &["app"]);
        sim.hide_pids();
    })
    .await;
    node.at(0.5).await;
    let kernel = node.status().await.kernel;
    assert_eq!((kernel.state.as_str(), kernel.watched), ("unavailable", 0));
    let why = kernel.why.unwrap();
    assert!(
        why.contains("the runtime does not report the PIDs"),
        "{why}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_be_watched_is_tried_again_less_and_less_often() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        sim.run("a", &["app"]);
        sim.hide_pids();
    })
    .await;
    node.at(1.0).await;
    let calls = |from| node.sim.calls_made(Rpc::ContainerStatus) - from;
    let before = calls(0);
    node.at(1000.0).await;
    assert!((5..10).contains(&calls(before)), "{}", calls(before));
}

#[tokio::test(start_paused = true)]
async fn a_pid_call_that_fails_delays_no_other_pid_call() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        for pod in 0..20 {
            sim.run(&format!("p{pod}"), &["app"]);
        }
    })
    .await;
    node.at(0.5).await;
    // Slow for the inspection that finds them, and stuck for the PID call that follows.
    let id = |pod| format!("p{pod}/app.1");
    for pod in 0..10 {
        let slow = Fault::Slow(seconds(0.2));
        node.sim.fault(Rpc::ContainerStatus, Some(&id(pod)), slow);
        let now = node.sim.now();
        node.sim
            .world()
            .pod(&format!("p{pod}"))
            .restart("app", 1, now);
    }
    node.at(1.1).await;
    for pod in 0..10 {
        node.sim
            .fault(Rpc::ContainerStatus, Some(&id(pod)), Fault::Hang);
    }
    node.at(9.0).await;
    let status = node.status().await;
    assert_eq!(status.stuck.len(), 10, "{:?}", status.stuck);
    assert_eq!(status.kernel.watched, 10);
    node.at(10.0).await;
    node.reported();
    let now = node.sim.now();
    node.sim.world().pod("p19").restart("app", 1, now);
    node.at(11.5).await;
    node.reported();
    node.sim.kill("p19", "app");
    node.sim.exit("p19", "app", 1);
    node.at(11.6).await;
    node.assert_reported("11.505 Died p19/app.1 with 1 (kernel)");
    assert_eq!(node.sim.max_outstanding_per_id(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_exit_while_the_runtime_is_unreachable_is_requested_until_it_reconnects() {
    let node = Node::watch_with_kernel(generic(), |sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    let down = || Fault::Fail(CallError::connection_refused());
    node.sim.fault(Rpc::ContainerStatus, None, down());
    node.sim.kill("a", "app");
    node.sim.exit("a", "app", 1);
    node.at(0.7).await;
    node.sim.lift_all();
    node.at(0.9).await;
    assert!(node.reported().contains("Died a/app.0 with 1 (kernel)"));
}

/// A kernel whose watch has a bug.
struct Broken;

impl Kernel for Broken {
    fn watch(&self, _: u32, _: &Id) -> Watching {
        Box::pin(async { panic!("a bug") })
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_stops_the_engine_and_its_readers_notice() {
    let node = Node::watch_with_this_kernel(Broken, |sim| sim.run("a", &["app"])).await;
    let stopped = timeout(seconds(5.0), node.pleg.stopped()).await;
    assert!(stopped.is_ok(), "it goes on without the task");
    assert!(node.pleg.status().await.is_err());
}
