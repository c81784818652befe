//! The HTTP paths and addresses of an agent.

use std::os::unix::fs::PermissionsExt;

use pleg::runtime::Rpc;
use serde_json::Value;
use sim::Fault;

use crate::support::{Agent, FakeRuntime, assert_keys, assert_status_shape, assert_time, get};

#[test]
fn a_healthy_agent_is_healthy_at_each_path() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"]), ("web-1", &["app"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    for path in ["/livez", "/healthz", "/readyz"] {
        let answer = agent.get(path);
        assert_eq!((answer.code, answer.body.as_str()), (200, "ok\n"), "{path}");
    }
    let verbose = agent.get("/healthz?verbose");
    assert_eq!(verbose.body, "Healthy: all pods are up to date\n");
    assert_eq!(agent.get("/healthz?verbose=1").body, verbose.body);

    let status = agent.get("/v1/status");
    assert!(
        status.headers.contains("content-type: application/json"),
        "{status:?}"
    );
    let status = status.json();
    assert_status_shape(&status);
    assert_eq!(status["health"]["state"], "Healthy");
    assert_eq!(status["relist"]["periodSeconds"], 0.05);
    assert_eq!(status["runtime"]["endpoint"], runtime.endpoint());

    let pods = agent.get("/v1/pods");
    assert!(
        pods.headers.contains("content-type: application/json"),
        "{pods:?}"
    );
    assert_eq!(agent.pods(), ["web-0", "web-1"]);
    let pod = &pods.json()[0];
    let keys = ["uid", "namespace", "name", "sandboxes", "containers"];
    for key in keys {
        assert!(!pod[key].is_null(), "{key}: {pod}");
    }
    assert_keys(pod, &[&keys[..], &["asOf", "error"]].concat());
    assert!(pod["error"].is_null(), "{pod}");
    for (path, code) in [("/", 404), ("/v2/pods", 404), ("/v1", 404)] {
        assert_eq!(agent.get(path).code, code, "{path}");
    }
    for path in ["/metrics", "/metrics/kubelet"] {
        let metrics = agent.get(path);
        assert_eq!(metrics.code, 200);
        assert!(
            metrics
                .headers
                .contains("content-type: text/plain; version=0.0.4")
        );
    }
}

#[test]
fn an_agent_that_has_not_swept_yet_is_alive_and_not_ready() {
    let runtime = FakeRuntime::nowhere();
    let agent = Agent::watching(&runtime.endpoint());
    assert_eq!(agent.get("/livez").code, 200);
    for path in ["/healthz", "/healthz?verbose", "/readyz"] {
        let answer = agent.get(path);
        assert_eq!(answer.code, 503, "{path}");
        assert!(
            answer.body.contains("pleg has yet to be successful"),
            "{path}: {answer:?}"
        );
    }
    let status = agent.get("/v1/status").json();
    assert_eq!(status["health"]["state"], "Starting");
    assert_eq!(status["health"]["lastSeen"], Value::Null);
    assert_eq!(status["health"]["ageSeconds"], Value::Null);
    assert_eq!(agent.pods(), [""; 0]);
}

#[test]
fn every_subscriber_begins_with_initial_events_and_synced() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    for _ in 0..2 {
        let mut events = agent.events();
        for subject in ["container", "sandbox"] {
            let event = events.next().unwrap();
            assert_time(&event["time"]);
            assert_eq!(event["type"], "ContainerStarted");
            assert_eq!(event["subject"], subject);
            assert_eq!(event["initial"], true);
        }
        let synced = events.next().unwrap();
        assert_eq!(synced["kind"], "synced");
        assert_eq!(
            (&synced["pods"], &synced["containers"]),
            (&1.into(), &1.into())
        );
        let health = events.next().unwrap();
        assert_eq!(
            (&health["kind"], &health["state"]),
            (&"health".into(), &"Healthy".into())
        );
    }
    let mut all = [agent.events(), agent.events(), agent.events()];
    runtime.sim.exit("web-0", "app", 9);
    for events in &mut all {
        let died = events
            .find(|record| record["type"] == "ContainerDied")
            .unwrap();
        assert_eq!(
            (&died["exitCode"], &died["initial"]),
            (&9.into(), &false.into())
        );
    }
}

#[test]
fn addresses_serve_health_and_metrics_and_not_v1() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"])]);
    let agent = Agent::configured(&runtime.endpoint(), "metricsListen: 127.0.0.1:0\n");
    agent.wait_healthy();
    let metrics_address = agent.metrics_address.clone().unwrap();
    for address in [&agent.health_address, &metrics_address] {
        for path in [
            "/metrics",
            "/metrics/kubelet",
            "/livez",
            "/healthz",
            "/readyz",
        ] {
            assert_eq!(get(address, path).code, 200, "{path}");
            assert_eq!(agent.get(path).code, 200, "{path}");
        }
        for path in ["/v1/status", "/v1/pods", "/v1/events", "/v1"] {
            assert_eq!(get(address, path).code, 404, "{path}");
        }
    }
}

#[test]
fn no_other_address_is_open_by_default() {
    let runtime = FakeRuntime::with_pods(&[]);
    let mut agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    assert_eq!(
        agent.log().matches("serving health and metrics on").count(),
        1
    );
}

#[test]
fn the_socket_is_only_for_root_and_is_removed_with_the_agent() {
    let runtime = FakeRuntime::with_pods(&[]);
    let agent = Agent::watching(&runtime.endpoint());
    let socket = agent.socket.clone();
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    agent.terminate();
    agent.end().assert_code(0);
    assert!(!std::fs::exists(&socket).unwrap());
}

#[test]
fn names_in_answers_are_exact_and_escaped() {
    let evil = "a\u{9b}31m\u{202e}\u{2066}\u{1b}[2J\r\nb";
    let runtime = FakeRuntime::with_pods(&[(evil, &["x"])]);
    let agent = Agent::configured(&runtime.endpoint(), "statusOverdue: 50ms\n");
    agent.wait_healthy();
    let id = format!("{evil}/x.0");
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some(&id), Fault::Hang);
    runtime.sim.exit(evil, "x", 1);
    agent.wait("/v1/status", |answer| {
        !answer.json()["stuck"].as_array().unwrap().is_empty()
    });
    for path in ["/v1/pods", "/v1/status", "/healthz?verbose", "/metrics"] {
        let body = agent.get(path).body;
        let odd = body
            .chars()
            .find(|c| *c != '\n' && !pleg_text::escape::is_printable(*c));
        assert_eq!(odd, None, "{path}: {body:?}");
    }
    assert_eq!(agent.pods(), [evil]);
    let stuck = &agent.get("/v1/status").json()["stuck"][0];
    assert_eq!(stuck["pod"]["name"], evil);
    let health = agent.get("/healthz?verbose").body;
    assert!(
        health.contains("default/a\\u{9b}31m\\u{202e}\\u{2066}\\u{1b}[2J\\r\\nb"),
        "{health}"
    );
    assert_eq!(health.lines().count(), 1, "{health}");
}
