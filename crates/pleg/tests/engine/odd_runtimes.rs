//! Runtimes that answer late, with a past state, or sometimes not at all: nothing false is reported.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::node::{LISTS, Node, generic, many, seconds};
use crate::odd::Odd;
use pleg::Config;
use pleg::model::id::{Id, PodRef};
use pleg::model::listed::ContainerState;
use pleg::runtime::{Announced, AnnouncedSandbox, Rpc};
use sim::{Fault, Outstanding, Sim, StreamFault};
use tokio::time::Instant;

/// A node whose runtime may be odd, and whose host still has the directory of a container that was
/// removed long ago.
async fn watch_odd(config: Config, prepare: impl FnOnce(&Sim, &Odd)) -> (Node, Odd) {
    let sim = Sim::new();
    let odd = Odd::new(sim.clone());
    let prepare = |sim: &Sim| prepare(sim, &odd);
    let node = Node::watch_through(sim, odd.clone(), &["long-gone"], config, prepare).await;
    (node, odd)
}

/// A node whose runtime answers with the state at the time of the request. Its pod `victim` has the
/// containers `app` and `side`.
async fn watch_the_past() -> (Node, Odd) {
    let prepare = |sim: &Sim, odd: &Odd| {
        many(sim, 5, &["app"]);
        sim.run("victim", &["app", "side"]);
        odd.oddities().shows_the_past = true;
    };
    watch_odd(generic(), prepare).await
}

#[tokio::test(start_paused = true)]
async fn no_container_dies_because_it_is_not_found_once_however_many_are_not() {
    let (node, odd) = watch_odd(generic(), |sim, _| many(sim, 300, &["app"])).await;
    node.at(8.4).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let ids = (0..300).map(|pod| Id::from(format!("p{pod}/app.0").as_str()));
    odd.oddities().not_found_once = ids.collect();
    node.reported();
    node.pass(20.0).await;
    assert!(odd.oddities().not_found_once.is_empty());
    node.assert_reported_no_event();
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_does_not_add_a_pod_that_lists_show_as_removed() {
    // The delayed answer is the status of the pod's sandbox, or that of an id that the host knew.
    for by_sandbox in [true, false] {
        let (node, odd) = watch_the_past().await;
        odd.oddities().fills_sandboxes = by_sandbox;
        node.at(8.4).await;
        node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        node.at(14.4).await;
        if by_sandbox {
            node.sim
                .fault(Rpc::PodSandboxStatus, Some("victim.0"), Fault::Hang);
        } else {
            node.sim
                .fault(Rpc::ContainerStatus, Some("victim/new.0"), Fault::Hang);
            let now = node.sim.now();
            node.sim.world().pod("victim").create("new", now).start(now);
        }
        node.at(20.4).await;
        node.sim.lift(Rpc::ListContainers, None);
        node.at(25.4).await;
        node.sim.world().remove("victim");
        node.at(30.4).await;
        node.reported();
        node.sim.lift_all();
        node.pass(20.0).await;
        let reported = node.reported();
        assert!(!reported.contains("victim"), "{reported}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_refuses_connections_while_a_call_is_stuck_receives_no_witness() {
    for (call, id) in [
        (Rpc::ContainerStatus, "victim/app.0"),
        (Rpc::PodSandboxStatus, "victim.0"),
    ] {
        let (node, odd) = watch_the_past().await;
        node.at(8.4).await;
        node.sim.fault(call, Some(id), Fault::Hang);
        node.sim.exit("victim", "side", 1);
        // The victim's inspection has been stuck since 9 s; a runtime that stops gracefully waits for the
        // call.
        node.at(9.8).await;
        odd.oddities().refuses = true;
        node.pass(30.0).await;
        let refused = odd.oddities().refused;
        assert!(refused < 100, "{call}: {refused} calls in 30 s");
    }
}

/// Sends an event that names a pod that does not exist.
fn announce_ghost(sim: &Sim, number: usize) {
    let name = format!("ghost-{number}");
    let id = Id::from(name.as_str());
    let pod = PodRef {
        uid: format!("uid-{name}").as_str().into(),
        namespace: "default".into(),
        name: name.as_str().into(),
    };
    sim.inject_event(Announced {
        id: id.clone(),
        created_at: Some(sim.now()),
        sandbox: Some(AnnouncedSandbox { id, pod }),
        is_removal: false,
    });
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_only_an_event_named_is_not_observed() {
    for is_seen_before in [true, false] {
        let begin_to_fail = |sim: &Sim, odd: &Odd| {
            odd.oddities().containers_fail_after = Some(seconds(0.4));
            let slow = Fault::Slow(seconds(0.3));
            sim.fault(Rpc::PodSandboxStatus, None, slow);
        };
        let prepare = |sim: &Sim, odd: &Odd| {
            many(sim, 3, &["app"]);
            if !is_seen_before {
                begin_to_fail(sim, odd);
            }
        };
        let (node, odd) = watch_odd(Config::default(), prepare).await;
        if is_seen_before {
            node.at(8.4).await;
            begin_to_fail(&node.sim, &odd);
        }
        for pod in 0..3 {
            node.sim.exit(&format!("p{pod}"), "app", 1);
        }
        let begun = node.elapsed();
        for number in 0..100 {
            announce_ghost(&node.sim, number);
            node.pass(0.7).await;
        }
        let age = node.status().await.health.age_seconds;
        let seen = age.map(|age| node.elapsed() - age);
        assert_eq!(seen.is_some(), is_seen_before);
        assert!(
            seen <= Some(begun),
            "seen as of {seen:?}, all fail since {begun}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_list_does_not_confirm_a_pod_that_a_newer_sweep_could_not_request() {
    let (node, _odd) = watch_the_past().await;
    node.at(8.4).await;
    let slow = Fault::Slow(seconds(8.0));
    node.sim.fault(Rpc::ListContainers, None, slow);
    node.at(60.0).await;
    let app = Some("victim/app.0");
    node.sim.fault(Rpc::ContainerStatus, app, Fault::Hang);
    node.pass(30.0).await;
    let is_young = |call: &Outstanding| {
        call.rpc == Rpc::ListContainers && call.since.elapsed() < Duration::from_millis(15)
    };
    while !node.sim.outstanding().iter().any(is_young) {
        node.pass(0.01).await;
    }
    node.pass(0.4).await;
    node.sim.exit("victim", "app", 9);
    let died = Instant::now();
    for _ in 0..300 {
        node.pass(0.05).await;
        let runs = node
            .is_reported_to_run(&"uid-victim".into(), died + Duration::from_secs(1))
            .await;
        assert!(!runs, "{:?} after its death", died.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_list_does_not_confirm_a_pod_that_a_newer_sweep_did_not_find() {
    let (node, _odd) = watch_the_past().await;
    node.at(8.9).await;
    let slow = Fault::Slow(seconds(1.5));
    node.sim.fault(Rpc::ListContainers, None, slow);
    // The list is requested at 9 s.
    node.at(9.5).await;
    node.sim.lift_all();
    let containers = |pod: &mut sim::Pod| pod.containers.retain(|it| it.name != "app");
    containers(node.sim.world().pod("victim"));
    let removed = Instant::now();
    for _ in 0..60 {
        node.pass(0.05).await;
        let runs = node
            .is_reported_to_run(&"uid-victim".into(), removed + Duration::from_millis(200))
            .await;
        assert!(!runs, "{:?} after it was removed", removed.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_found_no_pod_does_not_count() {
    let (node, odd) = watch_odd(generic(), |sim, _| many(sim, 3, &["app"])).await;
    node.at(8.4).await;
    for list in LISTS {
        node.sim.fault(list, None, Fault::Hang);
    }
    node.pass(10.0).await;
    let ids = (0..3).flat_map(|pod| [format!("p{pod}/app.0"), format!("p{pod}.0")]);
    let ids: BTreeSet<Id> = ids.map(|id| Id::from(id.as_str())).collect();
    odd.oddities().broken = ids.clone();
    odd.oddities().not_found_once = ids;
    let begun = node.elapsed();
    node.pass(20.0).await;
    let seen = node.elapsed() - node.status().await.health.age_seconds.unwrap();
    assert!(
        seen <= begun,
        "last seen as of {seen}, but no pod since {begun}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_container_that_was_not_found_once_exists_as_soon_as_a_list_shows_it() {
    // The list is requested before or after the container is not found.
    for list_first in [false, true] {
        let (node, odd) = watch_odd(Config::default(), |sim, _| {
            many(sim, 3, &["app"]);
            sim.run("victim", &["app", "side"]);
        })
        .await;
        node.at(20.4).await;
        let slow = Fault::Slow(seconds(0.3));
        node.sim.fault(Rpc::ListContainers, None, slow);
        let late = "victim/late.0";
        odd.oddities().not_found_once.insert(late.into());
        if list_first {
            node.sim.set_stream_fault(StreamFault::Silent);
        }
        let now = node.sim.now();
        node.sim.world().pod("victim").create("late", now);
        let created = Instant::now();
        node.pass(0.01).await;
        node.pleg.request_relist();
        node.pass(0.1).await;
        node.sim.lift_stream_faults();
        // Events cause an inspection while the list is outstanding.
        let now = node.sim.now();
        node.sim.world().container("victim", "late").start(now);
        node.sim.exit("victim", "side", 1);
        if list_first {
            let is_to_come = odd.oddities().not_found_once.contains(&Id::from(late));
            assert!(is_to_come, "only its start was reported");
        }
        let uid = "uid-victim".into();
        for _ in 0..300 {
            node.pass(0.01).await;
            let entry = node.pleg.cache().get(&uid);
            let lacks_it = entry.status.container(&late.into()).is_none();
            let is_complete = entry.error.is_none() && entry.complete_as_of > Some(created);
            let at = node.elapsed();
            assert!(!(lacks_it && is_complete), "{list_first}, {at}: {entry:?}");
        }
        assert!(odd.oddities().not_found_once.is_empty());
        let entry = node.pleg.cache().get(&uid);
        assert!(entry.status.container(&late.into()).is_some());
        assert!(entry.complete_as_of > Some(created));
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_not_found_once_long_after_its_exit_fails_for_a_moment() {
    let (node, odd) = watch_odd(generic(), |sim, _| {
        many(sim, 3, &["app"]);
        sim.run("victim", &["app", "side", "other"]);
    })
    .await;
    node.at(8.4).await;
    let never = seconds(3600.0);
    node.sim.exit_with_delayed_code("victim", "app", 1, never);
    node.at(40.4).await;
    odd.oddities().not_found_once.insert("victim/app.0".into());
    node.sim.exit("victim", "side", 1);
    node.at(50.4).await;
    assert!(odd.oddities().not_found_once.is_empty());
    assert_eq!(node.status().await.failing, []);
    assert_eq!(node.pleg.cache().get(&"uid-victim".into()).error, None);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_call_that_is_answered_at_last_confirms_nothing_newer() {
    let (node, _) = watch_the_past().await;
    node.at(8.4).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(12.5).await;
    let app = Some("victim/app.0");
    node.sim.fault(Rpc::ContainerStatus, app, Fault::Hang);
    node.at(16.5).await;
    assert_eq!(crate::node::named(&node.status().await.stuck).len(), 1);
    node.sim.exit("victim", "app", 1);
    let ended = Instant::now();
    // The next sweep still waits for the status of `p0/app.0` when the stuck call is answered.
    let slow = Fault::Slow(seconds(0.5));
    node.sim.fault(Rpc::ContainerStatus, Some("p0/app.0"), slow);
    node.at(17.3).await;
    node.sim.lift(Rpc::ContainerStatus, app);
    for _ in 0..100 {
        node.pass(0.02).await;
        let entry = node.pleg.cache().get(&"uid-victim".into());
        let app = entry.status.container(&"victim/app.0".into()).unwrap();
        let runs = app.state == ContainerState::Running && entry.error.is_none();
        let is_newer = entry.as_of.is_some_and(|as_of| as_of.instant > ended);
        assert!(!(runs && is_newer), "{}: {entry:?}", node.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_with_labels_of_another_pod_makes_its_pod_fail_and_hides_nothing() {
    let (node, odd) = watch_odd(generic(), |sim, _| {
        many(sim, 3, &["app"]);
        sim.run("victim", &["app", "side"]);
    })
    .await;
    node.at(8.4).await;
    let app = Id::from("victim/app.0");
    let other = node.sim.world().pod("p0").pod.clone();
    odd.oddities().mislabelled.insert(app.clone(), other);
    node.sim.exit("victim", "side", 1);
    for _ in 0..300 {
        node.pass(0.01).await;
        let entry = node.pleg.cache().get(&"uid-victim".into());
        let is_hidden = entry.status.container(&app).is_none() && entry.error.is_none();
        assert!(!is_hidden, "{}: {entry:?}", node.elapsed());
    }
    let failing = node.status().await.failing;
    assert_eq!(failing.len(), 1, "{failing:?}");
    let error = failing[0].error.to_string();
    assert!(error.contains("the labels of pod default/p0"), "{error}");
    odd.oddities().mislabelled.clear();
    node.pass(20.0).await;
    assert_eq!(node.status().await.failing, []);
}

#[tokio::test(start_paused = true)]
async fn if_a_sandbox_is_listed_in_two_pods_the_pod_that_its_status_does_not_name_fails() {
    let (node, _) = watch_odd(generic(), |sim, _| many(sim, 3, &["app"])).await;
    node.at(8.4).await;
    node.reported();
    {
        let mut world = node.sim.world();
        let shared = world.pod("p0").sandboxes[0].clone();
        world.pod("p1").sandboxes.push(shared);
    }
    node.pass(3.0).await;
    let failing = node.status().await.failing;
    assert_eq!(failing.len(), 1, "{failing:?}");
    let pod = failing[0].pod.as_ref().unwrap();
    assert_eq!(&*pod.name, "p1");
    node.assert_reported_no_event();
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_a_delayed_list_adds_no_removed_pod() {
    let prepare = |sim: &Sim, odd: &Odd| {
        sim.fill_sandboxes();
        odd.oddities().fills_sandboxes = true;
        many(sim, 3, &["app"]);
    };
    let (node, odd) = watch_odd(generic(), prepare).await;
    node.at(3.5).await;
    // The lists are stuck, and so are the calls of a sweep: their answers will show the past.
    node.sim.stop();
    node.at(6.0).await;
    odd.oddities().shows_the_past = true;
    node.at(6.2).await;
    odd.oddities().shows_the_past = false;
    node.at(8.0).await;
    node.sim.world().remove("p0");
    node.at(10.0).await;
    node.reported();
    node.sim.resume();
    node.at(40.0).await;
    let reported = node.reported();
    for line in [
        "Died p0/app.0",
        "Removed p0/app.0",
        "Died p0.0",
        "Removed p0.0",
    ] {
        assert_eq!(reported.matches(line).count(), 1, "{line}: {reported}");
    }
    assert!(!reported.contains("Started"), "{reported}");
}

/// Creates the pod `c` again, under its UID.
fn make_anew(sim: &Sim) {
    let now = sim.now();
    let mut world = sim.world();
    let pod = world.run("c", &[], now);
    pod.sandboxes[0].id = "c.1".into();
    pod.sandboxes[0].attempt = 1;
    let mut container = pod.create("app", now).clone();
    container.id = "c/app.1".into();
    container.attempt = 1;
    container.sandbox_id = "c.1".into();
    container.start(now);
    pod.containers = vec![container];
}

#[tokio::test(start_paused = true)]
async fn a_delayed_list_adds_nothing_to_a_pod_that_was_created_again() {
    let [sandboxes, containers] = LISTS;
    for (too_large, held_up) in [(sandboxes, containers), (containers, sandboxes)] {
        let (node, odd) = watch_odd(generic(), |sim, _| crate::node::pods(sim)).await;
        odd.oddities().shows_the_past = true;
        node.at(2.5).await;
        node.sim.fault(too_large, None, Fault::Oversize);
        node.at(5.0).await;
        node.sim.fault(held_up, None, Fault::Hang);
        node.at(8.0).await;
        node.sim.world().remove("c");
        node.at(14.0).await;
        assert_eq!(node.reported().matches("Removed c/app.0").count(), 1);
        make_anew(&node.sim);
        node.at(20.0).await;
        node.sim.lift(held_up, None);
        node.at(40.0).await;
        let reported = node.reported();
        let is_old = reported.contains("c/app.0") || reported.contains("c.0");
        assert!(!is_old, "{held_up} came late: {reported}");
    }
}
