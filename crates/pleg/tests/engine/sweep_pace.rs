//! How many calls a sweep makes, and how soon it ends.

use crate::node::{LISTS, Node, STATUSES, broken, generic, many, pods, seconds, too_large};
use pleg::Config;
use pleg::runtime::Rpc;
use sim::Fault;

#[tokio::test(start_paused = true)]
async fn a_sweep_makes_at_most_two_hundred_calls_a_second() {
    let node = Node::watch(|sim| {
        many(sim, 500, &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(10.0).await;
    let before = node.sim.calls_made(Rpc::ContainerStatus);
    node.at(20.0).await;
    let made = node.sim.calls_made(Rpc::ContainerStatus) - before;
    assert!((1000..=2010).contains(&made), "{made} calls in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_slow_runtime_is_swept_more_slowly() {
    let node = Node::watch_with(Config::default(), |sim| {
        many(sim, 200, &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.sim
        .fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(0.2)));
    node.at(10.0).await;
    let before = node.sim.calls_made(Rpc::ContainerStatus);
    node.at(20.0).await;
    let made = node.sim.calls_made(Rpc::ContainerStatus) - before;
    assert!((100..=300).contains(&made), "{made} calls in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn failing_status_calls_do_not_delay_a_sweep() {
    let node = Node::watch(|sim| {
        for number in 0..12 {
            sim.run(&format!("broken-{number}"), &["app"]);
        }
        sim.run("well", &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.reported();
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    for number in 0..12 {
        let sandbox = format!("broken-{number}.0");
        let container = format!("broken-{number}/app.0");
        let statuses = [
            (Rpc::PodSandboxStatus, sandbox),
            (Rpc::ContainerStatus, container),
        ];
        for (call, id) in statuses {
            node.sim.fault(call, Some(&id), broken());
        }
    }
    node.sim.exit("well", "app", 3);
    node.at(6.0).await;
    let reported = node.reported();
    assert!(reported.contains("Died well/app.0 with 3"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_takes_longer_than_the_period_ends() {
    for (pods, slow) in [(250, 0.002), (120, 0.045), (50, 0.1), (28, 0.28), (10, 2.0)] {
        let node = Node::watch(|sim| many(sim, pods, &["app"])).await;
        node.at(3.5).await;
        let slow = Fault::Slow(seconds(slow));
        node.sim.fault(Rpc::ContainerStatus, None, slow.clone());
        node.sim.status_lock("p2", "app");
        node.pass(5.0).await;
        node.sample(120.0, |at, status| {
            let age = status.health.age_seconds.unwrap();
            assert!(
                age < 16.0,
                "{pods} pods, {slow:?}: at {at} lastSeen is {age} s old"
            );
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_node_with_slow_statuses_is_observed_long_before_it_would_be_unhealthy() {
    for (pods, slow) in [(250, 1.0), (500, 2.0), (110, 3.0)] {
        let node = Node::watch(|sim| many(sim, pods, &["app", "sidecar"])).await;
        node.at(3.5).await;
        for call in STATUSES {
            let slow = Fault::Slow(seconds(slow));
            node.sim.fault(call, None, slow);
        }
        node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        node.sample(300.0, |at, status| {
            let age = status.health.age_seconds.unwrap();
            assert!(
                age < 80.0,
                "{pods} pods, {slow} s: at {at} lastSeen is {age} s old"
            );
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_waits_for_the_other_list_however_late_it_is() {
    for hangs in [true, false] {
        for (list, other) in [
            (Rpc::ListContainers, Rpc::ListPodSandbox),
            (Rpc::ListPodSandbox, Rpc::ListContainers),
        ] {
            for slow in [0.7, 1.1, 1.5, 1.9] {
                let node = Node::watch(|sim| many(sim, 5, &["app"])).await;
                node.at(8.4).await;
                let fault = match hangs {
                    true => Fault::Hang,
                    false => broken(),
                };
                node.sim.fault(list, None, fault);
                node.sim.fault(other, None, Fault::Slow(seconds(slow)));
                node.pass(5.0).await;
                node.sample(60.0, |at, status| {
                    let age = status.health.age_seconds.unwrap();
                    assert!(age < 12.0, "{other} takes {slow} s: at {at} {age} s");
                })
                .await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_failed_and_is_then_stuck_beside_the_other_delays_no_sweep() {
    for list in LISTS {
        let node = Node::watch(|sim| many(sim, 5, &["app"])).await;
        node.at(8.4).await;
        node.sim.fault(list, None, broken());
        node.pass(5.0).await;
        node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
        node.pass(6.0).await;
        node.sample(60.0, |at, status| {
            let age = status.health.age_seconds.unwrap();
            assert!(age < 8.0, "{list} failed first: at {at} {age} s");
        })
        .await;
    }
}

/// A node on which the PID call for `locked` is sent 0.9 s after the start, and is not answered. Other
/// status calls have taken as long, so this call becomes suspect late. Meanwhile, containers cannot be
/// listed.
async fn node_with_outstanding_pid_call(list: Fault) -> Node {
    let node = Node::watch_with_kernel(generic(), |sim| {
        pods(sim);
        sim.fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(0.9)));
    })
    .await;
    node.at(0.5).await;
    let id = Some("locked/app.0");
    node.sim.fault(Rpc::ContainerStatus, id, Fault::Hang);
    node.sim.lift(Rpc::ContainerStatus, None);
    node.sim.fault(Rpc::ListContainers, None, list);
    node
}

#[tokio::test(start_paused = true)]
async fn an_outstanding_pid_call_delays_no_sweep() {
    for list in [Fault::Hang, too_large()] {
        let node = node_with_outstanding_pid_call(list.clone()).await;
        node.at(2.6).await;
        let now = node.sim.now();
        node.sim.world().pod("a").restart("app", 4, now);
        node.at(3.3).await;
        node.sim.exit("a", "app", 5);
        node.at(4.3).await;
        let reported = node.reported();
        for line in ["Started a/app.1", "Died a/app.1 with 5"] {
            assert_eq!(
                reported.matches(line).count(),
                1,
                "{list:?}: {line}: {reported}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_waited_for_a_pid_call_is_a_pass_once_that_is_answered() {
    let node = node_with_outstanding_pid_call(Fault::Hang).await;
    let began = node.sim.now();
    node.at(4.3).await;
    node.counter.seen.lock().unwrap().clear();
    node.sim.lift(Rpc::ContainerStatus, Some("locked/app.0"));
    node.pass(0.05).await;
    let seen = node.counter.seen.lock().unwrap();
    let first = seen.first().expect("it is complete").since(began);
    // The sweep began two seconds after the start.
    assert_eq!(first, seconds(1.5));
}
