//! A process is dead, but the runtime reports its container as running: every report shows this, and
//! nothing confirms that the container runs.

use crate::node::{Node, generic, seconds, victim};
use pleg::model::id::Id;
use pleg::model::listed::ContainerState;
use pleg::out::cache::Entry;
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, Rpc};
use sim::Fault;
use tokio::time::Instant;

fn entry(node: &Node) -> Entry {
    node.pleg.cache().get(&victim())
}

fn says_it_is_dead(entry: &Entry) -> bool {
    entry.error.is_some() && !entry.dead.is_empty()
}

fn app_runs(entry: &Entry) -> bool {
    let app = entry.status.container(&Id::from("victim/app.0"));
    app.is_some_and(|app| app.state == ContainerState::Running)
}

/// Whether the report names the pod as stuck or failing, or has a pod that is yet to be inspected.
fn is_reported(status: &StatusReport) -> bool {
    let failing = status.failing.iter().filter_map(|call| call.pod.as_ref());
    let stuck = status.stuck.iter().filter_map(|call| call.pod.as_ref());
    let mut named = failing.chain(stuck);
    named.any(|pod| pod.uid == victim()) || status.health.message.contains("yet to be inspected")
}

/// A pod of two containers: `app` has died, which the runtime does not know, while the lists and
/// the status of `side` hang.
async fn dead_under_a_lock() -> Node {
    let node = Node::watch_with_kernel(generic(), |sim| {
        sim.run("victim", &["app", "side"]);
        sim.run("other", &["app"]);
    })
    .await;
    node.at(2.5).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let side = Some("victim/side.0");
    node.sim.fault(Rpc::ContainerStatus, side, Fault::Hang);
    node.at(6.0).await;
    node.sim.kill("victim", "app");
    node.at(15.0).await;
    assert!(says_it_is_dead(&entry(&node)), "{:?}", entry(&node));
    assert!(is_reported(&node.status().await));
    node
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_an_error_is_reported_until_it_has_none() {
    for slow in [0.0, 0.3, 1.0] {
        for known_after in [0.0, 0.05, 1.5, 5.0] {
            let node = dead_under_a_lock().await;
            node.sim.lift_all();
            let status = Fault::Slow(seconds(slow));
            node.sim
                .fault(Rpc::ContainerStatus, Some("victim/side.0"), status);
            for step in 0..2000 {
                if f64::from(step) / 100.0 >= known_after {
                    let mut runs = app_runs(&entry(&node));
                    runs &= node.sim.world().container("victim", "app").state
                        == ContainerState::Running;
                    if runs {
                        node.sim.exit("victim", "app", 137);
                    }
                }
                node.pass(0.01).await;
                let (status, entry) = (node.status().await, entry(&node));
                assert!(
                    entry.error.is_none() || is_reported(&status),
                    "{:?} at {} of {:?}: {:?}",
                    entry.error,
                    node.elapsed(),
                    (slow, known_after),
                    status.health
                );
            }
            assert_eq!(entry(&node).error, None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_inspection_that_shows_a_dead_container_as_running_confirms_nothing() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        sim.run("victim", &["app", "side"]);
    })
    .await;
    node.at(5.2).await;
    node.sim.kill("victim", "app");
    let died = Instant::now();
    for step in 0..1000 {
        if step == 20 {
            // This causes an inspection within the two seconds before the first report.
            node.sim.exit("victim", "side", 1);
        }
        if step == 40 {
            // The next lists cause another one.
            let now = node.sim.now();
            node.sim.world().pod("victim").create("new", now);
        }
        node.pass(0.01).await;
        let entry = entry(&node);
        let as_of = entry.as_of.expect("it was seen").instant;
        assert!(
            as_of <= died || !app_runs(&entry),
            "at {}: running as of {:?} after its death",
            node.elapsed(),
            as_of - died
        );
    }
    let entry = entry(&node);
    assert!(says_it_is_dead(&entry), "{entry:?}");
    let side = entry.status.container(&Id::from("victim/side.0"));
    assert_eq!(side.map(|side| side.state), Some(ContainerState::Exited));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_runtime_that_reports_dead_containers_as_running_is_not_believed() {
    for down in [3.0, 5.3, 9.1] {
        let node = Node::watch_with_kernel(generic(), |sim| {
            sim.run("victim", &["app"]);
            sim.run("other", &["app"]);
        })
        .await;
        node.at(5.2).await;
        let refused = || Fault::Fail(CallError::connection_refused());
        for rpc in [
            Rpc::Version,
            Rpc::ListPodSandbox,
            Rpc::ListContainers,
            Rpc::PodSandboxStatus,
            Rpc::ContainerStatus,
        ] {
            node.sim.fault(rpc, None, refused());
        }
        node.at(5.4).await;
        node.sim.kill("victim", "app");
        let died = node.sim.now();
        node.at(5.4 + down).await;
        node.sim.lift_all();
        for _ in 0..1000 {
            node.pass(0.01).await;
            let status = node.status().await;
            let seen = status.health.last_seen.expect("it was seen");
            assert!(
                seen <= died || is_reported(&status),
                "at {}, down for {down} s: {:?}",
                node.elapsed(),
                status.health
            );
        }
        assert!(says_it_is_dead(&entry(&node)), "{:?}", entry(&node));
    }
}

#[tokio::test(start_paused = true)]
async fn two_dead_containers_are_reported_independently() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        sim.run("victim", &["app", "side"]);
    })
    .await;
    let both = ["victim/app.0", "victim/side.0"].map(Id::from);
    node.at(5.2).await;
    node.sim.kill("victim", "app");
    node.sim.kill("victim", "side");
    node.at(8.0).await;
    assert_eq!(entry(&node).dead, both.clone().into());
    node.sim.exit("victim", "app", 137);
    for _ in 0..1000 {
        node.pass(0.01).await;
        let entry = entry(&node);
        assert!(says_it_is_dead(&entry), "{entry:?} at {}", node.elapsed());
        assert!(entry.dead.contains(&both[1]));
    }
    assert_eq!(entry(&node).dead, [both[1].clone()].into());
    node.sim.exit("victim", "side", 137);
    node.pass(5.0).await;
    let entry = entry(&node);
    assert_eq!((entry.error, entry.dead), (None, [].into()));
}
