//! Health: its state, its sentence, and when it changes.

use crate::kubelet_view::{MINUTE, seen};
use crate::node::{Node, many, seconds};
use pleg::model::id::{Id, PodRef};
use pleg::out::coverage::Coverage;
use pleg::out::health::{HealthState, Reason, assess, message};
use pleg::runtime::{About, CallError, OutstandingCall, Rpc};
use sim::Fault;
use tokio::time::Instant;

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
