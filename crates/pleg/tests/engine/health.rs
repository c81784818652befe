//! Health: the kubelet's sentences at the kubelet's times, and the culprit.

use std::time::Duration;

use crate::node::{LISTS, Node, STATUSES, broken, many, seconds, three_pods};
use pleg::model::id::{Id, PodRef};
use pleg::model::run_clock::RunClock;
use pleg::model::wall_time::{Moment, WallTime};
use pleg::out::coverage::{Coverage, Pass, PassKind};
use pleg::out::health::{HealthState, Reason, assess, kubelet_healthy, message};
use pleg::out::kubelet_view::{self, GuardedLists, KubeletView, guarded_kubelet_view};
use pleg::runtime::{About, CALLS, CallError, OutstandingCall, Rpc};
use sim::{Fault, Sim};
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// The kubelet view of a process that was never paused.
fn kubelet_view(now: Instant, coverage: &Coverage) -> KubeletView {
    kubelet_view::kubelet_view(now, coverage, &RunClock::default())
}

#[tokio::test(start_paused = true)]
async fn the_kubelets_sentences_are_exact() {
    let seen = Instant::now();
    let threshold = MINUTE * 3;
    assert_eq!(
        kubelet_healthy(seen, None, threshold),
        Err("pleg has yet to be successful".to_owned())
    );
    let at = |elapsed| kubelet_healthy(seen + elapsed, Some(seen), threshold);
    assert_eq!(at(MINUTE), Ok(()));
    assert_eq!(at(threshold), Ok(()), "equal is healthy");
    assert_eq!(
        at(Duration::from_nanos(233_912_072_577)),
        Err("pleg was last seen active 3m53.912072577s ago; threshold is 3m0s".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_never_answered_is_starting_and_then_unhealthy() {
    let node = Node::watch(Sim::stop).await;
    node.at(179.0).await;
    let health = node.status().await.health;
    assert_eq!(health.state, HealthState::Starting);
    assert!(
        health
            .message
            .starts_with("PLEG is not healthy: pleg has yet to be successful")
    );
    node.at(181.0).await;
    let health = node.status().await.health;
    assert_eq!(health.state, HealthState::Unhealthy);
    assert!(
        health.message.contains("Version has not answered for 3m"),
        "{}",
        health.message
    );
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_runtime_makes_the_node_degraded_at_once_and_unhealthy_after_the_threshold()
{
    let node = Node::watch(|sim| many(sim, 40, &["app"])).await;
    node.at(0.5).await;
    node.reported();
    for call in CALLS {
        node.sim.fault(call, None, Fault::Hang);
    }
    node.at(179.0).await;
    let degraded = node.reported();
    let first = degraded.lines().next().unwrap_or_default();
    assert!(
        first.starts_with(
            "3.000 Degraded: ListPodSandbox has not answered for 2s; \
             ListContainers has not answered for 2s; \
             sweeping known pods, new pods may be missed"
        ),
        "{degraded}"
    );
    assert!(!degraded.contains("Unhealthy"));
    node.at(200.0).await;
    // The last relist with successful lists began at 0.000.
    let reported = node.reported();
    assert!(
        reported.starts_with(
            "180.001 Unhealthy: PLEG is not healthy: \
             pleg was last seen active 3m0.001s ago; threshold is 3m0s: ListPodSandbox"
        ),
        "{reported}"
    );
    assert_eq!(node.sim.max_outstanding_per_id(), 1);
    // A runtime that is unresponsive as a whole does not receive every call: both lists, a heartbeat, eight
    // calls of a sweep, and one call about every ten seconds that may show that the runtime is back.
    let calls = node.status().await.in_flight.len();
    assert!(calls <= 11 + 22, "{calls}");

    node.sim.lift_all();
    node.at(201.5).await;
    let reported = node.reported();
    assert!(
        reported.ends_with("Healthy: all pods are up to date"),
        "{reported}"
    );
    assert!(!reported.contains("Died"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn failing_lists_are_reported_and_retried_every_period() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(0.5).await;
    node.reported();
    let gone = Fault::Fail(CallError::connection_refused());
    node.sim.fault(Rpc::ListContainers, None, gone.clone());
    node.sim.fault(Rpc::Version, None, gone);
    node.sim.exit("a", "app", 5);
    node.at(9.5).await;
    node.assert_reported(
        "1.000 Degraded: pods cannot be listed: the runtime cannot be reached: connection refused",
    );
    assert!((8..=11).contains(&node.sim.calls_made(Rpc::Version)));
    node.sim.lift_all();
    node.at(10.5).await;
    node.assert_reported(
        "10.000 Died a/app.0 with 5
         10.000 Healthy: all pods are up to date",
    );
}

fn stuck(call: Rpc, id: Option<&str>, pod: Option<&str>, since: Instant) -> OutstandingCall {
    let about = About {
        call,
        id: id.map(Id::from),
        container: None,
        pod: pod.map(|uid| PodRef {
            uid: uid.into(),
            namespace: "default".into(),
            name: uid.into(),
        }),
    };
    OutstandingCall { about, since }
}

/// The coverage of a node on which every pod is observed as of `now`.
fn seen(now: Instant) -> Coverage {
    let begun = Moment {
        instant: now,
        wall: WallTime::from_unix_nanos(1).unwrap(),
    };
    Coverage {
        last_pass: Some(Pass {
            begun,
            took: Duration::ZERO,
            kind: PassKind::List,
        }),
        kubelet_listed: Some(now),
        ..Coverage::none(now)
    }
}

#[test]
fn more_than_three_details_are_counted() {
    let now = Instant::now() + MINUTE;
    let since = now - seconds(7.9);
    let ids = ["c0", "c1", "c2", "c3", "c4"];
    let calls = ids.map(|id| stuck(Rpc::ContainerStatus, Some(id), None, since));
    let coverage = Coverage {
        stuck: calls.to_vec(),
        ..seen(now)
    };
    let (state, reason) = assess(&coverage, now, MINUTE * 3);
    assert_eq!(
        (state, reason),
        (HealthState::Degraded, Reason::ContainerStuck)
    );
    assert_eq!(
        message(&coverage, state, reason, now, MINUTE * 3),
        "container c0, container c1, container c2 and 2 more are stuck (7s); \
         all other pods are up to date"
    );
}

#[test]
fn a_kubelet_that_cannot_list_is_not_ready_three_minutes_after_its_last_lists() {
    let start = Instant::now();
    let failing = Coverage {
        kubelet_cannot_list: true,
        ..seen(start)
    };
    let view = kubelet_view(start + MINUTE, &failing);
    assert!(view.ready);
    assert_eq!(view.not_ready_in_seconds, Some(120.0));
    let view = kubelet_view(start + MINUTE * 4, &failing);
    assert!(!view.ready);
    assert_eq!(
        view.message,
        "PLEG is not healthy: pleg was last seen active 4m0s ago; threshold is 3m0s"
    );
    assert_eq!(view.not_ready_in_seconds, Some(0.0));
}

#[test]
fn the_kubelets_view_is_unknown_before_a_list_was_answered() {
    let start = Instant::now();
    let view = kubelet_view(start, &Coverage::none(start));
    assert!(
        view.ready && view.message.contains("nothing is known yet"),
        "{view:?}"
    );
    assert_eq!(
        kubelet_view(start, &seen(start)).message,
        "no problem expected"
    );
}

#[test]
fn a_kubelet_behind_a_guard_depends_on_how_the_guard_treats_its_lists() {
    let start = Instant::now();
    let view = |elapsed, lists| guarded_kubelet_view(start + seconds(elapsed), start, lists);
    let answered = view(10.0, GuardedLists::Answered);
    assert!(answered.ready && answered.not_ready_in_seconds.is_none());
    let refused = view(10.0, GuardedLists::Refused);
    assert_eq!(refused.not_ready_in_seconds, Some(170.0));
    assert!(!refused.message.contains("Status"), "{}", refused.message);
    let unresponsive = view(10.0, GuardedLists::Silent { since: start });
    assert_eq!(
        unresponsive.message,
        "NotReady in 2m50s if nothing changes: the guard cannot answer its lists; \
         in 20s if its Status calls fail too"
    );
    assert!(!view(181.0, GuardedLists::Answered).ready);
}

#[test]
fn one_stuck_pod_makes_a_kubelet_slow_and_two_make_it_flap() {
    let start = Instant::now();
    let one = Coverage {
        kubelet_waits: vec![start],
        ..seen(start)
    };
    let view = kubelet_view(start + MINUTE * 30, &one);
    assert!(view.ready && view.not_ready_in_seconds.is_none());

    let two = Coverage {
        kubelet_waits: vec![start, start],
        ..seen(start)
    };
    let ready = |elapsed| kubelet_view(start + elapsed, &two).ready;
    assert!(ready(MINUTE * 2));
    assert!(
        !ready(seconds(200.0)),
        "the first relist takes four minutes"
    );
    assert!(ready(seconds(250.0)), "then lists succeed for a moment");
    assert!(!ready(seconds(241.0 + 200.0)));
}

#[tokio::test(start_paused = true)]
async fn culprits_found_at_the_same_moment_are_reported_together() {
    let node = Node::watch(|sim| many(sim, 20, &["app"])).await;
    node.at(0.5).await;
    node.reported();
    // A call that was sent a little later is overdue a little later.
    let slow = Fault::Slow(seconds(0.01));
    node.sim.fault(Rpc::PodSandboxStatus, None, slow);
    for number in 0..20 {
        let id = format!("p{number}/app.0");
        node.sim.fault(Rpc::ContainerStatus, Some(&id), Fault::Hang);
        node.sim.exit(&format!("p{number}"), "app", 1);
    }
    // While no other call of their kind is answered, this takes twice as long as for a single call.
    node.at(14.0).await;
    let reported = node.reported();
    let records = reported.matches("Degraded: ").count();
    // First the slow lists, then the stuck calls: the first at once, the others together.
    assert_eq!(records, 3, "{reported}");
    assert!(reported.contains("and 17 more are stuck"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_stuck_after_a_restart_is_not_unreachable() {
    for version_alone in [false, true] {
        let node = Node::watch(|sim| sim.run("a", &["app"])).await;
        node.at(5.5).await;
        node.sim.restart(seconds(1.0));
        let expected = match version_alone {
            true => {
                node.sim.fault(Rpc::Version, None, Fault::Hang);
                Reason::ListStuck
            }
            false => {
                node.sim.stop();
                Reason::RuntimeSilent
            }
        };
        node.at(30.0).await;
        let health = node.status().await.health;
        let reason = health.reason;
        assert_eq!(reason, expected, "{version_alone} {health:?}");
        assert!(!health.message.contains("reached"), "{}", health.message);
    }
}

/// NotReady is always predicted, and never wrongly.
#[tokio::test(start_paused = true)]
async fn a_kubelet_flaps_if_both_lists_take_longer_than_half_of_its_threshold() {
    for (containers, sandboxes) in [(100.0, 0.0), (130.0, 0.0), (60.0, 60.0)] {
        let node = Node::watch(|sim| sim.run("a", &["app"])).await;
        node.at(5.5).await;
        for (call, slow) in [
            (Rpc::ListContainers, containers),
            (Rpc::ListPodSandbox, sandboxes),
        ] {
            node.sim.fault(call, None, Fault::Slow(seconds(slow)));
        }
        node.at(250.0).await;
        let (mut turned, mut warned) = (false, true);
        node.sample(300.0, |_, status| {
            turned |= !status.kubelet_view.ready;
            warned &= status.kubelet_view.not_ready_in_seconds.is_some();
        })
        .await;
        assert_eq!((turned, warned), (true, true), "{containers} {sandboxes}");
    }
}

fn hang(node: &Node) {
    for id in ["a/app.0", "b/app.0"] {
        node.sim.fault(Rpc::ContainerStatus, Some(id), Fault::Hang);
    }
}

async fn is_never_threatened(node: &Node) {
    node.sample(300.0, |time, status| {
        let view = &status.kubelet_view;
        assert_eq!(view.not_ready_in_seconds, None, "{time}: {view:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_does_not_wait_for_removed_pods() {
    let node = Node::watch(three_pods).await;
    node.at(5.5).await;
    hang(&node);
    node.sim.exit("a", "app", 1);
    node.sim.exit("b", "app", 1);
    node.at(12.0).await;
    assert!(
        node.status()
            .await
            .kubelet_view
            .not_ready_in_seconds
            .is_some()
    );
    node.sim.world().remove("a");
    node.sim.world().remove("b");
    node.at(14.0).await;
    is_never_threatened(&node).await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_does_not_inspect_what_has_not_changed() {
    let node = Node::watch(three_pods).await;
    node.at(5.5).await;
    hang(&node);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(15.0).await;
    node.sim.lift(Rpc::ListContainers, None);
    node.at(17.0).await;
    assert_eq!(node.status().await.stuck.len(), 2);
    is_never_threatened(&node).await;
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_removed_container_is_not_awaited() {
    let node = Node::watch(|sim| sim.run("a", &["x", "y"])).await;
    node.at(5.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/x.0"), Fault::Hang);
    node.sim.exit("a", "x", 1);
    node.at(12.0).await;
    assert_eq!(node.status().await.stuck.len(), 1);
    {
        let mut world = node.sim.world();
        let containers = &mut world.pod("a").containers;
        containers.retain(|container| container.id.as_str() != "a/x.0");
    }
    node.at(15.0).await;
    node.sim.exit("a", "y", 2);
    node.at(20.0).await;
    assert_eq!(node.deaths("a/y.0"), [15.0]);
    let view = node.status().await.kubelet_view;
    assert_eq!(view.message, "no problem expected");
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

/// An improvement is held for three seconds, and a runtime is unresponsive after three seconds without
/// an answer.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_stops_as_a_fault_ends_is_not_reported_as_healthy_in_between() {
    for step in 0..20 {
        let node = Node::watch(|sim| many(sim, 6, &["app"])).await;
        node.at(3.0).await;
        let call = Rpc::ContainerStatus;
        node.sim.fault(call, Some("p0/app.0"), Fault::Hang);
        node.sim.exit("p0", "app", 1);
        let stop = 20.0 + f64::from(step) / 20.0;
        node.at(stop).await;
        node.sim.lift(call, Some("p0/app.0"));
        node.at(stop + 0.01).await;
        node.sim.stop();
        node.at(stop + 20.0).await;
        let reports = node.health_reports(stop);
        let mut healthy = reports
            .iter()
            .filter(|(_, report)| report.state == HealthState::Healthy);
        assert!(healthy.next().is_none(), "{step}: {reports:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_a_sweep_requests_is_not_requested_twice() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(5.5).await;
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.sim.fault(Rpc::ListContainers, None, broken());
    node.at(9.0).await;
    node.sim.stop();
    node.at(11.0).await;
    node.sim.restart(seconds(0.95));
    node.at(12.0).await;
    for list in LISTS {
        node.sim.fault(list, None, Fault::Hang);
    }
    node.sim.resume();
    node.at(30.0).await;
    assert_eq!(node.sim.max_outstanding_per_id(), 1, "of each call");
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_removed_container_is_reported_once() {
    let node = Node::watch(|sim| sim.run("a", &["x", "y"])).await;
    node.at(5.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/x.0"), Fault::Hang);
    node.sim.exit("a", "x", 1);
    node.at(12.0).await;
    {
        let mut world = node.sim.world();
        let containers = &mut world.pod("a").containers;
        containers.retain(|container| container.id.as_str() != "a/x.0");
    }
    node.sim.exit("a", "y", 1);
    node.at(30.0).await;
    assert_eq!(node.status().await.stuck.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_stuck_once_is_late_and_one_that_is_slow_each_time_is_slow() {
    let node = Node::watch(|sim| many(sim, 3, &["app"])).await;
    node.at(8.4).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(40.4).await;
    node.sim.lift_all();
    let mut messages = std::collections::BTreeSet::new();
    for _ in 0..200 {
        node.pass(0.1).await;
        messages.insert(node.status().await.health.message.to_string());
    }
    let takes = |message: &String| message.contains("lists take");
    assert!(!messages.iter().any(takes), "{messages:#?}");
    let slow = Fault::Slow(seconds(9.0));
    node.sim.fault(Rpc::ListContainers, None, slow);
    node.pass(60.0).await;
    let message = node.status().await.health.message.to_string();
    assert!(takes(&message), "{message}");
}
