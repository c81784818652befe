//! Nothing confirms a state that no call has observed: no later fact, no error that was recorded
//! meanwhile, and no id of a container that was removed long ago.

use std::time::Duration;

use crate::node::{LISTS, Node, STATUSES, broken, generic, many, seconds, victim};
use pleg::model::id::PodUid;
use pleg::model::listed::ContainerState;
use pleg::out::failure::InspectError;
use pleg::out::health::HealthState;
use pleg::runtime::Rpc;
use sim::Fault;
use tokio::time::Instant;

/// The status call of `side` hangs while the victim is inspected, and `app` dies after its own
/// status call was answered. Returns the node, and when `app` died.
async fn inspected_before_it_died() -> (Node, Instant) {
    let node = Node::watch(|sim| {
        sim.run("victim", &["app", "side", "third"]);
        many(sim, 20, &["app"]);
    })
    .await;
    node.at(8.4).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("victim/side.0"), Fault::Hang);
    node.sim.exit("victim", "third", 1);
    node.at(9.2).await;
    node.sim.exit("victim", "app", 9);
    (node, Instant::now())
}

#[tokio::test(start_paused = true)]
async fn an_error_that_was_recorded_meanwhile_does_not_make_an_old_inspection_newer() {
    for lists_hang in [false, true] {
        let (node, died) = inspected_before_it_died().await;
        if lists_hang {
            node.at(9.6).await;
            node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        }
        node.at(16.3).await;
        let slow = Fault::Slow(seconds(1.5));
        node.sim
            .fault(Rpc::ContainerStatus, Some("victim/app.0"), slow);
        node.sim.lift(Rpc::ContainerStatus, Some("victim/side.0"));
        for _ in 0..600 {
            node.pass(0.01).await;
            let runs = node
                .is_reported_to_run(&victim(), died + Duration::from_millis(200))
                .await;
            assert!(!runs, "at {}, lists hang: {lists_hang}", node.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_does_not_confirm_an_inspection_that_it_did_not_wait_for() {
    let node = Node::watch(|sim| {
        sim.run("victim", &["app", "side", "third"]);
        many(sim, 300, &["app"]);
    })
    .await;
    node.at(8.4).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("victim/side.0"), Fault::Hang);
    node.sim.exit("victim", "third", 1);
    node.at(9.6).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(15.0).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("victim/app.0"), broken());
    node.at(25.0).await;
    node.sim.exit("victim", "app", 9);
    let died = Instant::now();
    node.at(62.0).await;
    node.sim.lift(Rpc::ContainerStatus, Some("victim/side.0"));
    let cache = node.pleg.cache().clone();
    node.sample(30.0, |at, status| {
        let entry = cache.get(&victim());
        let as_of = entry.as_of.map(|as_of| as_of.instant);
        let mut containers = entry.status.containers.iter();
        let app = containers.find(|container| &*container.name == "app");
        if app.is_some_and(|app| app.state == ContainerState::Running) {
            assert!(as_of <= Some(died), "at {at} it runs as of after its death");
        }
        // The status of `app` fails each time.
        assert!(
            !status.failing.is_empty(),
            "at {at}: {}",
            status.health.message
        );
    })
    .await;
    // The exit is reported once `app` no longer fails.
    node.sim.lift_all();
    node.pass(5.0).await;
    assert_eq!(node.deaths("victim/app.0").len(), 1);
    assert_eq!(node.status().await.health.state, HealthState::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_of_ids_that_were_removed_long_ago_observes_no_pod() {
    for fault in [Fault::Hang, broken()] {
        let node = Node::watch_knowing_only(&["old-1", "old-2"], |sim| {
            many(sim, 5, &["app"]);
            for list in LISTS {
                sim.fault(list, None, fault.clone());
            }
        })
        .await;
        node.sample(200.0, |at, status| {
            let health = &status.health;
            assert_eq!(health.age_seconds, None, "at {at}: {}", health.message);
        })
        .await;
        assert_eq!(node.synced(), None);
        let health = node.status().await.health;
        assert_eq!(health.state, HealthState::Unhealthy, "{}", health.message);
        node.sim.lift_all();
        node.pass(10.0).await;
        assert!(node.synced().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_sandbox_is_reported_like_any_other() {
    let node = Node::watch(|sim| many(sim, 3, &["app"])).await;
    node.at(8.4).await;
    node.sim.world().pod("p0").sandboxes.clear();
    node.pass(10.0).await;
    // Each call for this id crashes the runtime, which accepts connections again at once.
    let id = "p0/app.0";
    node.sim.fault(Rpc::ContainerStatus, Some(id), Fault::Hang);
    node.sim.exit("p0", "app", 1);
    let ends = node.restarts_when_asked_for(id);
    node.pass(30.0).await;
    let mut was_named = false;
    node.sample(30.0, |at, status| {
        assert_ne!(status.health.state, HealthState::Healthy, "at {at}");
        was_named |= status.failing.iter().any(|failing| failing.id == id.into());
    })
    .await;
    ends.abort();
    assert!(was_named);
}

#[tokio::test(start_paused = true)]
async fn pods_that_were_created_and_removed_while_all_statuses_were_stuck_are_not_requested() {
    let node = Node::watch(|sim| many(sim, 5, &["app"])).await;
    node.at(8.4).await;
    for call in STATUSES {
        node.sim.fault(call, None, Fault::Hang);
    }
    for round in 0..300 {
        let names: Vec<String> = (0..4).map(|pod| format!("job-{round}-{pod}")).collect();
        for name in &names {
            node.sim.run(name, &["app"]);
        }
        node.pass(2.0).await;
        for name in &names {
            node.sim.world().remove(name);
        }
    }
    node.pass(3.0).await;
    node.sim.lift_all();
    for call in STATUSES {
        node.sim.fault(call, None, Fault::Slow(seconds(0.05)));
    }
    node.pass(0.5).await;
    let exited = node.elapsed();
    node.sim.exit("p0", "app", 3);
    node.pass(10.0).await;
    let reported: Vec<f64> = node.deaths("p0/app.0");
    assert_eq!(reported.len(), 1);
    assert!(
        reported[0] - exited < 2.0,
        "reported after {} s",
        reported[0] - exited
    );
}

/// Whether the cache shows, without an error, that this container ran at this time or later.
fn runs_as_of(node: &Node, uid: &PodUid, container: &str, time: Instant) -> bool {
    let entry = node.pleg.cache().get(uid);
    let mut containers = entry.status.containers.iter();
    let found = containers.find(|found| &*found.name == container);
    let runs = found.is_some_and(|found| found.state == ContainerState::Running);
    runs && entry.error.is_none() && entry.as_of.map(|as_of| as_of.instant) > Some(time)
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_pid_call_does_not_observe_a_container() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        many(sim, 150, &["app"]);
        sim.fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(0.3)));
    })
    .await;
    // Four PIDs are requested at a time.
    node.at(6.2).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.pass(0.9).await;
    for pod in 0..150 {
        node.sim.exit(&format!("p{pod}"), "app", 1);
    }
    let died = Instant::now();
    for _ in 0..300 {
        node.pass(0.05).await;
        for pod in 0..150 {
            let uid = format!("uid-p{pod}").as_str().into();
            let runs = runs_as_of(&node, &uid, "app", died);
            assert!(!runs, "p{pod}, {:?} after its death", died.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ids_that_only_the_host_knew_do_not_fail_once_the_host_no_longer_knows_them() {
    let node = Node::watch(|sim| many(sim, 3, &["app"])).await;
    node.at(8.4).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.pass(5.0).await;
    for number in 0..10 {
        let (now, name) = (node.sim.now(), format!("new-{number}"));
        let id = node.sim.world().pod("p0").create(&name, now).id.clone();
        let id = Some(id.as_str());
        node.sim.fault(Rpc::ContainerStatus, id, broken());
        node.pass(1.5).await;
        let is_other = |container: &sim::Container| container.name != name;
        node.sim.world().pod("p0").containers.retain(is_other);
        node.sim.lift(Rpc::ContainerStatus, id);
    }
    node.pass(60.0).await;
    let failing = node.status().await.failing;
    assert!(failing.is_empty(), "{failing:?}");
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_is_observed_with_the_containers_in_its_sandbox_status() {
    let node = Node::watch_knowing_no_host(|sim| {
        sim.fill_sandboxes();
        many(sim, 600, &["app"]);
    })
    .await;
    node.at(8.4).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(30.1).await;
    node.sim.run("victim", &["app"]);
    let begun = node.elapsed();
    let cache = node.pleg.cache().clone();
    node.sample(20.0, |at, status| {
        let entry = cache.get(&victim());
        let is_seen = at - status.health.age_seconds.unwrap() > begun;
        let lacks_some = entry.error.is_none() && entry.status.containers.is_empty();
        let is_hidden = is_seen && lacks_some && status.blind.is_empty();
        assert!(!is_hidden, "at {at}: {}", status.health.message);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_stuck_status_has_an_error_during_sweeps() {
    let node = Node::watch(|sim| {
        sim.run("web", &["nginx"]);
        sim.run("db", &["postgres"]);
    })
    .await;
    node.at(3.5).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.sim
        .fault(Rpc::ContainerStatus, Some("web/nginx.0"), Fault::Hang);
    node.at(10.0).await;
    let error = |pod: &str| node.pleg.cache().get(&pod.into()).error;
    assert!(matches!(
        error("uid-web"),
        Some(InspectError::Overdue { .. })
    ));
    assert_eq!(error("uid-db"), None);
    // A list shows that nothing about the pod has changed.
    node.sim.lift(Rpc::ListContainers, None);
    node.at(15.0).await;
    let web = node.pleg.cache().get(&"uid-web".into());
    assert_eq!(web.error, None);
    assert!(web.as_of.unwrap().instant + seconds(2.0) > Instant::now());
    assert_eq!(node.status().await.stuck.len(), 1);
    node.sim.lift_all();
    node.at(20.0).await;
    assert_eq!(error("uid-web"), None);
    assert_eq!(node.status().await.health.state, HealthState::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_stuck_status_keeps_its_error_whatever_else_happens_in_it() {
    for is_listed in [false, true] {
        let node = Node::watch(|sim| sim.run("db", &["postgres", "backup"])).await;
        node.at(10.0).await;
        node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        let postgres = Some("db/postgres.0");
        node.sim.fault(Rpc::ContainerStatus, postgres, Fault::Hang);
        node.at(20.0).await;
        node.sim.exit("db", "backup", 3);
        if is_listed {
            node.sim.exit("db", "postgres", 1);
            node.sim.lift(Rpc::ListContainers, None);
        }
        node.sample(15.0, |at, _| {
            let error = node.pleg.cache().get(&"uid-db".into()).error;
            let is_overdue = matches!(error, Some(InspectError::Overdue { .. }));
            assert!(is_overdue, "{error:?} at {at}");
        })
        .await;
        node.sim.lift_all();
        node.at(40.0).await;
        assert_eq!(node.pleg.cache().get(&"uid-db".into()).error, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_is_not_as_of_a_time_at_which_containers_ran_that_it_does_not_show() {
    let node = Node::watch(|sim| sim.run("old", &["app"])).await;
    node.at(5.0).await;
    let slow = Fault::Slow(seconds(1.9));
    node.sim.fault(Rpc::ListContainers, None, slow);
    let jitter = Fault::Jitter(seconds(0.1), seconds(3.0));
    node.sim.fault(Rpc::ContainerStatus, None, jitter);
    for number in 0..6 {
        node.at(9.0 + 4.3 * f64::from(number)).await;
        let (pod, uid) = (format!("new{number}"), format!("uid-new{number}").into());
        let started = Instant::now();
        node.sim.run(&pod, &["a", "b", "c"]);
        node.sample(4.0, |at, status| {
            let entry = node.pleg.cache().get(&uid);
            let claims = entry.as_of.is_some_and(|as_of| as_of.instant >= started);
            let shown = entry.status.containers.len();
            let message = &status.health.message;
            assert!(
                !claims || shown == 3 || entry.error.is_some(),
                "{pod}: {shown} at {at}, as of {:?} after: {message}",
                entry.as_of.map(|as_of| as_of.instant - started)
            );
        })
        .await;
    }
}
