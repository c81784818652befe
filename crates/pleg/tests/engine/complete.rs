//! An entry of the cache is complete as of a time only if it shows each part that its pod had then.

use crate::node::{LISTS, Node, broken, generic, many, not_found, seconds, victim};
use pleg::Config;
use pleg::model::id::PodUid;
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::out::cache::Entry;
use pleg::runtime::Rpc;
use sim::{Fault, Sim, StreamFault};
use tokio::time::Instant;

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
