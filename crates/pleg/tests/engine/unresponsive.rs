//! A runtime that answers no call, or that cannot be reached, is reported as such soon, and no call is
//! blamed.

use crate::node::{
    LISTS, Node, STATUSES, broken, generic, is_healthy, lists_are_stuck, many, named, pods, seconds,
};
use pleg::Config;
use pleg::out::health::{HealthState, Reason};
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CALLS, Rpc};
use sim::{Fault, Sim};

#[tokio::test(start_paused = true)]
async fn a_stall_does_not_hide_the_next_stall() {
    for stalls in [4, 8, 16] {
        let node = Node::watch(pods).await;
        node.at(1.5).await;
        for stall in 0..stalls {
            node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
            node.pass(2.2 + 1.4 * f64::from(stall % 5)).await;
            node.sim.lift(Rpc::ListContainers, None);
            node.pass(5.3).await;
        }
        let well = node.wait(15.0, is_healthy).await;
        well.unwrap_or_else(|status| panic!("after {stalls} stalls {:?}", status.health));

        node.sim.status_lock("locked", "app");
        let locked = node.elapsed();
        // One period until the list is requested, and then the promised time.
        let degraded = node.wait(4.2, lists_are_stuck).await;
        degraded.unwrap_or_else(|status| {
            panic!(
                "after {stalls} stalls nothing is reported: {:?}",
                status.health
            )
        });
        assert_eq!(node.status().await.health.state, HealthState::Degraded);
        let names = |status: &StatusReport| named(&status.stuck) == ["locked/app.0".into()];
        let left = locked + 5.0 - node.elapsed();
        let named = node.wait(left, names).await;
        named.unwrap_or_else(|status| panic!("after {stalls} stalls {:?}", status.stuck));
        node.at(locked + 8.0).await;
        node.sim.exit("b", "app", 1);
        node.at(locked + 10.1).await;
        assert_eq!(node.deaths("b/app.0").len(), 1, "after {stalls} stalls");
        node.at(locked + 25.0).await;
        node.sim.lift_all();
        let well = node.wait(3.0, is_healthy).await;
        well.unwrap_or_else(|status| panic!("after {stalls} stalls {:?}", status.health));
    }
}

/// Enforces O3.
#[tokio::test(start_paused = true)]
async fn no_call_is_blamed_while_the_whole_runtime_is_stopped() {
    for (stalls, dies_after) in [
        (0, Some(0.2)),
        (0, None),
        (4, None),
        (4, Some(0.2)),
        (4, Some(2.7)),
    ] {
        let case = format!("{stalls} stalls, a death after {dies_after:?}");
        let node = Node::watch_with_kernel(generic(), pods).await;
        node.at(1.4).await;
        for _ in 0..stalls {
            node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
            node.pass(6.0).await;
            node.sim.lift_all();
            node.pass(5.0).await;
        }
        let reported_before = node.trace().len();
        node.sim.stop();
        let stopped = node.elapsed();
        let blames = |at: f64, status: &StatusReport| {
            let names = named(&status.stuck);
            assert!(
                names.is_empty(),
                "{case}: after {:.2} s {names:?}",
                at - stopped
            );
            let health = &status.health;
            let reason = health.reason;
            if at < stopped + 6.0 {
                let so_far = [Reason::AllSeen, Reason::ListStuck, Reason::RuntimeSilent];
                assert!(so_far.contains(&reason), "{case}: {reason}");
            } else {
                let is = (health.state, reason);
                let expected = (HealthState::Degraded, Reason::RuntimeSilent);
                assert_eq!(is, expected, "{case}: after {:.2} s", at - stopped);
            }
        };
        if let Some(after) = dies_after {
            node.sample(after, blames).await;
            node.sim.kill("c", "app");
            node.sim.exit("c", "app", 137);
        }
        node.sample(30.0 - dies_after.unwrap_or_default(), blames)
            .await;
        for entry in &node.trace()[reported_before..] {
            if let Record::Health(health) = &entry.record {
                assert_eq!(named(&health.stuck), [], "{case}: reported at {}", entry.at);
            }
        }
        assert!(node.sim.outstanding().len() <= 64, "{case}");
        node.sim.resume();
        let well = node.wait(4.0, is_healthy).await;
        well.unwrap_or_else(|status| panic!("{case}: {:?}", status.health));
        let deaths = usize::from(dies_after.is_some());
        assert_eq!(node.deaths("c/app.0").len(), deaths, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outstanding_status_beside_a_proven_stream_causes_a_relist() {
    let node = Node::watch_with_kernel(Config::default(), pods).await;
    node.at(1.4).await;
    for _ in 0..6 {
        let now = node.sim.now();
        node.sim.world().pod("a").restart("app", 1, now);
        node.pass(0.5).await;
    }
    let is_proven = |status: &StatusReport| status.relist.period_seconds >= 30.0;
    node.wait(120.0, is_proven).await.unwrap();
    // Right after a list: the next one is not due soon.
    let listed = node.sim.calls_made(Rpc::ListContainers);
    while node.sim.calls_made(Rpc::ListContainers) == listed {
        node.pass(0.01).await;
    }
    node.pass(1.0).await;
    node.sim.stop();
    node.sim.kill("c", "app");
    node.sim.exit("c", "app", 137);
    let is_known = |status: &StatusReport| status.health.reason == Reason::RuntimeSilent;
    let known = node.wait(8.0, is_known).await;
    known.unwrap_or_else(|status| panic!("{:?}", status.health));
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
        node.sim.exit(&format!("p{n}"), "app", 1);
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
    let gone = |status: &StatusReport| status.health.reason == Reason::RuntimeUnreachable;
    if let Err(status) = node.wait(3.0, gone).await {
        panic!("{:?}: {}", status.health.reason, status.health.message);
    }
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
