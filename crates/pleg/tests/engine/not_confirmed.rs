//! Nothing confirms a state that no call has observed: no later fact, no error that was recorded
//! meanwhile, and no id of a container that was removed long ago.

use std::time::Duration;

use crate::node::{LISTS, Node, STATUSES, broken, generic, many, not_found, seconds, victim};
use pleg::Config;
use pleg::model::id::PodUid;
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::out::cache::Entry;
use pleg::out::failure::InspectError;
use pleg::out::health::HealthState;
use pleg::runtime::Rpc;
use sim::{Fault, Sim, StreamFault};
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

#[tokio::test(start_paused = true)]
async fn a_pod_whose_sandbox_cannot_be_listed_is_not_complete() {
    let node = Node::watch_knowing_no_host(|sim| many(sim, 3, &["app"])).await;
    node.at(8.4).await;
    node.sim.fault(Rpc::ListPodSandbox, None, broken());
    node.at(20.0).await;
    let created = Instant::now();
    node.sim.run("new", &["app"]);
    node.pass(10.0).await;
    let uid: PodUid = "uid-new".into();
    let entry = node.pleg.cache().get(&uid);
    assert!(!entry.status.containers.is_empty() && entry.status.sandboxes.is_empty());
    assert!(entry.complete_as_of < Some(created));
    let lifted = Instant::now();
    node.sim.lift_all();
    node.pass(5.0).await;
    let complete_as_of = node.pleg.cache().get(&uid).complete_as_of;
    assert!(complete_as_of > Some(lifted));
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
async fn a_sweep_that_first_finds_containers_in_sandbox_statuses_is_not_complete() {
    let node = Node::watch_knowing_no_host(|sim| {
        sim.fill_sandboxes();
        many(sim, 3, &["app"]);
    })
    .await;
    node.at(8.4).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(9.5).await;
    let now = node.sim.now();
    for pod in ["p0", "p1", "p2"] {
        node.sim.world().pod(pod).create("late", now).start(now);
    }
    let created = Instant::now();
    let cache = node.pleg.cache().clone();
    for _ in 0..80 {
        node.pass(0.05).await;
        for entry in cache.all() {
            let lacks_late = state_of(&entry, "late").is_none();
            let is_complete = entry.complete_as_of > Some(created);
            assert!(
                !(lacks_late && is_complete),
                "{}: {entry:?}",
                node.elapsed()
            );
        }
    }
    for entry in cache.all() {
        assert!(state_of(&entry, "late").is_some());
        assert!(entry.complete_as_of > Some(created), "later sweeps see all");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_observes_what_started_and_exited_in_a_sandbox_that_has_stopped_since() {
    let node = Node::watch_with_kernel_knowing_no_host(|sim| {
        sim.fill_sandboxes();
        sim.run("victim", &["app"]);
        many(sim, 3, &["app"]);
    })
    .await;
    // A first fault shows that statuses of sandboxes include their containers.
    node.at(8.4).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(14.4).await;
    node.sim.lift_all();
    node.at(20.4).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    // The list is outstanding, and not yet overdue, when a hint of the kernel causes an inspection.
    node.at(21.2).await;
    let now = node.sim.now();
    {
        let mut world = node.sim.world();
        let pod = world.pod("victim");
        pod.create("late", now).start(now);
        pod.stop(now);
    }
    node.sim.kill("victim", "app");
    let created = Instant::now();
    let cache = node.pleg.cache().clone();
    for _ in 0..80 {
        node.pass(0.05).await;
        let entry = cache.get(&victim());
        let lacks_late = state_of(&entry, "late").is_none();
        let is_complete = entry.error.is_none() && entry.complete_as_of > Some(created);
        assert!(
            !(lacks_late && is_complete),
            "{}: {entry:?}",
            node.elapsed()
        );
    }
    let late = state_of(&cache.get(&victim()), "late");
    assert_eq!(late, Some(ContainerState::Exited));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_started_a_container_is_never_answered_without_it() {
    for (config, kernel) in [(generic(), true), (Config::default(), false)] {
        let prepare = |sim: &Sim| {
            sim.run("victim", &["app"]);
            many(sim, 3, &["app"]);
        };
        let node = match kernel {
            true => Node::watch_with_kernel(config, prepare).await,
            false => Node::watch_with(config, prepare).await,
        };
        node.at(8.1).await;
        // The stream, if there is one, loses the events that `new` was created and started.
        node.sim.set_stream_fault(StreamFault::Silent);
        let now = node.sim.now();
        node.sim.world().pod("victim").create("new", now).start(now);
        node.pass(0.05).await;
        node.sim.lift_stream_faults();
        let started = Instant::now();
        node.pass(0.01).await;
        // The kernel or the stream reports this exit, and an inspection of the known ids follows.
        node.sim.exit("victim", "app", 1);
        let uid = victim();
        let newer = node.pleg.cache().newer_than(&uid, started);
        let entry = newer.await.unwrap();
        let mut containers = entry.status.containers.iter();
        let new = containers.find(|container| &*container.name == "new");
        let state = new.map(|container| container.state);
        assert_eq!(state, Some(ContainerState::Running), "kernel: {kernel}");
        assert!(entry.complete_as_of > Some(started), "kernel: {kernel}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_shows_that_it_is_incomplete_while_containers_cannot_be_listed() {
    let node = Node::watch_knowing_no_host(|sim| {
        sim.run("victim", &["app"]);
        many(sim, 3, &["app"]);
    })
    .await;
    node.at(8.1).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.pass(5.0).await;
    let now = node.sim.now();
    node.sim.world().pod("victim").create("new", now).start(now);
    let started = Instant::now();
    let entry = node.pleg.cache().newer_than(&victim(), started).await;
    let entry = entry.unwrap();
    assert_eq!(entry.status.containers.len(), 1);
    assert!(entry.complete_as_of < Some(started));
}

/// Whether the entry has the victim's sandbox, and `app` as it runs.
fn has_what_runs(entry: &Entry) -> bool {
    let is_ready = |id| {
        let mut sandboxes = entry.status.sandboxes.iter();
        sandboxes.any(|it| it.id == id && it.state == SandboxState::Ready)
    };
    is_ready("victim.0".into()) && state_of(entry, "app") == Some(ContainerState::Running)
}

fn state_of(entry: &Entry, container: &str) -> Option<ContainerState> {
    let mut containers = entry.status.containers.iter();
    let found = containers.find(|found| &*found.name == container);
    found.map(|found| found.state)
}

#[tokio::test(start_paused = true)]
async fn a_status_without_a_listed_part_is_incomplete_and_is_not_returned() {
    for kernel in [false, true] {
        for (call, id) in [
            (Rpc::ContainerStatus, "victim/app.0"),
            (Rpc::PodSandboxStatus, "victim.0"),
        ] {
            for lasts in [0.1, 0.8] {
                let case = format!("kernel: {kernel}, {id} for {lasts} s");
                let prepare = |sim: &Sim| {
                    sim.run("victim", &["app", "side"]);
                    many(sim, 3, &["app"]);
                };
                let node = match kernel {
                    true => Node::watch_with_kernel(generic(), prepare).await,
                    false => Node::watch(prepare).await,
                };
                // The lists of 9.0 show the exit, or the kernel reports it shortly after them.
                node.at(if kernel { 9.05 } else { 8.95 }).await;
                node.sim.fault(call, Some(id), not_found());
                node.sim.exit("victim", "side", 1);
                let (uid, cache) = (victim(), node.pleg.cache().clone());
                let exited = Instant::now();
                let requested = tokio::spawn(async move { cache.newer_than(&uid, exited).await });
                let mut lacked = false;
                for step in 0..60 {
                    node.pass(0.05).await;
                    if f64::from(step) * 0.05 >= lasts {
                        node.sim.lift_all();
                    }
                    let entry = node.pleg.cache().get(&victim());
                    if entry.error.is_none() && !has_what_runs(&entry) {
                        lacked = true;
                        assert_eq!(entry.complete_as_of, None, "{case}");
                    }
                }
                assert!(lacked, "{case}");
                assert!(requested.is_finished(), "{case}");
                let entry = requested.await.unwrap().unwrap();
                assert_eq!(entry.error, None, "{case}");
                assert!(has_what_runs(&entry), "{case}: {entry:?}");
                let side = state_of(&entry, "side");
                assert_eq!(side, Some(ContainerState::Exited), "{case}");
                assert!(entry.complete_as_of > Some(exited), "{case}");
                // The part that was not found causes no event.
                assert_eq!(node.deaths("victim/side.0").len(), 1, "{case}");
                assert_eq!(node.deaths("victim/app.0").len(), 0, "{case}");
                assert_eq!(node.deaths("victim.0").len(), 0, "{case}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_complete_again_with_the_first_list_that_confirms_a_removal() {
    let node = Node::watch(|sim| {
        sim.run("victim", &["app", "side"]);
        many(sim, 3, &["app"]);
    })
    .await;
    node.at(8.95).await;
    node.reported();
    // The lists of 9.0 are the last ones that show `app`.
    let slow = Fault::Slow(seconds(0.1));
    node.sim
        .fault(Rpc::ContainerStatus, Some("victim/app.0"), slow);
    node.sim.exit("victim", "side", 1);
    let exited = Instant::now();
    node.at(9.05).await;
    let is_other = |container: &sim::Container| container.name != "app";
    node.sim.world().pod("victim").containers.retain(is_other);
    node.at(9.2).await;
    let entry = node.pleg.cache().get(&victim());
    assert_eq!((state_of(&entry, "app"), entry.error), (None, None));
    assert_eq!(entry.complete_as_of, None);
    node.pleg.request_relist();
    let requested = Instant::now();
    let entry = node.pleg.cache().newer_than(&victim(), exited).await;
    let entry = entry.unwrap();
    assert!(requested.elapsed() < seconds(0.01));
    assert_eq!(state_of(&entry, "app"), None);
    assert!(entry.complete_as_of > Some(exited));
    node.pass(5.0).await;
    node.assert_reported(
        "9.100 Died victim/side.0 with 1
         9.200 Died victim/app.0
         9.200 Removed victim/app.0",
    );
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_pod_is_answered_as_incomplete_while_lists_are_stuck() {
    for lasts in [0.1, 30.0] {
        let node = Node::watch_with_kernel(generic(), |sim| {
            sim.run("victim", &["app", "side"]);
            many(sim, 3, &["app"]);
        })
        .await;
        node.at(8.4).await;
        for list in LISTS {
            node.sim.fault(list, None, Fault::Hang);
        }
        node.at(20.4).await;
        let app = Some("victim/app.0");
        node.sim.fault(Rpc::ContainerStatus, app, not_found());
        node.sim.exit("victim", "side", 1);
        let exited = Instant::now();
        node.pass(lasts).await;
        node.sim.lift(Rpc::ContainerStatus, app);
        let entry = node.pleg.cache().newer_than(&victim(), exited).await;
        let entry = entry.unwrap();
        assert!(exited.elapsed() < seconds(lasts + 5.0));
        assert!(entry.complete_as_of < Some(exited), "{lasts} s");
    }
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
