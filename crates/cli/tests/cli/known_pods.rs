//! Known pods stay known while malformed answers arrive, and nothing is reported about pods
//! that cannot be observed.

use pleg::runtime::Rpc;
use serde_json::Value;

use crate::support::{Agent, FakeRuntime, eventually, every_nonsense};

/// The events until those of the container of the pod `marker`, which are reported last.
fn events_until(events: &mut impl Iterator<Item = Value>, marker: &str) -> Vec<Value> {
    let events = events.filter(|record| record["kind"] == "event");
    let events = events
        .take_while(|event| event["pod"]["name"] != marker || event["subject"] != "container");
    events.collect()
}

#[test]
fn known_pods_are_kept_while_another_server_answers() {
    for nonsense in every_nonsense() {
        let mut runtime = FakeRuntime::with_pods(&[("web-0", &["app"]), ("web-1", &["app"])]);
        let agent = Agent::watching(&runtime.endpoint());
        agent.wait_healthy();
        let mut events = agent.events();
        let synced = events.find(|record| record["kind"] == "synced").unwrap();
        assert_eq!(synced["pods"], 2, "{nonsense:?}");

        runtime.go_away();
        let server = nonsense.serve(&runtime.socket());
        let health = agent.wait("/healthz?verbose", |answer| {
            answer.body.starts_with("Degraded: ")
        });
        assert_eq!(health.code, 200, "{nonsense:?}");
        assert_eq!(agent.pods(), ["web-0", "web-1"], "{nonsense:?}");
        assert_eq!(agent.get("/v1/status").json()["pods"], 2, "{nonsense:?}");

        drop_server(server);
        runtime.sim.run("web-2", &["app"]);
        runtime.come_back();
        agent.wait_healthy();
        let records = events_until(&mut events, "web-2");
        let others: Vec<_> = records
            .iter()
            .filter(|e| e["pod"]["name"] != "web-2")
            .collect();
        assert!(others.is_empty(), "{nonsense:?}: {others:?}");
    }
}

fn drop_server(server: tokio::runtime::Runtime) {
    server.shutdown_background();
}

#[test]
fn a_list_above_the_receive_limit_is_reported_with_size_and_limit() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"])]);
    let agent = Agent::configured(&runtime.endpoint(), "maxMessageSize: 4096\n");
    agent.wait_healthy();

    for number in 1..50 {
        runtime.sim.run(&format!("web-{number}"), &["app"]);
    }
    let health = agent.wait("/healthz?verbose", |answer| {
        answer.body.contains("larger than the receive limit")
    });
    assert!(
        health.body.contains("found ") && health.body.contains("the limit is: 4096 bytes"),
        "{health:?}"
    );
    assert_eq!(health.code, 200);
    // New pods become known through their events.
    eventually("all pods are known", || {
        (agent.pods().len() == 50).then_some(())
    });
}

#[test]
fn a_list_above_the_receive_limit_is_streamed_if_the_runtime_supports_it() {
    let runtime = FakeRuntime::with_pods(&[]);
    runtime.sim.stream_lists();
    for number in 0..250 {
        runtime.sim.run(&format!("web-{number}"), &["app"]);
    }
    let lines = "maxMessageSize: 65536\nmode: generic\n";
    let agent = Agent::configured(&runtime.endpoint(), lines);
    agent.wait_healthy();
    assert_eq!(agent.pods().len(), 250);
    runtime.sim.exit("web-7", "app", 3);
    let mut events = agent.events();
    events.find(|record| record["id"] == "web-7/app.0" && record["exitCode"] == 3);
    let status = agent.get("/v1/status").json();
    assert_eq!(status["relist"]["lastKind"], "list", "{status}");
    // The large list is not requested repeatedly.
    let whole = runtime.sim.calls_made(Rpc::ListContainers);
    agent.wait("/v1/status", |answer| {
        answer.json()["relist"]["count"].as_u64()
            > status["relist"]["count"].as_u64().map(|it| it + 5)
    });
    assert_eq!(runtime.sim.calls_made(Rpc::ListContainers), whole);
}
