//! The kernel's hints: a death is told as soon as the runtime knows it, whatever hangs.

use crate::node::{Node, generic, seconds};
use pleg::kernel::{Kernel, Watching};
use pleg::model::id::Id;
use pleg::out::health::HealthState;
use pleg::runtime::{CallError, Rpc};
use sim::Fault;
use tokio::time::timeout;

#[tokio::test(start_paused = true)]
async fn a_death_is_told_while_the_list_hangs_and_no_sweep_is_due() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.told();
    assert_eq!(node.status().await.kernel.watched, 2);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), Fault::Hang);

    node.at(1.5).await;
    node.sim.kill("b", "app");
    // The runtime takes its time to know.
    node.at(1.56).await;
    node.sim.exit("b", "app", 137);
    node.at(1.66).await;
    node.assert_told("1.568 Died b/app.0 with 137 (kernel)");
}

#[tokio::test(start_paused = true)]
async fn who_had_died_before_is_found_as_soon_as_it_is_known_whose_the_pids_are() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        // The first to be asked for.
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
async fn a_container_that_is_started_later_is_watched_too_and_one_that_is_dead_no_more() {
    let node = Node::watch_with_kernel(generic(), |sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.told();
    node.sim.run("late", &["app"]);
    node.at(1.5).await;
    assert_eq!(node.status().await.kernel.watched, 2);
    node.told();
    node.sim.kill("late", "app");
    node.sim.exit("late", "app", 1);
    node.at(1.6).await;
    node.assert_told("1.505 Died late/app.0 with 1 (kernel)");
    assert_eq!(node.status().await.kernel.watched, 1);
    node.sim.world().remove("a");
    node.at(3.5).await;
    assert_eq!(node.status().await.kernel.watched, 0);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_never_learns_of_a_death_is_not_asked_for_ever() {
    let node = Node::watch_with_kernel(generic(), |sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.told();
    node.sim.kill("a", "app");
    node.at(20.0).await;
    let asked = node.sim.calls_made(Rpc::ContainerStatus);
    // For two seconds four a second, and some quick ones before.
    assert!(asked < 30, "{asked} calls");
    node.at(60.0).await;
    let more = node.sim.calls_made(Rpc::ContainerStatus) - asked;
    assert!(more <= 20, "then one in two seconds, not {more} in forty");
    let told = node.told();
    assert!(
        told.contains("the process of container a/app.0 is dead"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_started_again_under_its_own_id_is_not_dead() {
    let node = Node::watch_with_kernel(generic(), |sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.told();
    node.sim.kill("a", "app");
    node.sim.start_again("a", "app");
    node.at(12.0).await;
    let status = node.status().await;
    assert_eq!(status.health.state, HealthState::Healthy);
    assert_eq!(status.kernel.watched, 1);
    let told = node.told();
    assert!(!told.contains("Died"), "{told}");
    // And its new process is watched.
    node.sim.kill("a", "app");
    node.sim.exit("a", "app", 1);
    node.at(12.1).await;
    node.assert_told("12.005 Died a/app.0 with 1 (kernel)");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_tell_pids_leaves_the_kernel_unavailable_and_says_why() {
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
async fn a_pid_that_cannot_be_had_holds_up_nobody_else() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        for pod in 0..20 {
            sim.run(&format!("p{pod}"), &["app"]);
        }
    })
    .await;
    node.at(0.5).await;
    // Slow for the inspection that finds them, and hung for the pid that is then asked for.
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
    node.told();
    let now = node.sim.now();
    node.sim.world().pod("p19").restart("app", 1, now);
    node.at(11.5).await;
    node.told();
    node.sim.kill("p19", "app");
    node.sim.exit("p19", "app", 1);
    node.at(11.6).await;
    node.assert_told("11.505 Died p19/app.1 with 1 (kernel)");
    assert_eq!(node.sim.max_outstanding_per_id(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_gone_when_somebody_dies_is_asked_until_it_is_back() {
    let node = Node::watch_with_kernel(generic(), |sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.told();
    let down = || Fault::Fail(CallError::connection_refused());
    node.sim.fault(Rpc::ContainerStatus, None, down());
    node.sim.kill("a", "app");
    node.sim.exit("a", "app", 1);
    node.at(0.7).await;
    node.sim.lift_all();
    node.at(0.9).await;
    assert!(node.told().contains("Died a/app.0 with 1 (kernel)"));
}

/// A kernel whose watch has a bug.
struct Broken;

impl Kernel for Broken {
    fn watch(&self, _: u32, _: &Id) -> Watching {
        Box::pin(async { panic!("a bug") })
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_stops_all_and_leaves_nobody_to_believe() {
    let node = Node::watch_with_this_kernel(Broken, |sim| sim.run("a", &["app"])).await;
    let stopped = timeout(seconds(5.0), node.pleg.stopped()).await;
    assert!(stopped.is_ok(), "it goes on without the task");
    assert!(node.pleg.status().await.is_err());
}
