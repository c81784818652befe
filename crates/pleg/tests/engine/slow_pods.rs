//! A pod whose statuses are slow delays no other pod, and does not make health flap.

use std::time::Duration;

use crate::node::{Node, STATUSES, generic, many, named, pods, seconds};
use pleg::model::listed::ContainerState;
use pleg::out::health::{HealthState, Reason};
use pleg::runtime::{Announced, Rpc};
use sim::Fault;

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
async fn a_runtime_that_was_slow_an_hour_ago_delays_no_report() {
    for slow in [0.9, 4.5] {
        for lock in [false, true] {
            let node = Node::watch(|sim| many(sim, 5, &["app"])).await;
            node.at(9.3).await;
            for call in STATUSES {
                node.sim.fault(call, None, Fault::Slow(seconds(slow)));
            }
            for round in 0..20 {
                restart(&node, &format!("p{}", round % 5));
                node.pass(12.0).await;
            }
            node.sim.lift_all();
            node.pass(3600.0).await;
            let id = node.sim.world().container("p2", "app").id.to_string();
            let (rpc, most) = match lock {
                true => (Rpc::ListContainers, 3.55),
                false => (Rpc::ContainerStatus, 4.05),
            };
            if lock {
                node.sim.status_lock("p2", "app");
            } else {
                node.sim.fault(rpc, Some(&id), Fault::Hang);
                node.sim.exit("p2", "app", 1);
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

#[tokio::test(start_paused = true)]
async fn a_pod_that_restarts_continuously_is_observed() {
    for (pods, slow, every) in [(1, 0.05, 1.0), (3, 1.0, 1.0), (10, 2.0, 2.0)] {
        let node = Node::watch(|sim| {
            many(sim, pods, &["app"]);
        })
        .await;
        for call in STATUSES {
            node.sim.fault(call, None, Fault::Slow(seconds(slow)));
        }
        let mut oldest: f64 = 0.0;
        while node.elapsed() < 300.0 {
            let now = node.sim.now();
            for number in 0..pods {
                let mut world = node.sim.world();
                let pod = world.pod(&format!("p{number}"));
                pod.restart("app", 1, now);
                // A kubelet removes all ended containers but the last one.
                let old = pod.containers.len().saturating_sub(2);
                pod.containers.drain(..old);
            }
            node.pass(every).await;
            let health = node.status().await.health;
            oldest = oldest.max(health.age_seconds.unwrap_or_default());
        }
        assert!(oldest < 60.0, "{pods} {slow} {every}: {oldest}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_culprit_is_cleared_although_other_pods_restart_continuously() {
    let node = Node::watch(|sim| many(sim, 60, &["app"])).await;
    node.at(5.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("p0/app.0"), Fault::Hang);
    node.sim.exit("p0", "app", 1);
    node.at(12.0).await;
    assert_eq!(node.status().await.health.reason, Reason::ContainerStuck);
    for call in STATUSES {
        node.sim.fault(call, None, Fault::Slow(seconds(1.5)));
    }
    let mut last = 0.0;
    while node.elapsed() < 60.0 {
        if node.elapsed() > 22.0 {
            node.sim.lift(Rpc::ContainerStatus, Some("p0/app.0"));
        }
        let now = node.sim.now();
        let number = node.elapsed() as usize % 59 + 1;
        node.sim
            .world()
            .pod(&format!("p{number}"))
            .restart("app", 1, now);
        node.pass(1.0).await;
        if node.status().await.health.reason == Reason::ContainerStuck {
            last = node.elapsed();
        }
    }
    assert!(last < 30.0, "it is named until {last}");
}
