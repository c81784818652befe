//! The whole daemon beside an API server: what a fault of the runtime looks like there.

mod node;

use std::time::Duration;

use agent::AgentConfig;
use api_double::{Double, Wrong, new_node, until};
use cluster::KubernetesConfig;
use node::Node;

#[tokio::test]
async fn under_the_status_lock_the_node_and_the_pod_name_the_culprit_until_it_recovers() {
    let double = Double::start().await;
    // While the daemon starts, the server has faults of its own.
    double.fail_next("watch=true", Wrong::Status(503));
    double.fail_next("/status", Wrong::Body("<html>"));
    double.fail_next("/status", Wrong::Half);
    let config = AgentConfig {
        kubernetes: Some(KubernetesConfig {
            node_name: Some("node-1".to_owned()),
            kubeconfig: Some(double.kubeconfig()),
            agents: 1,
            ..KubernetesConfig::default()
        }),
        ..AgentConfig::default()
    };
    let node = Node::up(&["web", "shop", "other"], config).await;

    let reason = || {
        double
            .condition("PLEGUnhealthy")
            .map(|it| it["reason"].clone())
    };
    until("all is well", || reason().is_some_and(|it| it == "AllSeen")).await;
    node.sim.status_lock("shop", "app");
    until("the lock is reported", || {
        reason().is_some_and(|it| it == "ContainerStuck")
    })
    .await;
    let of_pod = || {
        let events = double.events().into_iter();
        let of_pod = events.filter(|it| it["regarding"]["kind"] == "Pod");
        of_pod.collect::<Vec<_>>()
    };
    until("the pod's event", || !of_pod().is_empty()).await;
    assert_eq!(of_pod()[0]["regarding"]["name"], "shop");
    assert_eq!(of_pod()[0]["reason"], "ContainerStuck");
    node.sim.lift_all();
    until("the end is reported", || of_pod().len() == 2).await;
    until("all is well again", || {
        reason().is_some_and(|it| it == "AllSeen")
    })
    .await;
    assert!(
        double
            .events()
            .iter()
            .all(|it| it["regarding"]["name"] != "other")
    );

    let began = std::time::Instant::now();
    node.shutdown.send(()).unwrap();
    node.daemon.await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(double.node(), new_node("uid-1"), "nothing of ours is left");
}
