//! What is reported while there are several faults at once, and after they have ended.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::node::{LISTS, Node, STATUSES, broken, generic, named, pods, seconds, too_large};
use pleg::model::listed::ContainerState;
use pleg::out::health::{Blind, HealthState, Reason};
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::runtime::{Announced, CallError, Rpc};
use sim::{Fault, Sim, StreamFault};

fn missing() -> Fault {
    Fault::Fail(CallError::NotFound("no such container".into()))
}

fn many(sim: &Sim, pods: usize, containers: &[&str]) {
    for n in 0..pods {
        sim.run(&format!("p{n:04}"), containers);
    }
}

fn restart(node: &Node, pod: &str) {
    let now = node.sim.now();
    let mut world = node.sim.world();
    world.pod(pod).restart("app", 1, now);
    let containers = &mut world.pod(pod).containers;
    if containers.len() > 2 {
        containers.remove(0);
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_one_slow_pod_do_not_delay_the_pass() {
    let node = Node::watch_stream(pods).await;
    node.at(3.5).await;
    for call in STATUSES {
        node.sim.fault(call, None, Fault::Slow(seconds(1.5)));
    }
    let mut oldest = 0f64;
    for step in 0..1200 {
        // The event says that something happened, but nothing has.
        node.sim.inject_event(Announced {
            id: "a/app.0".into(),
            created_at: None,
            sandbox: None,
            is_removal: false,
        });
        node.pass(0.25).await;
        let health = node.status().await.health;
        oldest = oldest.max(health.age_seconds.unwrap());
        assert_ne!(
            health.state,
            HealthState::Unhealthy,
            "{step}: {} ({:?} s)",
            health.message,
            health.age_seconds
        );
    }
    assert!(oldest < 35.0, "lastSeen was {oldest} s old");
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_very_many_slow_containers_delays_no_other_pod() {
    let node = Node::watch(pods).await;
    let names: Vec<String> = (0..1600).map(|number| format!("c{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    node.at(3.5).await;
    node.sim.run("big", &names);
    let slow = Fault::Slow(seconds(0.95));
    node.sim.fault(Rpc::ContainerStatus, None, slow);
    let mut was_named = false;
    node.sample(400.0, |at, status| {
        let age = status.health.age_seconds.unwrap();
        assert!(age < 35.0, "at {at} lastSeen is {age} s old");
        assert_ne!(status.health.state, HealthState::Unhealthy);
        was_named |= status.failing.iter().any(|failing| {
            let pod = failing.pod.as_ref();
            pod.is_some_and(|pod| pod.name.contains("big"))
        });
    })
    .await;
    assert!(was_named, "the slow pod was never reported");
    assert_eq!(node.status().await.health.state, HealthState::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_slow_pod_that_changes_continuously_delays_no_other_pod_and_health_does_not_flap() {
    for (containers, slow) in [(20, 2.0), (50, 1.2), (100, 1.0)] {
        let node = Node::watch_with_kernel(generic(), pods).await;
        let names: Vec<String> = (0..containers).map(|it| format!("c{it}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        node.sim.run("big", &names);
        node.at(8.4).await;
        for name in &names {
            let id = format!("big/{name}.0");
            let slow = Fault::Slow(seconds(slow));
            node.sim.fault(Rpc::ContainerStatus, Some(&id), slow);
        }
        let (mut changes, mut last) = (0, HealthState::Healthy);
        for step in 0..230 {
            let now = node.sim.now();
            {
                let mut world = node.sim.world();
                let container = world.container("big", names[step % 10]);
                match container.state {
                    ContainerState::Running => container.exit(1, now),
                    _ => container.start(now),
                }
            }
            node.sample(1.7, |at, status| {
                let age = status.health.age_seconds.unwrap();
                assert!(age < 31.0, "{containers} x {slow} s: at {at} {age} s");
                let state = status.health.state;
                changes += usize::from(std::mem::replace(&mut last, state) != state);
            })
            .await;
        }
        assert!(changes < 14, "{containers} x {slow} s: {changes} changes");
    }
}

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
async fn a_healthy_node_has_no_dead_container_that_is_not_found() {
    let node = Node::watch_with_kernel(generic(), pods).await;
    node.at(3.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), missing());
    node.sim.kill("a", "app");
    node.at(600.0).await;
    let health = node.status().await.health;
    let a = node.pleg.cache().get(&"uid-a".into());
    let age = node.sim.now().since(a.as_of.unwrap().wall);
    assert!(
        health.state != HealthState::Healthy || age < seconds(5.0),
        "{}: a is as of {age:?} ago",
        health.message
    );
}

/// A new pod is unobserved while only its sandbox has been observed and the status call of its container is
/// outstanding.
#[tokio::test(start_paused = true)]
async fn a_node_is_not_synced_while_the_status_of_every_container_is_stuck() {
    let node = Node::watch_stream(|sim| {
        many(sim, 2, &["app", "side"]);
        sim.fault(Rpc::ContainerStatus, None, Fault::Hang);
    })
    .await;
    node.at(6.0).await;
    node.sim.run("new", &[]);
    node.at(6.5).await;
    let now = node.sim.now();
    node.sim.world().pod("new").create("app", now);
    for _ in 0..20 {
        node.pass(1.0).await;
        assert_eq!(node.status().await.relist.count, 0);
    }
    assert!(!node.reported().contains("synced"));
    node.sim.lift_all();
    node.pass(4.0).await;
    assert!(node.reported().contains("synced"));
}

#[tokio::test(start_paused = true)]
async fn failing_pods_are_reported_after_a_start_under_the_lock() {
    let node = Node::watch(|sim| {
        pods(sim);
        sim.status_lock("locked", "app");
        sim.fault(Rpc::ContainerStatus, Some("a/app.0"), broken());
    })
    .await;
    node.at(60.0).await;
    let status = node.status().await;
    let a = node.pleg.cache().get(&"uid-a".into());
    let is_reported = !status.failing.is_empty()
        || status.health.message.contains("a/app.0")
        || a.error.is_some();
    assert!(
        is_reported,
        "{}; a has {} containers",
        status.health.message,
        a.status.containers.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_blamed_on_no_pod() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), Fault::Hang);
    node.sim.exit("a", "app", 1);
    node.at(10.0).await;
    node.sim.restart(seconds(2.0));
    node.at(600.0).await;
    let status = node.status().await;
    assert!(status.failing.is_empty(), "{}", status.health.message);
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_reported_because_the_runtime_is_unreachable() {
    let node = Node::watch(|sim| many(sim, 20, &["app", "side"])).await;
    node.at(9.3).await;
    for call in STATUSES {
        node.sim.fault(call, None, Fault::Slow(seconds(0.3)));
    }
    for n in 0..10 {
        node.sim.exit(&format!("p{n:04}"), "app", 1);
    }
    node.at(10.1).await;
    node.sim.restart(seconds(120.0));
    node.at(60.0).await;
    let status = node.status().await;
    assert!(
        status.failing.is_empty(),
        "{} of them: {}",
        status.failing.len(),
        status.health.message
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_answered_is_not_unavailable() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    node.sim.restart(seconds(1.0));
    node.sim.status_lock("locked", "app");
    node.at(60.0).await;
    node.sim.run("new", &["app"]);
    node.at(63.0).await;
    let is_new =
        |record: &Record| matches!(record, Record::Event(event) if &*event.pod.name == "new");
    assert!(
        node.trace().iter().any(|entry| is_new(&entry.record)),
        "it is seen"
    );
    let status = node.status().await;
    assert!(
        !status.blind.contains(&Blind::NewPods),
        "{}",
        status.health.message
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_for_the_worse_is_reported_at_once() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    node.sim.fault(Rpc::ListContainers, None, broken());
    node.sim.restart(seconds(4.0));
    node.pass(10.0).await;
    node.sim.restart(seconds(4.0));
    node.pass(40.0).await;
    assert_eq!(node.status().await.health.reason, Reason::ListFails);
    node.sim.restart(seconds(100.0));
    let gone = |status: &pleg::out::status_report::StatusReport| {
        status.health.reason == Reason::RuntimeUnreachable
    };
    if let Err(status) = node.wait(3.0, gone).await {
        panic!("{:?}: {}", status.health.reason, status.health.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_recovering_while_a_list_fails() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    node.sim.fault(Rpc::ListContainers, None, broken());
    for _ in 0..2 {
        node.sim.restart(seconds(4.0));
        node.pass(10.0).await;
    }
    node.sample(30.0, |at, status| {
        let message = &status.health.message;
        assert!(
            !message.contains("no problem found"),
            "at {at}: {message}, blind {:?}",
            status.blind
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_pod_does_not_fail_while_a_list_is_stuck() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), Fault::Hang);
    node.sim.exit("a", "app", 1);
    node.at(8.0).await;
    node.sim.world().remove("a");
    node.at(10.3).await;
    node.sim.status_lock("locked", "app");
    node.at(15.0).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), broken());
    node.at(60.0).await;
    let status = node.status().await;
    assert!(status.failing.is_empty(), "{}", status.health.message);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_was_slow_an_hour_ago_delays_no_report() {
    for slow in [0.9, 4.5] {
        for lock in [false, true] {
            let node = Node::watch(|sim| many(sim, 5, &["app"])).await;
            node.at(9.3).await;
            for call in STATUSES {
                node.sim.fault(call, None, Fault::Slow(seconds(slow)));
            }
            for round in 0..20 {
                restart(&node, &format!("p{:04}", round % 5));
                node.pass(12.0).await;
            }
            node.sim.lift_all();
            node.pass(3600.0).await;
            let id = node.sim.world().container("p0002", "app").id.to_string();
            let (rpc, most) = match lock {
                true => (Rpc::ListContainers, 3.55),
                false => (Rpc::ContainerStatus, 4.05),
            };
            if lock {
                node.sim.status_lock("p0002", "app");
            } else {
                node.sim.fault(rpc, Some(&id), Fault::Hang);
                node.sim.exit("p0002", "app", 1);
            }
            let sim = node.sim.clone();
            node.sample(20.0, |_, status| {
                let outstanding = sim.outstanding();
                let call = outstanding.iter().find(|call| call.rpc == rpc);
                let age = call.map_or(0.0, |call| call.since.elapsed().as_secs_f64());
                assert!(age < most || !named(&status.stuck).is_empty(), "statuses took {slow} s an hour ago; {rpc} hangs for {age} s, and no culprit is reported");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_waits_for_room_does_not_spin() {
    let mut took = BTreeMap::new();
    for kills in [0, 20] {
        let node = Node::watch_with_kernel(generic(), |sim| many(sim, 100, &["app"])).await;
        node.at(9.3).await;
        node.sim.stop();
        for n in 0..kills {
            node.sim.kill(&format!("p{n:04}"), "app");
        }
        node.pass(10.0).await;
        let began = std::time::Instant::now();
        node.pass(600.0).await;
        took.insert(kills, began.elapsed());
    }
    assert!(took[&20] < took[&0] + Duration::from_secs(2), "{took:?}");
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

#[tokio::test(start_paused = true)]
async fn a_list_that_failed_beside_a_sweep_is_requested_again_before_the_node_is_healthy() {
    let node = Node::watch_stream(|sim| many(sim, 20, &["app"])).await;
    node.at(5.0).await;
    for pod in 0..20 {
        let now = node.sim.now();
        node.sim
            .world()
            .pod(&format!("p{pod:04}"))
            .restart("app", 1, now);
        node.pass(0.1).await;
    }
    let is_proven = |status: &StatusReport| status.relist.period_seconds >= 30.0;
    node.wait(120.0, is_proven).await.unwrap();
    let listed = node.sim.calls_made(Rpc::ListContainers);
    // One list takes 1.6 s, and the other one fails in that time.
    let slow = Fault::Slow(seconds(1.6));
    node.sim.fault(Rpc::ListContainers, None, slow);
    while node.sim.calls_made(Rpc::ListContainers) == listed {
        node.pass(0.01).await;
    }
    node.pass(0.5).await;
    node.sim.fault(Rpc::ListPodSandbox, None, broken());
    node.pass(0.8).await;
    node.sim.lift_all();
    node.sim.set_stream_fault(StreamFault::Silent);
    node.pass(2.0).await;
    node.sim.run("new", &[]);
    let born = node.elapsed();
    let cache = node.pleg.cache().clone();
    node.sample(60.0, |at, status| {
        let is_healthy = status.health.state == HealthState::Healthy;
        let seen = at - status.health.age_seconds.unwrap();
        let is_known = !cache.get(&"uid-new".into()).status.name.is_empty();
        let (message, blind) = (&status.health.message, &status.blind);
        assert!(!is_healthy || blind.is_empty(), "at {at}: {message}");
        assert!(
            is_known || seen <= born || !is_healthy,
            "at {at}: {message}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_runtime_is_unreachable_although_a_list_was_too_large() {
    for list in LISTS {
        let node = Node::watch(pods).await;
        node.at(2.5).await;
        node.sim.fault(list, None, Fault::Oversize);
        node.at(5.0).await;
        node.sim.restart(seconds(60.0));
        let unreachable =
            |status: &StatusReport| status.health.reason == Reason::RuntimeUnreachable;
        let after = node.wait(60.0, unreachable).await.unwrap();
        assert!(after < 4.0, "{list} too large: after {after} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_becomes_unresponsive_although_both_lists_were_too_large() {
    let node = Node::watch(pods).await;
    node.at(2.5).await;
    for list in LISTS {
        node.sim.fault(list, None, Fault::Oversize);
    }
    node.at(5.0).await;
    node.sim.stop();
    let is_unresponsive = |status: &StatusReport| status.health.reason == Reason::RuntimeSilent;
    let after = node.wait(60.0, is_unresponsive).await.unwrap();
    assert!(after < 6.0, "{after} s");
    // A list that was too large is rarely requested, even after the runtime answers again.
    node.sim.resume();
    node.pass(5.0).await;
    let lists = node.sim.calls_made(Rpc::ListContainers);
    node.pass(25.0).await;
    let more = node.sim.calls_made(Rpc::ListContainers) - lists;
    assert!(more <= 1, "{more} lists in 25 s");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_not_hidden_by_a_list_that_is_too_large() {
    let node = Node::watch(pods).await;
    node.at(2.5).await;
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Oversize);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(8.0).await;
    let neither = [Blind::NewPods, Blind::NewContainers];
    assert_eq!(node.status().await.blind, neither);
    node.sim.restart(seconds(10.0));
    node.sample(10.0, |at, status| {
        assert_eq!(status.blind, neither, "at {at}: {}", status.health.message);
    })
    .await;
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

#[tokio::test(start_paused = true)]
async fn a_reconnected_runtime_that_refuses_lists_is_not_unreachable() {
    for hangs in [false, true] {
        let node = Node::watch(pods).await;
        for cycle in 0..3 {
            node.pass(4.0).await;
            node.sim.restart(seconds(2.5));
            for list in LISTS {
                node.sim.fault(list, None, broken());
            }
            if hangs {
                node.sim.fault(Rpc::ContainerStatus, None, Fault::Hang);
            }
            node.pass(10.5).await;
            let health = node.status().await.health;
            let (reason, message) = (health.reason, health.message);
            let what = format!("{cycle}, statuses hang {hangs}: {message}");
            assert_ne!(reason, Reason::RuntimeUnreachable, "{what}");
            node.pass(4.0).await;
            node.sim.lift_all();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_stuck_list_hides_stays_unseen_until_it_is_answered_however_often_the_runtime_restarts()
 {
    for list in LISTS {
        for down in [0.1, 0.3, 2.5] {
            let node = Node::watch(|sim| many(sim, 8, &["app"])).await;
            node.at(3.0).await;
            node.sim.fault(list, None, Fault::Hang);
            node.at(9.0).await;
            for _ in 0..3 {
                node.sim.restart(seconds(down));
                node.sample(8.0, |at, status| {
                    let what = format!("{list}, {down} s, at {at}: {}", status.health.message);
                    assert!(!status.blind.is_empty(), "{what}");
                    assert_eq!(status.health.state, HealthState::Degraded, "{what}");
                    assert!(status.kubelet_view.not_ready_in_seconds.is_some(), "{what}");
                })
                .await;
            }
            node.sim.lift_all();
            node.wait(5.0, crate::node::is_healthy).await.unwrap();
        }
    }
}

/// Before each answer, CRI-O looks for 3.7 s for the exit file of a container whose conmon is gone.
#[tokio::test(start_paused = true)]
async fn a_status_that_is_slow_each_time_does_not_make_health_flap() {
    let node = Node::watch(pods).await;
    node.at(3.4).await;
    let slow = Fault::Slow(seconds(3.7));
    node.sim.fault(Rpc::ContainerStatus, Some("a/app.0"), slow);
    node.sim
        .exit_with_delayed_code("a", "app", 143, Duration::from_secs(3600));
    node.at(123.4).await;
    let changes = node.health_reports(3.4);
    assert!(changes.len() <= 8, "{changes:#?}");
}

/// The first lists show three pods. One of them always fails, and the others are slow at first.
#[tokio::test(start_paused = true)]
async fn a_node_is_synced_although_a_pod_always_fails() {
    let call = Rpc::ContainerStatus;
    let node = Node::watch(|sim| {
        many(sim, 3, &["app"]);
        sim.fault(call, None, Fault::Hang);
        sim.fault(call, Some("p0/app.0"), broken());
    })
    .await;
    node.at(30.0).await;
    assert_eq!(node.synced(), None);
    node.sim.lift(call, None);
    node.at(60.0).await;
    assert!(node.synced().is_some());
}
