//! While a list is not answered, the unseen parts are reported, and the node is neither healthy nor
//! recovering.

use crate::node::{LISTS, Node, broken, is_healthy, many, pods, seconds};
use pleg::out::health::{Blind, HealthState};
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;
use sim::{Fault, StreamFault};

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
async fn a_list_that_failed_beside_a_sweep_is_requested_again_before_the_node_is_healthy() {
    let node = Node::watch_stream(|sim| many(sim, 20, &["app"])).await;
    node.at(5.0).await;
    for pod in 0..20 {
        let now = node.sim.now();
        node.sim
            .world()
            .pod(&format!("p{pod}"))
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
            node.wait(5.0, is_healthy).await.unwrap();
        }
    }
}
