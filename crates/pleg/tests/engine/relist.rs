//! What a relist reports: each test is one behaviour of the kubelet.

use crate::node::Node;
use pleg::model::listed::{ContainerState, SandboxState};

#[tokio::test(start_paused = true)]
async fn the_first_relist_reports_what_runs_and_what_has_exited_and_nothing_else() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app", "done"]);
        sim.exit("a", "done", 3);
        let now = sim.now();
        sim.world().pod("a").create("new", now);
    })
    .await;
    node.at(0.5).await;
    node.assert_reported(
        "0.000 Started a/app.0 (initial)
         0.000 Died a/done.0 with 3 (initial)
         0.000 Started a.0 (initial)
         0.000 synced 1 pods, 3 containers
         0.000 Healthy: all pods are up to date",
    );
    node.at(5.5).await;
    node.assert_reported("");
}

/// Enforces O2.
#[tokio::test(start_paused = true)]
async fn each_change_is_reported_once_by_the_next_relist() {
    let node = Node::watch(|sim| {
        sim.run("a", &["gone", "dies"]);
        sim.exit("a", "gone", 0);
        let now = sim.now();
        sim.world().pod("a").create("starts", now);
    })
    .await;
    node.at(0.5).await;
    node.reported();

    let now = node.sim.now();
    node.sim.exit("a", "dies", 1);
    {
        let mut world = node.sim.world();
        let pod = world.pod("a");
        pod.containers.retain(|container| container.name != "gone");
        pod.container("starts").unwrap().start(now);
        pod.create("fresh", now).start(now);
    }
    node.at(3.5).await;
    node.assert_reported(
        "1.000 Died a/dies.0 with 1
         1.000 Removed a/gone.0
         1.000 Started a/starts.0
         1.000 Started a/fresh.0",
    );
}

#[tokio::test(start_paused = true)]
async fn a_running_container_that_is_no_longer_listed_has_died_and_is_removed() {
    for relists in [1.5, 3.5] {
        let node = Node::watch(|sim| {
            sim.run("a", &["app", "done"]);
            sim.exit("a", "done", 0);
        })
        .await;
        node.at(relists).await;
        node.reported();
        node.sim.world().pod("a").containers.clear();
        node.at(relists + 1.0).await;
        let at = relists.ceil();
        node.assert_reported(&format!(
            "{at:.3} Died a/app.0
             {at:.3} Removed a/app.0
             {at:.3} Removed a/done.0"
        ));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_no_longer_listed_is_reported_to_its_end_and_leaves_the_cache() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app", "done"]);
        sim.exit("a", "done", 0);
    })
    .await;
    node.at(0.5).await;
    node.reported();
    node.sim.world().remove("a");
    node.at(1.5).await;
    node.assert_reported(
        "1.000 Died a/app.0
         1.000 Removed a/app.0
         1.000 Removed a/done.0
         1.000 Died a.0
         1.000 Removed a.0",
    );
    let uid = "uid-a".into();
    let entry = node.pleg.cache().get(&uid);
    assert_eq!(entry.status.uid, uid);
    assert!(entry.status.containers.is_empty() && entry.error.is_none());
}

#[tokio::test(start_paused = true)]
async fn sandboxes_are_reported_like_containers() {
    let node = Node::watch(|sim| sim.run("a", &[])).await;
    node.at(0.5).await;
    node.reported();
    node.sim.world().pod("a").sandbox().unwrap().state = SandboxState::NotReady;
    node.at(1.5).await;
    node.assert_reported("1.000 Died a.0");
    node.sim.world().pod("a").sandboxes.clear();
    let now = node.sim.now();
    node.sim.world().pod("a").create("orphan", now).start(now);
    node.at(2.5).await;
    node.assert_reported(
        "2.000 Removed a.0
         2.000 Started a/orphan.0",
    );
}

#[tokio::test(start_paused = true)]
async fn pods_are_reported_in_the_same_order_in_every_run() {
    let run = || async {
        let node = Node::watch(|sim| {
            for name in ["d", "b", "e", "a", "c"] {
                sim.run(name, &["x", "y"]);
            }
        })
        .await;
        node.at(0.5).await;
        for name in ["e", "a", "c"] {
            node.sim.exit(name, "y", 1);
            node.sim.exit(name, "x", 2);
        }
        node.at(1.5).await;
        node.reported()
    };
    let first = run().await;
    assert!(
        first.ends_with("1.000 Died e/x.0 with 2\n1.000 Died e/y.0 with 1"),
        "{first}"
    );
    for _ in 0..5 {
        assert_eq!(run().await, first);
    }
}

#[tokio::test(start_paused = true)]
async fn counts_are_of_pods_with_a_running_sandbox_and_of_containers_by_state() {
    let node = Node::watch(|sim| {
        sim.run("a", &["one", "two"]);
        sim.run("b", &["one"]);
        sim.exit("a", "two", 0);
        let now = sim.now();
        sim.world().pod("b").create("new", now);
        sim.world().pod("b").sandbox().unwrap().state = SandboxState::NotReady;
    })
    .await;
    node.at(0.5).await;
    let counts = *node.counter.counts.lock().unwrap();
    assert_eq!((counts.pods, counts.running_pods), (2, 1));
    let in_state = |state| counts.containers(state);
    assert_eq!(in_state(ContainerState::Running), 2);
    assert_eq!(in_state(ContainerState::Exited), 1);
    assert_eq!(in_state(ContainerState::Created), 1);
    assert_eq!(in_state(ContainerState::Unknown), 0);
}

#[tokio::test(start_paused = true)]
async fn the_count_of_a_state_without_containers_is_zero() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.exit("a", "app", 0);
    })
    .await;
    let exited = || {
        let counts = *node.counter.counts.lock().unwrap();
        counts.containers(ContainerState::Exited)
    };
    node.at(0.5).await;
    assert_eq!(exited(), 1);
    node.sim.world().pod("a").containers.clear();
    node.at(1.5).await;
    assert_eq!(exited(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_requested_relist_begins_at_once() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.3).await;
    node.reported();
    node.sim.exit("a", "app", 4);
    node.pleg.request_relist();
    node.at(0.5).await;
    node.assert_reported("0.300 Died a/app.0 with 4");
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_is_requested_during_another_follows_it_at_once() {
    use pleg::runtime::Rpc;
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    let slow = sim::Fault::Slow(crate::node::seconds(0.4));
    node.sim.fault(Rpc::ListContainers, None, slow);
    node.at(1.2).await;
    node.pleg.request_relist();
    node.at(1.39).await;
    node.sim.lift_all();
    node.at(1.41).await;
    // The relist of 1.0 ends at 1.4; the requested one begins then, and the next one a period later.
    assert_eq!(node.sim.calls_made(Rpc::ListContainers), 3);
    node.at(2.39).await;
    assert_eq!(node.sim.calls_made(Rpc::ListContainers), 3);
    node.at(2.41).await;
    assert_eq!(node.sim.calls_made(Rpc::ListContainers), 4);
}

#[tokio::test(start_paused = true)]
async fn many_requests_for_a_relist_cause_one_relist() {
    use pleg::runtime::Rpc;
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    for _ in 0..100 {
        node.pleg.request_relist();
    }
    node.at(0.9).await;
    assert_eq!(node.sim.calls_made(Rpc::ListPodSandbox), 2);
}
