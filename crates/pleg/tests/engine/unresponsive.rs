//! A runtime that answers no call, or that cannot be reached, is reported as such soon, and no call is
//! blamed.

use crate::node::{Node, generic, is_healthy, lists_are_stuck, named, pods};
use pleg::Config;
use pleg::out::health::{HealthState, Reason};
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;
use sim::Fault;

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
