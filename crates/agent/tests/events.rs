//! `/v1/events` and a client that stops reading.

mod network;

use std::sync::Arc;
use std::time::Duration;

use agent::Agent;
use agent::Metrics;
use agent::http::router;
use network::Network;
use pleg::{Config, Environment, Pleg, no_ids};
use serde_json::Value;
use sim::Sim;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::sleep;

/// How often containers restart. Each restart causes two events, so these are more than a
/// subscriber's queue holds.
const RESTARTS: usize = 800;

const PODS: [&str; 4] = ["a", "b", "c", "d"];

#[tokio::test(start_paused = true)]
async fn what_a_client_does_not_read_is_conflated_and_kept_nowhere() {
    let sim = Sim::new();
    for pod in PODS {
        sim.run(pod, &["x"]);
    }
    let metrics = Arc::new(Metrics::new().unwrap());
    let environment = Environment {
        endpoint: "unix:///sim".into(),
        clock: sim.clock(),
        observer: metrics.clone(),
        ids: no_ids(),
        kernel: None,
    };
    let pleg = Pleg::start(Arc::new(sim.clone()), Config::default(), environment);
    let network = Network::of(
        router(Agent {
            pleg,
            metrics,
            guard: None,
            findings: agent::Findings::default(),
            static_pods: None,
        }),
        8,
    );
    let stream = network.send(b"GET /v1/events HTTP/1.0\r\n\r\n").await;
    for pod in PODS.into_iter().cycle().take(RESTARTS) {
        sleep(Duration::from_secs(2)).await;
        let now = sim.now();
        sim.world().pod(pod).restart("x", 1, now);
    }
    sleep(Duration::from_secs(2)).await;

    let mut lines = BufReader::new(stream).lines();
    let (mut one_by_one, mut conflated) = (0, 0);
    while conflated == 0 {
        let line = lines.next_line().await.unwrap().unwrap();
        let Ok(record) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        match record["kind"].as_str() {
            Some("event") => one_by_one += 1,
            Some("gap") => conflated = record["conflated"].as_u64().unwrap(),
            _ => {}
        }
    }
    // Before the reader continued, only as much was written as the connection holds.
    assert!(one_by_one < 200, "{one_by_one}");
    assert!(conflated as usize >= RESTARTS, "{conflated}");
}
