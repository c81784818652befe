//! Commands beside a running agent.

use pleg::runtime::{CallError, Rpc};
use rustix::process::Signal;
use sim::Fault;

use crate::support::{Agent, FakeRuntime, Pleg, TEST_LIMIT, assert_keys, eventually};

#[test]
fn a_watch_uses_the_agent_and_sends_no_call() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let asked = runtime.sim.calls_made(Rpc::Version);
    let args = ["watch", "-r", &runtime.path(), "--agent", &agent.socket];
    let mut watch = Pleg::new(&args).start();
    let header = watch.line("the header", |_| true);
    assert!(header.ends_with("via the agent\n"), "{header}");
    watch.line("synced", |line| line.contains("synced: 1 pod, 1 container"));
    runtime.sim.exit("a", "x", 4);
    watch.line("the death", |line| line.contains("exit 4"));
    assert_eq!(runtime.sim.calls_made(Rpc::Version), asked);
}

#[test]
fn agent_off_queries_the_runtime() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let asked = runtime.sim.calls_made(Rpc::Version);
    let args = ["watch", "-r", &runtime.path(), "--agent", "off"];
    let mut watch = Pleg::new(&args).start();
    let header = watch.line("the header", |_| true);
    assert!(header.contains("relisting every 1s"), "{header}");
    watch.line("synced", |line| line.contains("synced"));
    assert!(runtime.sim.calls_made(Rpc::Version) > asked);
}

#[test]
fn a_watch_continues_without_the_agent_when_it_stops() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    // The agent knows the runtime's endpoint.
    let args = ["watch", "--agent", &agent.socket, "-o", "json"];
    let mut watch = Pleg::new(&args).start();
    watch.record("synced", |record| record["kind"] == "synced");
    agent.terminate();
    agent.end().assert_code(0);
    runtime.sim.exit("b", "x", 5);
    watch.record("the death", |record| record["exitCode"] == 5);
    watch.signal(Signal::TERM);
    let ended = watch.end(TEST_LIMIT).assert_code(0);
    assert!(ended.err.contains("the agent stopped"), "{}", ended.err);
    let records = ended.records();
    let synced = records.iter().filter(|record| record["kind"] == "synced");
    assert_eq!(synced.count(), 1);
}

#[test]
fn a_watch_warns_of_flags_without_effect() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let watch = |more: &[&str]| {
        let path = runtime.path();
        let args = ["watch", "-r", &path, "--for", "300ms"];
        Pleg::new(&[&args, more].concat()).run().assert_code(0).err
    };
    let url = agent.socket.clone();
    let with_agent = ["--agent", &url];
    assert_eq!(watch(&with_agent), "");
    let said = watch(&[&with_agent[..], &["--relist-period", "1s"]].concat());
    assert!(
        said.contains("--relist-period has no effect while an agent is used"),
        "{said}"
    );
    let all = ["--mode", "generic", "--relist-threshold", "1m"];
    let said = watch(&[&with_agent[..], &all].concat());
    assert!(
        said.contains("--mode and --relist-threshold have no effect while an agent is used"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(watch(&[&["--agent", "off"], &all[..]].concat()), "");
}

#[test]
fn a_watch_returns_to_its_agent_and_reports_nothing_twice() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"]), ("c", &["x"])]);
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("agent.sock").display().to_string();
    let agent = Agent::listening(&socket, &runtime.endpoint(), "");
    agent.wait_healthy();
    let args = ["watch", "--agent", &agent.socket, "-o", "json"];
    let mut watch = Pleg::new(&args).start();
    watch.record("all is well", |record| record["kind"] == "health");

    agent.terminate();
    agent.end().assert_code(0);
    // One container exits when the watch may not have a source of events yet, one
    // while it uses its own engine.
    runtime.sim.exit("a", "x", 5);
    watch.record("a's death", |record| record["exitCode"] == 5);
    runtime.sim.exit("b", "x", 6);
    watch.record("b's death", |record| record["exitCode"] == 6);

    let agent = Agent::listening(&socket, &runtime.endpoint(), "");
    agent.wait_healthy();
    eventually("the watch returns", || {
        watch.log().contains("the agent is back").then_some(())
    });
    runtime.sim.exit("c", "x", 7);
    watch.record("c's death", |record| record["exitCode"] == 7);
    // The watch sends no more calls.
    agent.terminate();
    agent.end().assert_code(0);
    eventually("the watch goes on by itself again", || {
        (watch.log().matches("the agent stopped").count() == 2).then_some(())
    });
    watch.signal(Signal::TERM);

    let records = watch.end(TEST_LIMIT).assert_code(0).records();
    let mut events: Vec<String> = records
        .iter()
        .filter(|record| record["kind"] != "health")
        .map(|record| format!("{} {} {}", record["kind"], record["id"], record["type"]))
        .collect();
    let all = events.len();
    events.sort();
    events.dedup();
    assert_eq!(events.len(), all, "{records:#?}");
    let deaths = events.iter().filter(|what| what.contains("ContainerDied"));
    assert_eq!(deaths.count(), 3, "{events:?}");
}

#[test]
fn status_is_the_agents_own() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let args = ["status", "--agent", &agent.socket, "-o", "json"];
    let status = Pleg::new(&args).run().assert_code(0).value();
    let served = agent.get("/v1/status").json();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&status), keys(&served));
    assert_eq!(status["relist"]["periodSeconds"], 0.05);
}

#[test]
fn a_degraded_agent_is_exit_code_0() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    agent.wait("/healthz?verbose", |answer| {
        answer.body.starts_with("Degraded")
    });
    let status = Pleg::new(&["status", "--agent", &agent.socket]).run();
    let page = status.assert_code(0).out;
    let health = "Health      Degraded: ListContainers has not answered for ";
    assert!(page.starts_with(health), "{page}");
    let pods = Pleg::new(&["pods", "--agent", &agent.socket]).run();
    let said = pods.assert_code(1).err;
    assert!(said.contains("ListContainers has not answered"), "{said}");
}

#[test]
fn an_agent_that_has_observed_nothing_does_not_mean_that_there_are_no_pods() {
    let runtime = FakeRuntime::nowhere();
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait("/v1/status", |answer| {
        !answer.json()["relist"]["lastFailure"].is_null()
    });
    for format in ["text", "json"] {
        let args = ["pods", "--agent", &agent.socket, "-o", format];
        let said = Pleg::new(&args).run().sentence();
        assert!(
            said.starts_with("the agent has not observed the pods yet: "),
            "{said}"
        );
        assert!(said.ends_with("no such file or directory"), "{said}");
    }
    // A failing call is a problem; the report is complete.
    let args = ["status", "--agent", &agent.socket, "-o", "json"];
    let status = Pleg::new(&args).run().assert_code(1).value();
    assert_eq!(status["health"]["state"], "Starting");
}

#[test]
fn an_agent_without_a_first_answer_is_exit_code_2() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let agent = Agent::configured(&runtime.endpoint(), "listOverdue: 20s\n");
    let args = ["status", "--agent", &agent.socket];
    let status = Pleg::new(&args).run().assert_code(2);
    assert!(
        status.out.starts_with("Health      Starting: "),
        "{status:?}"
    );
}

#[test]
fn a_pod_that_cannot_be_inspected_is_shown_as_last_known() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let refused = CallError::Refused("not\ntoday".into());
    let call = Rpc::ContainerStatus;
    runtime.sim.fault(call, Some("a/x.0"), Fault::Fail(refused));
    runtime.sim.exit("a", "x", 3);
    agent.wait("/v1/pods", |answer| !answer.json()[0]["error"].is_null());

    let pods = |format: &str| {
        let args = ["pods", "--agent", &agent.socket, "-o", format];
        Pleg::new(&args).run().assert_code(1)
    };
    let found = pods("json").value();
    assert_keys(
        &found[0],
        &[
            "uid",
            "namespace",
            "name",
            "sandboxes",
            "containers",
            "asOf",
            "error",
        ],
    );
    let error = found[0]["error"].as_str().unwrap();
    assert!(error.contains("not\ntoday"), "{error:?}");
    assert!(found[1]["error"].is_null(), "{found}");

    let table = pods("text");
    let row = |pod: &str| {
        let mut rows = table.out.lines();
        rows.find(|row| row.contains(&format!("  {pod}  ")))
            .unwrap()
    };
    assert!(row("a").contains("running, last known"), "{}", table.out);
    assert!(!row("b").contains("last known"), "{}", table.out);
    assert!(
        table
            .err
            .contains("showing the last known status of default/a: "),
        "{}",
        table.err
    );
    assert!(table.err.contains("not\\ntoday"), "{}", table.err);
}
