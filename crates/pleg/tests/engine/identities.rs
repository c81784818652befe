//! What the kubelet's tests do not cover: ids that collide, restarts, and a wall clock that is
//! changed.

use std::collections::BTreeSet;

use crate::node::Node;
use pleg::runtime::{CALLS, CallError, Rpc};
use sim::Fault;

#[tokio::test(start_paused = true)]
async fn one_container_id_in_two_pods_is_reported_for_both() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
        let mut world = sim.world();
        world.container("b", "app").id = "a/app.0".into();
    })
    .await;
    node.at(0.5).await;
    node.reported();
    node.sim.exit("a", "app", 1);
    node.sim.exit("b", "app", 1);
    node.at(1.5).await;
    assert_eq!(node.reported().matches("Died a/app.0").count(), 2);
    assert_eq!(
        node.sim.max_outstanding_per_id(),
        1,
        "even for one id in two pods"
    );
}

#[tokio::test(start_paused = true)]
async fn one_stuck_id_in_two_pods_reports_both_and_passes_continue() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
        sim.world().container("b", "app").id = "a/app.0".into();
        sim.run("c", &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), Fault::Hang);
    node.sim.exit("a", "app", 1);
    node.sim.exit("b", "app", 1);
    node.at(30.5).await;
    let status = node.status().await;
    let stuck = status.stuck.iter();
    let pods = stuck.filter_map(|stuck| stuck.pod.as_ref().map(ToString::to_string));
    let pods: BTreeSet<String> = pods.collect();
    let both = ["default/a", "default/b"].map(str::to_owned);
    assert_eq!(pods, BTreeSet::from(both));
    assert!(status.health.age_seconds.unwrap() < 2.0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlives_its_pod_is_reported_once_when_another_pod_has_its_id() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.run("c", &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), Fault::Hang);
    node.sim.exit("a", "app", 1);
    node.at(5.5).await;
    node.sim.world().remove("a");
    node.at(8.5).await;
    node.sim.run("b", &["app"]);
    node.sim.world().container("b", "app").id = "a/app.0".into();
    node.at(20.5).await;
    let status = node.status().await;
    let stuck = status.stuck.iter();
    let pods = stuck.filter_map(|stuck| stuck.pod.as_ref().map(ToString::to_string));
    assert_eq!(pods.collect::<Vec<_>>(), ["default/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_reused_uid_is_a_new_pod() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    node.sim.world().remove("a");
    node.at(1.5).await;
    node.reported();
    node.sim.run("a", &["app"]);
    node.at(2.5).await;
    node.assert_reported(
        "2.000 Started a/app.0
         2.000 Started a.0",
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_removed_and_created_during_a_stuck_inspection_is_reported_once() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    node.sim
        .fault(Rpc::PodSandboxStatus, Some("a.0"), Fault::Hang);
    node.sim.exit("a", "app", 1);
    node.at(1.5).await;
    let pod = node.sim.world().pods.remove("a").unwrap();
    node.at(2.5).await;
    node.assert_reported(
        "1.250 Died a/app.0 with 1
         2.000 Removed a/app.0
         2.000 Died a.0
         2.000 Removed a.0",
    );
    node.sim.world().pods.insert("a".into(), pod);
    node.at(3.5).await;
    node.sim.lift_all();
    node.at(6.5).await;
    node.assert_reported(
        "3.500 Died a/app.0 with 1
         3.500 Started a.0",
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_runtime_reports_only_what_happened_meanwhile() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.reported();
    let gone = Fault::Fail(CallError::connection_refused());
    for call in CALLS {
        node.sim.fault(call, None, gone.clone());
    }
    node.sim.exit("b", "app", 137);
    node.at(30.5).await;
    node.sim.lift_all();
    node.at(40.5).await;
    node.assert_reported(
        "1.000 Degraded: pods cannot be listed: the runtime cannot be reached: connection refused
         31.000 Died b/app.0 with 137
         31.000 Healthy: all pods are up to date",
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_wall_clock_changes_no_event_and_no_health() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use pleg::model::wall_time::WallTime;
    use pleg::{Config, Environment, NoObserver, Pleg};

    let sim = sim::Sim::new();
    sim.run("a", &["app"]);
    let offset = Arc::new(AtomicI64::new(0));
    let environment = Environment {
        endpoint: "sim".into(),
        clock: {
            let (sim, offset) = (sim.clone(), offset.clone());
            Arc::new(move || {
                let nanos = sim.now().as_unix_nanos() + offset.load(Ordering::Relaxed);
                WallTime::from_unix_nanos(nanos).unwrap()
            })
        },
        observer: Arc::new(NoObserver),
        ids: pleg::no_ids(),
        kernel: None,
    };
    let pleg = Pleg::start(Arc::new(sim.clone()), Config::default(), environment);
    let mut reported = pleg.subscribe().await.unwrap();
    tokio::time::sleep(crate::node::seconds(0.5)).await;
    const DAY: i64 = 86_400_000_000_000;
    for step in [DAY, -DAY, 0] {
        offset.store(step, Ordering::Relaxed);
        tokio::time::sleep(crate::node::seconds(10.0)).await;
        let health = pleg.status().await.unwrap().health;
        assert_eq!(health.state, pleg::out::health::HealthState::Healthy);
        assert!(health.age_seconds.unwrap() < 1.1);
    }
    sim.exit("a", "app", 1);
    tokio::time::sleep(crate::node::seconds(2.0)).await;
    let mut lines = Vec::new();
    while let Ok(Some(record)) =
        tokio::time::timeout(crate::node::seconds(0.1), reported.next()).await
    {
        lines.push(crate::node::line(&record));
    }
    assert_eq!(
        lines,
        [
            "Started a/app.0 (initial)",
            "Started a.0 (initial)",
            "synced 1 pods, 1 containers",
            "Healthy: all pods are up to date",
            "Died a/app.0 with 1 (stream)"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_without_metadata_and_a_row_without_an_id_disturb_no_pod() {
    let node = Node::watch(|sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
        let mut world = sim.world();
        world.container("b", "app").id = "".into();
    })
    .await;
    node.at(1.5).await;
    node.assert_reported(
        "0.000 Started a/app.0 (initial)
         0.000 Started a.0 (initial)
         0.000 Started b.0 (initial)
         0.000 synced 2 pods, 1 containers
         0.000 Healthy: all pods are up to date",
    );
}
