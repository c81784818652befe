//! A call that crashes the runtime is found and withheld, and all else is observed.

use std::collections::BTreeSet;

use crate::node::{Node, generic, has_failing, is_healthy, many, named, pods, seconds};
use pleg::Config;
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, Rpc};
use sim::{Fault, Sim};

/// `b` has a container whose status call crashes the runtime.
fn one_crashes(sim: &Sim) {
    let crash = Fault::Crash(seconds(1.0));
    sim.fault(Rpc::ContainerStatus, Some("b/app.0"), crash);
}

#[tokio::test(start_paused = true)]
async fn other_pods_are_observed_beside_a_pod_whose_status_crashes_the_runtime() {
    for with_kernel in [false, true] {
        let node = match with_kernel {
            false => Node::watch(pods).await,
            true => Node::watch_with_kernel(generic(), pods).await,
        };
        node.at(3.5).await;
        one_crashes(&node.sim);
        node.sim.exit("b", "app", 3);
        node.sim.exit("a", "app", 1);
        node.at(9.0).await;
        node.sim.exit("c", "app", 1);
        node.at(20.0).await;
        let reported = node.deaths("a/app.0");
        assert!(reported.len() == 1 && reported[0] < 8.0, "{reported:?}");
        let reported = node.deaths("c/app.0");
        assert!(reported.len() == 1 && reported[0] < 13.0, "{reported:?}");
        let status = node.status().await;
        assert!(has_failing(&status, "b/app.0"), "{:?}", status.failing);
        assert_eq!(status.failing.len(), 1, "{:?}", status.failing);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_crashes_the_runtime_is_sent_with_growing_pauses() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    one_crashes(&node.sim);
    node.sim.exit("b", "app", 3);
    node.at(20.0).await;
    let before = node.sim.calls_made(Rpc::ContainerStatus);
    node.at(1200.0).await;
    let made = node.sim.calls_made(Rpc::ContainerStatus) - before;
    assert!((2..=8).contains(&made), "{made}");
    let status = node.status().await;
    assert!(has_failing(&status, "b/app.0"));
    // It is not counted again as a lost call.
    let message = &status.health.message;
    assert!(
        !message.contains("the connection was lost during"),
        "{message}"
    );
    node.sim.lift(Rpc::ContainerStatus, Some("b/app.0"));
    node.at(1510.0).await;
    assert_eq!(node.deaths("b/app.0").len(), 1);
    assert!(is_healthy(&node.status().await));
}

/// An engine starts on a node with a container about which no call was sent since the runtime started.
#[tokio::test(start_paused = true)]
async fn a_node_is_observed_although_one_call_crashes_the_runtime() {
    let node = Node::watch(|sim| {
        many(sim, 50, &["app"]);
        sim.run("b", &["app"]);
        one_crashes(sim);
    })
    .await;
    let learned = node
        .wait(30.0, |status| has_failing(status, "b/app.0"))
        .await;
    assert!(learned.is_ok(), "{learned:#?}");
    node.at(20.0).await;
    let synced = node.synced();
    assert!(synced.is_some_and(|at| at < 15.0), "{synced:?}");
    assert_eq!(node.status().await.failing.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_refused_beside_a_crash_is_not_its_cause() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    one_crashes(&node.sim);
    let refused = Fault::Fail(CallError::Refused("Unknown: no".into()));
    let call = Rpc::ContainerStatus;
    node.sim.fault(call, Some("a/app.0"), refused);
    node.sim.exit("b", "app", 3);
    node.sim.exit("a", "app", 1);
    node.at(20.0).await;
    let status = node.status().await;
    let error = |id: &str| {
        let mut failing = status.failing.iter();
        let failing = failing.find(|failing| failing.id.as_str() == id);
        failing.map(|failing| failing.error.to_string())
    };
    let refused = error("a/app.0").unwrap();
    assert!(refused.contains("Unknown: no"), "{refused}");
    let crash = error("b/app.0").unwrap();
    assert!(crash.contains("is lost each time"), "{crash}");
}

/// Asserts that all pods but one are observed within `limit` seconds if all twelve pods have
/// changed and the status call of one container crashes the runtime.
async fn assert_all_but_one_are_observed(slow: Fault, limit: f64) {
    let node = Node::watch(|sim| many(sim, 12, &["app"])).await;
    node.at(3.5).await;
    node.sim.fault(Rpc::ContainerStatus, None, slow);
    let crash = Fault::Crash(seconds(0.3));
    node.sim
        .fault(Rpc::ContainerStatus, Some("p6/app.0"), crash);
    for pod in 0..12 {
        node.sim.exit(&format!("p{pod}"), "app", 1);
    }
    let mut others = BTreeSet::new();
    node.sample(60.0, |_, status| {
        let named = status.failing.iter().map(|failing| failing.id.to_string());
        others.extend(named.filter(|id| !id.starts_with("p6")));
    })
    .await;
    assert!(others.is_empty(), "{others:?}");
    assert!(has_failing(&node.status().await, "p6/app.0"));
    for pod in (0..12).filter(|pod| *pod != 6) {
        let reported = node.deaths(&format!("p{pod}/app.0"));
        assert!(
            reported.len() == 1 && reported[0] < limit,
            "p{pod}: {reported:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn other_pods_are_observed_however_slow_their_statuses_are() {
    assert_all_but_one_are_observed(Fault::Slow(seconds(0.002)), 10.0).await;
    assert_all_but_one_are_observed(Fault::Slow(seconds(0.07)), 10.0).await;
    assert_all_but_one_are_observed(Fault::Slow(seconds(0.15)), 10.0).await;
    assert_all_but_one_are_observed(Fault::Jitter(seconds(0.01), seconds(0.12)), 10.0).await;
    assert_all_but_one_are_observed(Fault::Slow(seconds(0.6)), 12.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_container_beside_one_that_crashes_the_runtime_is_not_blamed() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    one_crashes(&node.sim);
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), Fault::Hang);
    for pod in ["a", "b", "c"] {
        node.sim.exit(pod, "app", 1);
    }
    let mut blamed = false;
    node.sample(60.0, |_, status| blamed |= has_failing(status, "a/app.0"))
        .await;
    assert!(!blamed);
    let status = node.status().await;
    assert!(has_failing(&status, "b/app.0"));
    assert_eq!(named(&status.stuck), ["a/app.0".into()]);
    assert_eq!(node.deaths("c/app.0").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_crashed_the_runtime_and_now_only_hangs_is_stuck() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    one_crashes(&node.sim);
    node.sim.exit("b", "app", 3);
    let blamed = node
        .wait(30.0, |status| has_failing(status, "b/app.0"))
        .await;
    assert!(blamed.is_ok(), "{blamed:#?}");
    let call = Rpc::ContainerStatus;
    node.sim.fault(call, Some("b/app.0"), Fault::Hang);
    let is_stuck = |status: &StatusReport| named(&status.stuck) == ["b/app.0".into()];
    let stuck = node.wait(30.0, is_stuck).await;
    assert!(stuck.is_ok(), "{stuck:#?}");
    node.pass(1.0).await;
    let status = node.status().await;
    assert!(!has_failing(&status, "b/app.0"), "{:?}", status.failing);
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_cause_a_withheld_call_to_be_sent() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    one_crashes(&node.sim);
    let call = Rpc::ContainerStatus;
    node.sim.fault(call, Some("a/app.0"), Fault::Hang);
    for pod in ["a", "b"] {
        node.sim.exit(pod, "app", 3);
    }
    // By then the call is withheld for 64 s.
    node.at(60.0).await;
    node.sim.restart(seconds(0.5));
    node.pass(3.0).await;
    node.sample(20.0, |at, status| {
        let failure = &status.relist.last_failure;
        assert!(failure.is_none(), "at {at}: {failure:?}");
        assert!(has_failing(status, "b/app.0"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_of_three_calls_that_crash_the_runtime_is_found() {
    let node = Node::watch(|sim| many(sim, 12, &["app"])).await;
    node.at(3.5).await;
    let killers = ["p2/app.0", "p6/app.0", "p9/app.0"];
    for id in killers {
        let crash = Fault::Crash(seconds(0.3));
        node.sim.fault(Rpc::ContainerStatus, Some(id), crash);
    }
    for pod in 0..12 {
        node.sim.exit(&format!("p{pod}"), "app", 1);
    }
    node.at(40.0).await;
    let status = node.status().await;
    for id in killers {
        assert!(has_failing(&status, id), "{id}: {:?}", status.failing);
    }
    for failing in &status.failing {
        let pod = &failing.pod.as_ref().unwrap().name;
        assert!(["p2", "p6", "p9"].contains(&&**pod), "{failing:?}");
    }
    for pod in (0..12).filter(|pod| ![2, 6, 9].contains(pod)) {
        let reported = node.deaths(&format!("p{pod}/app.0"));
        assert!(
            reported.len() == 1 && reported[0] < 20.0,
            "p{pod}: {reported:?}"
        );
    }
    let before = node.sim.calls_made(Rpc::ContainerStatus);
    node.at(1200.0).await;
    let made = node.sim.calls_made(Rpc::ContainerStatus) - before;
    assert!(made <= 40, "{made}");
}

/// Relists are rare beside a stream, and a pod whose inspection fails is nevertheless inspected again.
#[tokio::test(start_paused = true)]
async fn a_crashing_call_is_found_in_a_pod_of_several_beside_a_stream() {
    for stream in [false, true] {
        let prepare = |sim: &Sim| {
            sim.run("a", &["x"]);
            sim.run("b", &["x", "y"]);
            sim.run("c", &["x"]);
        };
        let node = match stream {
            true => Node::watch_stream(prepare).await,
            false => Node::watch(prepare).await,
        };
        node.at(20.0).await;
        let crash = Fault::Crash(seconds(0.3));
        node.sim.fault(Rpc::ContainerStatus, Some("b/x.0"), crash);
        node.sim.exit("b", "x", 1);
        let found = node.wait(20.0, |status| has_failing(status, "b/x.0")).await;
        assert!(found.is_ok(), "stream: {stream}: {found:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crashing_call_is_found_although_lists_are_answered() {
    let config = Config {
        relist_period: seconds(0.05),
        ..generic()
    };
    let node = Node::watch_with(config, pods).await;
    node.at(3.5).await;
    one_crashes(&node.sim);
    node.sim.exit("b", "app", 1);
    node.sim.exit("a", "app", 1);
    let found = node
        .wait(30.0, |status| has_failing(status, "b/app.0"))
        .await;
    assert!(found.is_ok(), "{found:#?}");
    assert_eq!(node.deaths("a/app.0").len(), 1);
}

/// The kubelet's call crashes the runtime once more at each of the kubelet's own relists.
#[tokio::test(start_paused = true)]
async fn a_crashing_call_is_found_beside_a_kubelet_that_sends_it_too() {
    let node = Node::watch(|sim| many(sim, 12, &["app"])).await;
    node.at(3.5).await;
    let crash = Fault::Crash(seconds(0.3));
    node.sim
        .fault(Rpc::ContainerStatus, Some("p6/app.0"), crash);
    node.sim.exit("p6", "app", 1);
    let mut others = BTreeSet::new();
    for round in 0..30 {
        node.sim.exit(&format!("p{}", round % 6), "app", 1);
        node.sim.restart(seconds(0.3));
        node.sample(1.7, |_, status| {
            let named = status.failing.iter().map(|failing| failing.id.to_string());
            others.extend(named.filter(|id| !id.starts_with("p6")));
        })
        .await;
    }
    assert!(others.is_empty(), "{others:?}");
    assert!(has_failing(&node.status().await, "p6/app.0"));
    for pod in 0..6 {
        let reported = node.deaths(&format!("p{pod}/app.0"));
        assert!(
            reported.len() == 1 && reported[0] < 20.0,
            "p{pod}: {reported:?}"
        );
    }
    // The container no longer crashes the runtime, and its call is withheld for 16 or 64 s more.
    node.sim.lift_all();
    node.pass(70.0).await;
    assert_eq!(node.deaths("p6/app.0").len(), 1);
}

/// No pod counts as up to date before it was observed.
#[tokio::test(start_paused = true)]
async fn the_node_is_degraded_until_what_was_lost_is_answered() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    one_crashes(&node.sim);
    node.sim.exit("b", "app", 3);
    node.at(4.2).await;
    node.sample(60.0, |at, status| {
        assert!(!is_healthy(status), "at {at}: {status:#?}");
    })
    .await;
    node.sim.lift_all();
    node.at(200.0).await;
    assert!(is_healthy(&node.status().await));
}

/// The status of a witness is not needed: it is requested only to see whether the runtime answers.
#[tokio::test(start_paused = true)]
async fn a_witness_that_crashes_the_runtime_is_not_sent_again() {
    let node = Node::watch(|sim| many(sim, 4, &["app"])).await;
    node.at(3.5).await;
    let call = Rpc::ContainerStatus;
    node.sim
        .fault(call, Some("p0/app.0"), Fault::Slow(seconds(4.0)));
    let crash = Fault::Crash(seconds(0.3));
    node.sim.fault(call, Some("p2/app.0"), crash);
    node.sim.exit("p0", "app", 3);
    node.at(30.0).await;
    assert_eq!(node.deaths("p0/app.0").len(), 1);
    assert!(is_healthy(&node.status().await));
}

/// The stream is only a source of hints, and no other client opens it.
#[tokio::test(start_paused = true)]
async fn a_stream_that_crashes_the_runtime_is_opened_with_growing_pauses() {
    let node = Node::watch_stream(|sim| {
        many(sim, 8, &["app"]);
        let crash = Fault::Crash(seconds(0.05));
        sim.fault(Rpc::GetContainerEvents, None, crash);
    })
    .await;
    node.at(10.0).await;
    node.sim.exit("p3", "app", 1);
    node.at(15.0).await;
    assert_eq!(node.deaths("p3/app.0").len(), 1);
    assert!(is_healthy(&node.status().await));
    node.at(1200.0).await;
    let made = node.sim.calls_made(Rpc::GetContainerEvents);
    assert!(made <= 12, "{made}");
    node.sim.lift_all();
    node.at(1600.0).await;
    assert_eq!(node.status().await.stream.state, "live");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_crashes_a_slow_runtime_is_withheld() {
    let node = Node::watch(|sim| many(sim, 8, &["app"])).await;
    node.at(3.5).await;
    node.sim.fault_everything(&Fault::Slow(seconds(8.0)));
    let crash = Fault::Crash(seconds(0.3));
    node.sim
        .fault(Rpc::ContainerStatus, Some("p3/app.0"), crash);
    node.at(600.0).await;
    let before = node.sim.crashes();
    node.at(1200.0).await;
    let crashes = node.sim.crashes() - before;
    assert!(crashes <= 6, "{crashes} after {before}");
}

/// If the lists crash the runtime, requesting them every second is of no use.
#[tokio::test(start_paused = true)]
async fn lists_and_version_that_crash_the_runtime_are_sent_less_often() {
    for call in [Rpc::ListContainers, Rpc::ListPodSandbox, Rpc::Version] {
        let node = Node::watch(pods).await;
        node.at(3.5).await;
        // From then on the runtime's version is requested too.
        let crash = Fault::Crash(seconds(0.3));
        node.sim.fault(Rpc::ListContainers, None, crash.clone());
        node.at(5.5).await;
        node.sim.lift(Rpc::ListContainers, None);
        node.sim.fault(call, None, crash);
        node.at(120.0).await;
        let crashes = node.sim.crashes();
        // A sweep also requests the unavailable list.
        assert!((3..=20).contains(&crashes), "{call}: {crashes}");
        let health = node.status().await.health;
        let what = match call {
            Rpc::Version => "Version is requested",
            _ => "lists are requested",
        };
        assert!(health.message.contains(what), "{}", health.message);
        node.sim.lift_all();
        node.sim.exit("a", "app", 1);
        node.at(140.0).await;
        assert_eq!(node.deaths("a/app.0").len(), 1, "{call}");
        assert!(is_healthy(&node.status().await), "{call}");
    }
}
