//! Commands beside a running agent.

use std::net::TcpListener;

use pleg::runtime::Call;
use rustix::process::Signal;

use crate::support::{Agent, FakeRuntime, PATIENCE, Pleg, eventually};

#[test]
fn a_watch_is_told_by_the_agent_and_asks_the_runtime_nothing() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let asked = runtime.sim.calls_made(Call::Version);
    let args = ["watch", "-r", &runtime.path(), "--agent", &agent.url()];
    let mut watch = Pleg::new(&args).start();
    let header = watch.line("the header", |_| true);
    assert!(header.ends_with("told by the agent\n"), "{header}");
    watch.line("synced", |line| {
        line.contains("synced: 1 pods, 1 containers")
    });
    runtime.sim.exit("a", "x", 4);
    watch.line("the death", |line| line.contains("exit 4"));
    assert_eq!(runtime.sim.calls_made(Call::Version), asked);
}

#[test]
fn an_agent_on_the_usual_address_is_used_if_it_watches_the_same_runtime() {
    const USUAL: &str = "127.0.0.1:20258";
    if TcpListener::bind(USUAL).is_err() {
        // Somebody works with an agent on this machine.
        return;
    }
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let other = FakeRuntime::with_pods(&[("b", &["x"])]);
    let agent = Agent::listening(USUAL, &runtime.endpoint(), "");
    agent.wait_healthy();
    let header = |path: &str| {
        let mut watch = Pleg::new(&["watch", "-r", path]).start();
        watch.line("the header", |_| true)
    };
    assert!(header(&runtime.path()).ends_with("told by the agent\n"));
    assert!(header(&other.path()).contains("relisting every 1s"));
    let status = |path: &str| {
        let args = ["status", "-r", path, "-o", "json"];
        Pleg::new(&args).run().assert_code(0).value()
    };
    assert_eq!(status(&runtime.path())["relist"]["periodSeconds"], 0.05);
    assert_eq!(status(&other.path())["relist"]["periodSeconds"], 1.0);
}

#[test]
fn agent_off_goes_to_the_runtime() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let asked = runtime.sim.calls_made(Call::Version);
    let args = ["watch", "-r", &runtime.path(), "--agent", "off"];
    let mut watch = Pleg::new(&args).start();
    let header = watch.line("the header", |_| true);
    assert!(header.contains("relisting every 1s"), "{header}");
    watch.line("synced", |line| line.contains("synced"));
    assert!(runtime.sim.calls_made(Call::Version) > asked);
}

#[test]
fn a_watch_goes_on_by_itself_when_the_agent_goes() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    // The agent knows where the runtime is: nobody has to name it again.
    let args = ["watch", "--agent", &agent.url(), "-o", "json"];
    let mut watch = Pleg::new(&args).start();
    watch.record("synced", |record| record["kind"] == "synced");
    agent.terminate();
    agent.end().assert_code(0);
    runtime.sim.exit("b", "x", 5);
    watch.record("the death", |record| record["exitCode"] == 5);
    watch.signal(Signal::TERM);
    let ended = watch.end(PATIENCE).assert_code(0);
    assert!(ended.err.contains("the agent has gone"), "{}", ended.err);
    let records = ended.records();
    let synced = records.iter().filter(|record| record["kind"] == "synced");
    assert_eq!(synced.count(), 1);
}

#[test]
fn a_watch_says_which_of_its_flags_an_agent_leaves_without_effect() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let watch = |more: &[&str]| {
        let path = runtime.path();
        let args = ["watch", "-r", &path, "--for", "300ms"];
        Pleg::new(&[&args, more].concat()).run().assert_code(0).err
    };
    let url = agent.url();
    let told_by_agent = ["--agent", &url];
    assert_eq!(watch(&told_by_agent), "");
    let said = watch(&[&told_by_agent[..], &["--relist-period", "1s"]].concat());
    assert!(
        said.contains("--relist-period has no effect while the agent tells"),
        "{said}"
    );
    let all = ["--mode", "generic", "--relist-threshold", "1m"];
    let said = watch(&[&told_by_agent[..], &all].concat());
    assert!(
        said.contains("--mode and --relist-threshold have no effect while the agent tells"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(watch(&[&["--agent", "off"], &all[..]].concat()), "");
}

#[test]
fn a_watch_returns_to_its_agent_and_tells_nothing_twice() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"]), ("c", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let args = ["watch", "--agent", &agent.url(), "-o", "json"];
    let mut watch = Pleg::new(&args).start();
    watch.record("all is well", |record| record["kind"] == "health");

    let address = agent.address.clone();
    agent.terminate();
    agent.end().assert_code(0);
    // While nobody tells, and while the watch does.
    runtime.sim.exit("a", "x", 5);
    watch.record("a's death", |record| record["exitCode"] == 5);
    runtime.sim.exit("b", "x", 6);
    watch.record("b's death", |record| record["exitCode"] == 6);

    let agent = Agent::listening(&address, &runtime.endpoint(), "");
    agent.wait_healthy();
    eventually("the watch returns", || {
        watch.log().contains("the agent is back").then_some(())
    });
    runtime.sim.exit("c", "x", 7);
    watch.record("c's death", |record| record["exitCode"] == 7);
    // The watch has left the runtime to the agent.
    agent.terminate();
    agent.end().assert_code(0);
    eventually("the watch goes on by itself again", || {
        (watch.log().matches("the agent has gone").count() == 2).then_some(())
    });
    watch.signal(Signal::TERM);

    let records = watch.end(PATIENCE).assert_code(0).records();
    let mut told: Vec<String> = records
        .iter()
        .filter(|record| record["kind"] != "health")
        .map(|record| format!("{} {} {}", record["kind"], record["id"], record["type"]))
        .collect();
    let all = told.len();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), all, "{records:#?}");
    let deaths = told.iter().filter(|what| what.contains("ContainerDied"));
    assert_eq!(deaths.count(), 3, "{told:?}");
}

#[test]
fn status_is_the_agents_own() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let args = ["status", "--agent", &agent.url(), "-o", "json"];
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
    let mut runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    runtime.go_away();
    agent.wait("/healthz?verbose", |answer| {
        answer.body.starts_with("Degraded")
    });
    let status = Pleg::new(&["status", "--agent", &agent.url()]).run();
    let page = status.assert_code(0).out;
    assert!(
        page.starts_with("Health    Degraded: the node cannot be listed: "),
        "{page}"
    );
}

#[test]
fn a_named_agent_that_does_not_answer_is_exit_code_2() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    for command in ["status", "watch"] {
        for (agent, sentence) in [
            (
                "http://127.0.0.1:1",
                "no agent on 127.0.0.1:1: connection refused",
            ),
            (
                "https://127.0.0.1:1",
                "\"https://127.0.0.1:1\" is no agent's address: write http://127.0.0.1:20258, or off",
            ),
        ] {
            let args = [command, "-r", &runtime.path(), "--agent", agent];
            let said = Pleg::new(&args).run().sentence();
            assert_eq!(said, sentence, "{command}");
        }
    }
}

#[test]
fn what_answers_and_is_no_agent_is_named() {
    let runtime = FakeRuntime::with_pods(&[]);
    let agent = Agent::configured(&runtime.endpoint(), "metricsListen: 127.0.0.1:0\n");
    let address = agent.metrics_address.clone().unwrap();
    let args = ["status", "--agent", &format!("http://{address}")];
    let said = Pleg::new(&args).run().sentence();
    assert_eq!(
        said,
        format!("the agent on {address} answers 404 Not Found")
    );
}
