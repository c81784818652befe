//! What is reported as observed was observed as of the reported time.

use crate::node::{LISTS, Node, broken, many, seconds};
use pleg::model::listed::ContainerState;
use pleg::out::health::HealthState;
use pleg::runtime::{CallError, NoConnection, Rpc};
use sim::Fault;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_connection_lost_in_the_first_pass_leaves_no_pod_observed() {
    let node = Node::watch(|sim| {
        many(sim, 5, &["app"]);
        sim.fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(1.5)));
    })
    .await;
    node.at(0.7).await;
    node.sim.restart(seconds(60.0));
    node.sample(40.0, |at, status| {
        let health = &status.health;
        assert_eq!(health.age_seconds, None, "at {at}: {}", health.message);
        assert_ne!(health.state, HealthState::Healthy, "at {at}");
    })
    .await;
    assert_eq!(node.synced(), None);
    node.pass(60.0).await;
    assert!(node.synced().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pass_in_which_the_connection_is_lost_does_not_count() {
    let node = Node::watch(|sim| many(sim, 5, &["app"])).await;
    node.at(8.1).await;
    node.sim
        .fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(1.5)));
    for pod in 0..5 {
        node.sim.exit(&format!("p{pod}"), "app", 1);
    }
    node.at(9.5).await;
    node.sim.restart(seconds(30.0));
    let cache = node.pleg.cache().clone();
    node.sample(25.0, |at, status| {
        let age = status.health.age_seconds.unwrap();
        // The lists of 9.0 have shown both exits, but no inspection has.
        assert!(at - age < 9.0, "at {at}: last seen {age} s ago");
        let running = cache.all().into_iter().filter(|entry| {
            let mut containers = entry.status.containers.iter();
            containers.any(|it| it.state == ContainerState::Running)
        });
        assert!(running.count() == 5, "the ends are not known yet");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_inspection_does_not_confirm_what_a_later_list_shows() {
    let node = Node::watch(|sim| many(sim, 3, &["app", "b"])).await;
    node.at(3.5).await;
    node.sim
        .fault(Rpc::PodSandboxStatus, None, Fault::Slow(seconds(2.6)));
    node.at(3.9).await;
    node.sim.exit("p0", "b", 1);
    node.at(4.1).await;
    node.sim.exit("p0", "app", 1);
    for _ in 0..160 {
        node.pass(0.05).await;
        let entry = node.pleg.cache().get(&"uid-p0".into());
        let app = entry.status.container(&"p0/app.0".into()).unwrap();
        if app.state == ContainerState::Running {
            let age = entry.as_of.unwrap().instant.elapsed().as_secs_f64();
            let as_of = node.elapsed() - age;
            assert!(as_of < 4.1, "it runs as of {as_of}");
        }
    }
    let entry = node.pleg.cache().get(&"uid-p0".into());
    let app = entry.status.container(&"p0/app.0".into()).unwrap();
    assert_eq!(app.state, ContainerState::Exited);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_not_observed_for_ten_seconds_is_reported_whatever_ends_its_inspections() {
    for another_fails in [false, true] {
        let node = Node::watch(|sim| many(sim, 3, &["app"])).await;
        node.at(8.4).await;
        if another_fails {
            node.sim
                .fault(Rpc::ContainerStatus, Some("p1/app.0"), broken());
            node.sim.exit("p1", "app", 1);
        }
        // Each call for this id crashes the runtime, which accepts connections again at once.
        let id = "p0/app.0";
        node.sim.fault(Rpc::ContainerStatus, Some(id), Fault::Hang);
        node.sim.exit("p0", "app", 1);
        let ends = node.restarts_when_asked_for(id);
        let mut was_named = false;
        node.sample(60.0, |at, status| {
            let is_healthy = status.health.state == HealthState::Healthy;
            let message = &status.health.message;
            assert!(at < 20.5 || !is_healthy, "at {at}: {message}");
            let mut failing = status.failing.iter();
            was_named |= failing.any(|failing| failing.id.as_str() == id);
        })
        .await;
        assert!(was_named, "another fails: {another_fails}");
        ends.abort();
    }
}

/// Replaces the container of the only pod each time that `every` seconds have passed. Returns how
/// many seconds ago, at most, the node was last seen.
async fn keeps_replacing(node: &Node, every: f64, kept: usize, time: f64) -> f64 {
    let mut oldest: f64 = 0.0;
    for _ in 0..(time / every) as usize {
        let now = node.sim.now();
        {
            let mut world = node.sim.world();
            let pod = world.pod("p0");
            pod.restart("app", 1, now);
            let too_many = pod.containers.len().saturating_sub(kept);
            pod.containers.drain(..too_many);
        }
        node.pass(every).await;
        let health = node.status().await.health;
        assert_ne!(health.state, HealthState::Unhealthy, "{}", health.message);
        oldest = oldest.max(health.age_seconds.unwrap_or(node.elapsed()));
    }
    oldest
}

#[tokio::test(start_paused = true)]
async fn a_single_pod_is_observed_however_often_it_changes_during_slow_inspections() {
    for (every, kept, takes) in [(0.7, 40, 0.3), (3.1, 5, 1.0), (1.3, 20, 0.6)] {
        let node = Node::watch_stream(|sim| many(sim, 1, &["app"])).await;
        node.at(20.0).await;
        node.sim
            .fault(Rpc::PodSandboxStatus, None, Fault::Slow(seconds(takes)));
        let oldest = keeps_replacing(&node, every, kept, 300.0).await;
        assert!(oldest < 15.0, "{oldest}");
        let health = node.status().await.health;
        assert_eq!(health.state, HealthState::Healthy, "{}", health.message);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_pass_ends_although_the_only_pod_always_differs_from_its_list() {
    let node = Node::watch_with(crate::node::generic(), |sim| {
        many(sim, 1, &["app"]);
        sim.fault(Rpc::PodSandboxStatus, None, Fault::Slow(seconds(0.01)));
        sim.fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(0.01)));
        sim.fault(Rpc::ListContainers, None, Fault::Slow(seconds(0.02)));
    })
    .await;
    keeps_replacing(&node, 0.002, 1, 5.0).await;
    assert!(
        node.synced().is_some_and(|at| at < 2.5),
        "{:?}",
        node.synced()
    );
}

#[tokio::test(start_paused = true)]
async fn beside_slow_lists_nothing_is_reported_as_of_a_time_that_no_list_reflects() {
    for (slow, hangs) in [(3.0, None), (6.0, None), (6.0, Some(48.0)), (12.0, None)] {
        let node = Node::watch_knowing_no_host(|sim| many(sim, 2, &["app"])).await;
        node.at(4.0).await;
        node.sim
            .fault(Rpc::ListContainers, None, Fault::Slow(seconds(slow)));
        if let Some(from) = hangs {
            node.at(from).await;
            node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        }
        node.at(50.0).await;
        let now = node.sim.now();
        node.sim.world().pod("p0").restart("app", 1, now);
        let restarted = Instant::now();
        let p0 = "uid-p0".into();
        node.sample(40.0, |at, status| {
            let entry = node.pleg.cache().get(&p0);
            let mut containers = entry.status.containers.iter();
            if containers.any(|it| it.id.as_str() == "p0/app.1") || !status.blind.is_empty() {
                return;
            }
            let as_of = entry.as_of.unwrap().instant;
            assert!(
                as_of <= restarted,
                "{slow} s, at {at}: {:?}",
                as_of - restarted
            );
            let seen = Instant::now() - seconds(status.health.age_seconds.unwrap());
            assert!(
                seen <= restarted,
                "{slow} s, at {at}: {:?}",
                seen - restarted
            );
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_observed_although_one_list_is_slow_and_the_other_one_is_stuck() {
    let lists = [Rpc::ListPodSandbox, Rpc::ListContainers];
    for (slow, hangs) in [(lists[0], lists[1]), (lists[1], lists[0])] {
        let node = Node::watch_knowing_no_host(|sim| many(sim, 2, &["app"])).await;
        node.at(4.0).await;
        node.sim.fault(slow, None, Fault::Slow(seconds(4.0)));
        node.at(40.0).await;
        node.sim.fault(hangs, None, Fault::Hang);
        node.at(60.0).await;
        node.sample(60.0, |at, status| {
            let age = status.health.age_seconds.unwrap();
            assert!(age < 12.0, "{slow:?}, at {at}: {age}");
            assert_eq!(
                status.blind.len(),
                2,
                "{slow:?}, at {at}: {:?}",
                status.blind
            );
        })
        .await;
        // The slow list is requested, and shows what is new, and that it is no longer slow.
        node.reported();
        let before = node.sim.calls_made(slow);
        match slow {
            Rpc::ListPodSandbox => node.sim.run("new", &["app"]),
            _ => {
                let now = node.sim.now();
                node.sim.world().pod("p0").restart("app", 1, now);
            }
        }
        node.pass(20.0).await;
        let new = match slow {
            Rpc::ListPodSandbox => "Started new.0",
            _ => "Started p0/app.1",
        };
        let reported = node.reported();
        assert!(reported.contains(new), "{slow:?}: {reported}");
        let calls = node.sim.calls_made(slow) - before;
        assert!((2..=4).contains(&calls), "{slow:?}: {calls} in 20 s");
        node.sim.lift(slow, None);
        node.pass(12.0).await;
        let blind = node.status().await.blind;
        assert_eq!(blind.len(), 1, "{slow:?}: {blind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_later_list_shows_is_not_reported_as_observed() {
    for (slow, period) in [(3.0, 3.75), (5.0, 6.25), (10.0, 12.5)] {
        for list in LISTS {
            // The changes happen at various times, before and after lists are known to be slow each
            // time.
            for part in 0..8 {
                let case = format!("{list:?} {slow} s, part {part}");
                let node = Node::watch_knowing_no_host(|sim| many(sim, 2, &["app"])).await;
                node.at(4.0).await;
                node.sim.fault(list, None, Fault::Slow(seconds(slow)));
                node.at(4.0 + 3.0 * period / 8.0 * f64::from(part)).await;
                node.sim.run("new", &["app"]);
                let now = node.sim.now();
                node.sim.world().pod("p0").restart("app", 1, now);
                let changed = Instant::now();
                node.sample(3.0 * period, |at, status| {
                    let cache = node.pleg.cache();
                    let p0 = cache.get(&"uid-p0".into());
                    let mut containers = p0.status.containers.iter();
                    let is_restart_shown = containers.any(|it| it.id.as_str() == "p0/app.1");
                    let is_new_shown = cache.get(&"uid-new".into()).inspected;
                    if is_restart_shown && is_new_shown || !status.blind.is_empty() {
                        return;
                    }
                    let seen = Instant::now() - seconds(status.health.age_seconds.unwrap());
                    let as_of = p0.as_of.unwrap().instant;
                    let as_of = (!is_restart_shown).then_some(as_of);
                    for time in as_of.into_iter().chain([seen]) {
                        assert!(time <= changed, "{case}, at {at}: {:?}", time - changed);
                    }
                })
                .await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unchanged_pods_are_observed_by_lists_although_a_call_of_each_is_stuck() {
    let node = Node::watch(|sim| many(sim, 3, &["app"])).await;
    node.at(6.0).await;
    for list in LISTS {
        let lost = CallError::unavailable(NoConnection::Lost, "boom");
        node.sim.fault(list, None, Fault::Fail(lost));
    }
    node.sim.fault(Rpc::ContainerStatus, None, Fault::Hang);
    node.at(10.0).await;
    for list in LISTS {
        node.sim.lift(list, None);
    }
    node.at(20.0).await;
    node.sample(200.0, |at, status| {
        let health = &status.health;
        assert!(
            health.age_seconds < Some(3.0),
            "at {at}: {}",
            health.message
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_inspected_without_lists_is_observed_as_soon_as_lists_return() {
    for hangs in [&LISTS[..1], &LISTS[1..], &LISTS[..]] {
        let node = Node::watch_stream(|sim| many(sim, 6, &["app"])).await;
        node.at(2.0).await;
        for number in 0..12 {
            let now = node.sim.now();
            let name = format!("p{}", number % 6);
            node.sim.world().pod(&name).restart("app", 1, now);
            node.pass(0.3).await;
        }
        node.at(22.0).await;
        for list in hangs {
            node.sim.fault(*list, None, Fault::Hang);
        }
        node.at(44.0).await;
        node.sim.exit("p1", "app", 3);
        node.at(52.0).await;
        node.sim.lift_all();
        node.pass(0.5).await;
        node.sample(20.0, |at, status| {
            let seen = status.health.age_seconds.unwrap();
            let as_of = node.pleg.cache().get(&"uid-p1".into()).as_of.unwrap();
            let as_of = as_of.instant.elapsed().as_secs_f64();
            assert!(as_of < seen + 1.5, "{hangs:?}, at {at}: {as_of} and {seen}");
        })
        .await;
    }
}
