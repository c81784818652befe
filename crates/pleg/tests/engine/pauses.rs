//! A pause or a long step of this process is not blamed on the runtime, and what happened meanwhile is
//! reported soon.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::node::{LISTS, Node, STATUSES, generic, lists_are_stuck, many, named, pods, seconds};
use pleg::out::health::Reason;
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;
use sim::Fault;
use tokio::time::sleep;

/// As with SIGSTOP of this process: the runtime continues, and its answers stay in the socket.
#[tokio::test(start_paused = true)]
async fn a_pause_of_this_process_is_not_blamed_on_the_runtime() {
    let phases = (0..14).map(|phase| f64::from(phase) / 10.0);
    let pauses = [0.6, 6.0, 12.0, 18.0, 200.0];
    for (phase, pause) in phases.flat_map(|phase| pauses.map(|pause| (phase, pause))) {
        let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app", "side"])).await;
        node.at(3.0).await;
        for call in LISTS.into_iter().chain(STATUSES) {
            node.sim.fault(call, None, Fault::Slow(seconds(0.4)));
        }
        for round in 0..3 {
            node.sim.exit(&format!("p{round}"), "app", 1);
            node.pass(1.0 + phase).await;
            tokio::time::advance(seconds(pause)).await;
            assert_healthy(&node, 3.0, &format!("{pause} s after {phase} s")).await;
            node.sim.start_again(&format!("p{round}"), "app");
            assert_healthy(&node, 3.0, "and later").await;
        }
    }
}

/// Asserts that no problem is reported for this many seconds.
async fn assert_healthy(node: &Node, time: f64, case: &str) {
    node.sample(time, |at, status| {
        let message = &status.health.message;
        assert_eq!(
            status.health.reason,
            Reason::AllSeen,
            "{case}, {at}: {message}"
        );
        assert!(status.failing.is_empty(), "{case}, {at}: {message}");
        assert!(status.stuck.is_empty(), "{case}, {at}: {message}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn if_this_process_runs_only_now_and_then_no_call_is_blamed() {
    for slow in [0.0, 0.2] {
        let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app", "side"])).await;
        node.at(3.0).await;
        for call in LISTS.into_iter().chain(STATUSES) {
            node.sim.fault(call, None, Fault::Slow(seconds(slow)));
        }
        for round in 0..20 {
            if round % 5 == 0 {
                node.sim.exit(&format!("p{}", round / 5), "app", 1);
            }
            tokio::time::advance(seconds(3.0)).await;
            assert_healthy(&node, 0.01, "it runs for 10 ms in 3 s").await;
        }
        node.pass(1.0).await;
        assert_healthy(&node, 5.0, "afterwards").await;
        assert_eq!(node.deaths("p0/app.0").len(), 1);
    }
}

/// On a throttled node this process runs slowly, and outstanding calls become older meanwhile.
#[tokio::test(start_paused = true)]
async fn a_stuck_list_is_reported_although_each_step_of_this_process_takes_long() {
    let node = Node::watch_stream(|sim| many(sim, 12, &["app"])).await;
    node.at(3.5).await;
    node.counter.make_turns_take(seconds(0.4));
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let sim = node.sim.clone();
    let changes = tokio::spawn(async move {
        for number in (0..12).cycle() {
            let pod = format!("p{number}");
            sim.exit(&pod, "app", 1);
            sleep(seconds(0.3)).await;
            sim.start_again(&pod, "app");
            sleep(seconds(0.3)).await;
        }
    });
    let reported = node.wait(30.0, lists_are_stuck).await;
    changes.abort();
    reported.unwrap_or_else(|status| panic!("{:?}", status.health));
}

#[tokio::test(start_paused = true)]
async fn the_runtime_is_not_blamed_for_a_long_step_of_this_process() {
    for turn in [0.4, 1.5, 2.5, 6.0] {
        let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app", "side"])).await;
        node.at(3.0).await;
        for (number, call) in LISTS.into_iter().chain(STATUSES).enumerate() {
            let time = seconds(0.05 + 0.01 * number as f64);
            node.sim.fault(call, None, Fault::Slow(time));
        }
        for round in 0..4 {
            node.sim.exit(&format!("p{round}"), "app", 1);
            node.pass(0.93).await;
            node.counter.make_turns_take(seconds(turn));
            node.pass(0.1).await;
            node.counter.make_turns_take(seconds(0.0));
            assert_healthy(&node, 3.0, &format!("a turn of {turn} s, round {round}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_arrived_during_a_pause_was_not_late() {
    for (took, phase, pause) in [(1.9, 1.05, 1.8), (1.5, 1.2, 0.5), (1.2, 1.05, 40.0)] {
        let node = Node::watch_with(generic(), pods).await;
        node.at(3.5).await;
        node.sim
            .fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(0.1)));
        node.sim
            .fault(Rpc::ListContainers, None, Fault::Slow(seconds(took)));
        node.pass(0.5 + phase).await;
        node.sim.lift(Rpc::ListContainers, None);
        tokio::time::advance(seconds(pause)).await;
        assert_healthy(
            &node,
            4.0,
            &format!("{pause} s after {phase} s of {took} s"),
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_requested_before_a_pause_does_not_contradict_an_exit() {
    for (phase, pause) in [
        (0.03, 3.0),
        (0.06, 3.0),
        (0.1, 12.0),
        (0.15, 12.0),
        (0.2, 12.0),
    ] {
        let node = Node::watch_with_kernel(generic(), pods).await;
        node.at(3.5).await;
        for call in STATUSES {
            node.sim.fault(call, None, Fault::Slow(seconds(0.02)));
        }
        node.sim.kill("a", "app");
        node.pass(phase).await;
        node.sim.exit("a", "app", 137);
        tokio::time::advance(seconds(pause)).await;
        assert_healthy(&node, 4.0, &format!("{pause} s after {phase} s")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_stuck_during_a_pause_is_reported_soon_after() {
    let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app"])).await;
    node.at(3.5).await;
    node.sim.status_lock("p2", "app");
    for _ in 0..3 {
        node.pass(0.7).await;
        tokio::time::advance(seconds(6.0)).await;
    }
    node.pass(4.0).await;
    let status = node.status().await;
    assert_eq!(status.health.reason, Reason::ContainerStuck);
    assert_eq!(named(&status.stuck), ["p2/app.0".into()]);
}

#[tokio::test(start_paused = true)]
async fn the_first_status_report_after_a_pause_is_current() {
    for pause in [1.2, 5.0, 40.0] {
        let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app"])).await;
        node.at(3.5).await;
        node.sim.status_lock("p2", "app");
        let locked = |status: &StatusReport| !status.stuck.is_empty();
        node.wait(10.0, locked).await.unwrap();
        node.pass(5.0).await;
        // The status lock is released, and another pod dies, while this process is paused.
        node.sim.status_unlock("p2", "app");
        node.sim.exit("p0", "app", 1);
        let mut status = pin!(node.pleg.status());
        let requested = poll_fn(|context| Poll::Ready(status.as_mut().poll(context)));
        assert!(requested.await.is_pending());
        tokio::time::advance(seconds(pause)).await;
        let woken = node.elapsed();
        let status = status.await.unwrap();
        let (waited, message) = (node.elapsed() - woken, &status.health.message);
        assert!(status.stuck.is_empty(), "after {pause} s: {message}");
        assert_eq!(node.deaths("p0/app.0").len(), 1, "after {pause} s");
        assert!(waited < 1.0, "after {pause} s, requested for {waited} s");
    }
}

/// This process is paused repeatedly, as on a node that lacks CPU time.
#[tokio::test(start_paused = true)]
async fn a_status_request_between_pauses_is_answered_within_a_second() {
    let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app"])).await;
    node.at(3.5).await;
    node.sim
        .fault(Rpc::ListContainers, None, Fault::Slow(seconds(0.3)));
    for _ in 0..20 {
        tokio::time::advance(seconds(0.4)).await;
        let requested = node.elapsed();
        node.status().await;
        let waited = node.elapsed() - requested;
        assert!(waited <= 1.01, "{waited} s");
    }
}
