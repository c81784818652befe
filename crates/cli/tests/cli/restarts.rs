//! A runtime that stops and starts again: each change of health is reported, and each exit in between
//! is reported once.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Agent, FakeRuntime, Pleg, TEST_LIMIT};

const PODS: &[(&str, &[&str])] = &[("db-0", &["db", "log"]), ("web-0", &["app"])];

/// How often each exit was reported, by container id.
fn deaths<'a>(records: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, usize> {
    let mut deaths = BTreeMap::new();
    for record in records {
        if record["type"] == "ContainerDied" {
            *deaths.entry(record["id"].to_string()).or_default() += 1;
        }
    }
    deaths
}

fn is_health(record: &Value, state: &str) -> bool {
    record["kind"] == "health" && record["state"] == state
}

#[test]
fn a_watch_reports_exits_during_an_outage_of_the_runtime() {
    let mut runtime = FakeRuntime::with_pods(PODS);
    let args = ["watch", "-r", &runtime.path(), "--agent", "off"];
    let args = [&args[..], &["--relist-period", "50ms", "-o", "json"]].concat();
    let mut watch = Pleg::new(&args).start();
    watch.record("all is well", |record| is_health(record, "Healthy"));

    for (round, container) in ["db", "log"].iter().enumerate() {
        runtime.go_away();
        let health = watch.record("it is away", |record| is_health(record, "Degraded"));
        let message = health["message"].as_str().unwrap();
        assert!(
            message.starts_with("pods cannot be listed: the runtime cannot be reached: "),
            "round {round}: {message}"
        );
        runtime.sim.exit("db-0", container, 1);
        runtime.come_back();
        let died = watch.record("the death", |record| record["type"] == "ContainerDied");
        assert_eq!(died["container"], *container);
        assert_eq!(
            (&died["exitCode"], &died["initial"]),
            (&1.into(), &false.into())
        );
        watch.record("all is well again", |record| is_health(record, "Healthy"));
    }
    runtime.sim.exit("web-0", "app", 0);
    watch.record("the last death", |record| record["pod"]["name"] == "web-0");
    watch.signal(Signal::TERM);

    let records = watch.end(TEST_LIMIT).assert_code(0).records();
    let deaths = deaths(&records);
    assert_eq!(deaths.len(), 3, "{deaths:?}");
    assert!(deaths.values().all(|times| *times == 1), "{deaths:?}");
    let synced = records.iter().filter(|record| record["kind"] == "synced");
    assert_eq!(synced.count(), 1);
}

#[test]
fn an_agent_reports_exits_during_an_outage_of_the_runtime() {
    let mut runtime = FakeRuntime::with_pods(PODS);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let mut events = agent.events();

    runtime.go_away();
    let away = agent.wait("/healthz?verbose", |answer| {
        answer.body.starts_with("Degraded")
    });
    assert_eq!(away.code, 200);
    assert_eq!(
        agent.get("/healthz").body,
        "ok\n",
        "Degraded is well enough"
    );
    let view = &agent.get("/v1/status").json()["kubeletView"];
    assert_eq!(view["ready"], true);
    assert!(view["notReadyInSeconds"].as_f64().unwrap() > 60.0, "{view}");
    runtime.sim.exit("db-0", "db", 1);
    runtime.sim.exit("web-0", "app", 2);
    runtime.come_back();
    agent.wait_healthy();
    runtime.sim.exit("db-0", "log", 0);

    let last = |record: &Value| record["container"] == "log" && record["type"] == "ContainerDied";
    let mut records = Vec::new();
    for record in &mut events {
        let over = last(&record);
        records.push(record);
        if over {
            break;
        }
    }
    let deaths = deaths(&records);
    assert_eq!(deaths.len(), 3, "{deaths:?}");
    assert!(deaths.values().all(|times| *times == 1), "{deaths:?}");
    assert!(records.iter().any(|record| is_health(record, "Degraded")));
}

#[test]
fn after_the_threshold_an_agent_has_the_kubelets_message() {
    let mut runtime = FakeRuntime::with_pods(PODS);
    let agent = Agent::configured(&runtime.endpoint(), "relistThreshold: 500ms\n");
    agent.wait_healthy();
    runtime.go_away();
    let sick = agent.wait("/healthz", |answer| answer.code == 503);
    assert!(
        sick.body
            .starts_with("PLEG is not healthy: pleg was last seen active ")
            && sick
                .body
                .contains(" ago; threshold is 500ms: the runtime cannot be reached: "),
        "{sick:?}"
    );
    assert_eq!(agent.get("/livez").code, 200, "we are well ourselves");
    assert_eq!(agent.get("/readyz").code, 200, "it was ready once");
    assert_eq!(agent.pods(), ["db-0", "web-0"]);

    let args = ["status", "--agent", &agent.socket, "-o", "json"];
    let status = Pleg::new(&args).run().assert_code(1).value();
    assert_eq!(status["health"]["state"], "Unhealthy");

    runtime.come_back();
    agent.wait_healthy();
    let status = Pleg::new(&["status", "--agent", &agent.socket]).run();
    status.assert_code(0);
}

#[test]
fn a_lost_connection_ends_hanging_calls() {
    use pleg::runtime::Rpc;
    use sim::Fault;

    let mut runtime = FakeRuntime::with_pods(PODS);
    let agent = Agent::configured(&runtime.endpoint(), "listOverdue: 200ms\n");
    agent.wait_healthy();
    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    agent.wait("/v1/status", |answer| {
        answer.json()["stuck"][0]["call"] == "ListContainers"
    });
    runtime.go_away();
    runtime.sim.lift_all();
    runtime.come_back();
    agent.wait_healthy();
    assert_eq!(
        agent.get("/v1/status").json()["stuck"],
        Value::Array(vec![])
    );
    // No call was repeated while it hung.
    assert_eq!(runtime.sim.max_outstanding_per_id(), 1);
}
