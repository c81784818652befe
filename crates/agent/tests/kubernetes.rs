//! The whole daemon beside an API server: what a fault of the runtime looks like there.

use std::time::Duration;

use agent::{AgentConfig, Daemon, Listeners, run};
use api_double::{Double, Wrong, new_node, until};
use cluster::KubernetesConfig;
use cri::Endpoint;
use sim::Sim;
use sim::grpc::{serve, socket};
use tokio::sync::oneshot;

#[tokio::test]
async fn under_the_status_lock_the_node_and_the_pod_say_who_it_is_until_it_is_over() {
    let double = Double::start().await;
    // As the daemon starts, the server has other troubles.
    double.go_wrong("watch=true", Wrong::Status(503));
    double.go_wrong("/status", Wrong::Body("<html>"));
    double.go_wrong("/status", Wrong::Half);
    let place = tempfile::tempdir().unwrap();
    let sim = Sim::new();
    for pod in ["web", "shop", "other"] {
        sim.run(pod, &["app"]);
    }
    let endpoint = Endpoint::new(place.path().join("runtime.sock"));
    let listener = socket::listen(endpoint.path()).await.unwrap();
    tokio::spawn(serve(sim.clone(), listener));
    let config = AgentConfig {
        socket: place.path().join("agent.sock"),
        listen: "127.0.0.1:0".parse().unwrap(),
        kubernetes: Some(KubernetesConfig {
            node_name: Some("node-1".to_owned()),
            kubeconfig: Some(double.kubeconfig()),
            agents: 1,
            ..KubernetesConfig::default()
        }),
        ..AgentConfig::default()
    };
    let listeners = Listeners::bind(&config).await.unwrap();
    let (shutdown, told) = oneshot::channel();
    let daemon = Daemon {
        endpoint,
        config,
        state_directory: place.path().join("state"),
        guard: None,
        doctor: "false".into(),
    };
    let daemon = tokio::spawn(run(daemon, listeners, async {
        let _ = told.await;
    }));

    let reason = || {
        double
            .condition("PLEGUnhealthy")
            .map(|it| it["reason"].clone())
    };
    until("all is well", || reason().is_some_and(|it| it == "AllSeen")).await;
    sim.status_lock("shop", "app");
    until("the lock is told", || {
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
    sim.lift_all();
    until("the end is told", || of_pod().len() == 2).await;
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
    shutdown.send(()).unwrap();
    daemon.await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(double.node(), new_node("uid-1"), "nothing of ours is left");
}
