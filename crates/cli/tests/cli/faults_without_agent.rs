//! `pleg pods` and `pleg status` without an agent on a runtime that hangs or fails: output and exit codes.

use pleg::runtime::{CallError, NoConnection, Rpc};
use serde_json::Value;
use sim::{Fault, Malformation};

use crate::support::{Agent, FakeRuntime, Pleg, assert_keys, assert_status_shape, eventually};
use crate::without_agent::{pods, status};

#[test]
fn a_stuck_status_call_is_reported_with_exit_code_1() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"])]);
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("a/x.0"), Fault::Hang);
    let found = status(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_status_shape(&found);
    assert_eq!(found["health"]["state"], "Degraded");
    assert_eq!(found["stuck"][0]["id"], "a/x.0");
    assert_keys(&found["inFlight"][0], &["call", "id", "ageSeconds"]);
    assert_eq!(found["inFlight"][0]["id"], "a/x.0");

    let page = status(&runtime, &[]).assert_code(1).out;
    assert!(
        page.contains("ContainerStatus of x in default/a (a/x.0) has not answered"),
        "{page}"
    );
    let shown = pods(&runtime, &["-o", "json"]).assert_code(1);
    let names: Vec<Value> = shown.value().as_array().unwrap().clone();
    assert!(names.iter().any(|pod| pod["name"] == "b"), "{names:?}");
    assert!(shown.err.contains("has not answered"), "{}", shown.err);
}

#[test]
fn a_hanging_version_alone_is_a_problem() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    runtime.sim.fault(Rpc::Version, None, Fault::Hang);
    let found = status(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(found["health"]["reason"], "ListStuck");
    assert_eq!(found["stuck"][0]["call"], "Version");
    assert_eq!(found["containers"]["running"], 1, "{found:#}");
    pods(&runtime, &[]).assert_code(1);
}

#[test]
fn if_no_status_call_is_answered_the_command_waits_until_the_calls_are_reported() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"])]);
    runtime.sim.fault(Rpc::ContainerStatus, None, Fault::Hang);
    let found = status(&runtime, &["-o", "json"]).assert_code(1).value();
    let stuck = found["stuck"].as_array().unwrap();
    assert!(!stuck.is_empty(), "{found:#}");
    assert_eq!(stuck[0]["call"], "ContainerStatus");
}

#[test]
fn a_listed_container_whose_status_is_not_found_is_a_problem() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x", "y"]), ("b", &["x"])]);
    let gone = CallError::NotFound("an error occurred: not found".into());
    let fault = Fault::Fail(gone);
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("a/x.0"), fault);
    let found = status(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(found["failing"][0]["id"], "a/x.0", "{found:#}");
    let shown = pods(&runtime, &["-o", "json"]).assert_code(1);
    let pods = shown.value();
    let a = pods.as_array().unwrap().iter().find(|it| it["name"] == "a");
    let error = a.unwrap()["error"].as_str().unwrap_or_default();
    assert!(error.contains("a/x.0"), "{pods:#}");
    assert!(shown.err.contains("a/x.0"), "{}", shown.err);
}

#[test]
fn a_path_that_is_no_socket_is_reported_with_its_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("containerd.sock");
    std::fs::create_dir(&path).unwrap();
    let path = path.to_str().unwrap();
    let said = Pleg::new(&["pods", "-r", path]).run().sentence();
    assert!(said.contains("it is a directory, not a socket"), "{said}");
    let doctor = Pleg::new(&["doctor", "--agent", "off", "-r", path]).run();
    let page = doctor.assert_code(1).out;
    assert!(page.contains("it is a directory, not a socket"), "{page}");
    assert!(!page.contains("its socket exists"), "{page}");
}

#[test]
fn a_closed_pipe_does_not_change_the_exit_code() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let path = runtime.path();
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("a/x.0"), Fault::Hang);
    let pleg = env!("CARGO_BIN_EXE_pleg");
    let script = format!("{pleg} status --agent off -r {path} | true; echo ${{PIPESTATUS[0]}}");
    let ended = std::process::Command::new("bash")
        .args(["-c", &script])
        .output();
    let said = String::from_utf8(ended.unwrap().stdout).unwrap();
    assert_eq!(said, "1\n");
}

#[test]
fn a_stuck_list_is_reported_without_a_culprit() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let found = status(&runtime, &["-o", "json"]).assert_code(1).value();
    let stuck = &found["stuck"][0];
    assert_eq!(stuck["call"], "ListContainers");
    for null in ["id", "container", "pod"] {
        assert_eq!(stuck[null], Value::Null);
    }
    assert_eq!(found["health"]["lastSeen"], Value::Null);
    assert_eq!(found["relist"]["count"], 0);
    assert!(found["kubeletView"]["notReadyInSeconds"].is_number());
    pods(&runtime, &[]).sentence();
}

#[test]
fn refused_lists_are_exit_code_2() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let refused = CallError::Refused("bolt is closed".into());
    runtime
        .sim
        .fault(Rpc::ListPodSandbox, None, Fault::Fail(refused));
    for said in [
        pods(&runtime, &[]).sentence(),
        status(&runtime, &[]).sentence(),
    ] {
        assert!(
            said.ends_with("the runtime answered Unknown: bolt is closed"),
            "{said}"
        );
    }
}

#[test]
fn the_status_of_another_id_is_an_error() {
    for (call, id) in [
        (Rpc::ContainerStatus, "a/x.0"),
        (Rpc::PodSandboxStatus, "a.0"),
    ] {
        let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["y"])]);
        let fault = Fault::Malformed(Malformation::OfAnother);
        runtime.sim.fault(call, Some(id), fault);
        let shown = pods(&runtime, &["-o", "json"]).assert_code(1);
        let shown = shown.value();
        let a = shown.as_array().unwrap().iter();
        let a = a.clone().find(|pod| pod["name"] == "a").unwrap();
        let error = a["error"].as_str().unwrap();
        assert!(
            error.contains(&format!("requested the status of {id}, received")),
            "{error}"
        );
        assert_eq!(a["containers"][0]["id"], "a/x.0", "what the list shows");
    }
}

#[test]
fn a_list_answered_with_unavailable_is_not_a_lost_connection() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    // The status code Unavailable is an answer of the runtime.
    runtime.sim.fault(
        Rpc::ListPodSandbox,
        None,
        Fault::Fail(CallError::unavailable(NoConnection::Other, "ttrpc: closed")),
    );
    let status = agent.wait("/v1/status", |answer| {
        answer.json()["health"]["state"] == "Degraded"
    });
    let health = &status.json()["health"];
    assert_eq!(health["reason"], "ListFails", "{health}");
    let page = Pleg::new(&["pods", "--agent", &agent.socket]).run();
    let said = page.assert_code(1).err;
    assert!(said.contains("ListPodSandbox is unavailable"), "{said}");
}

#[test]
fn an_unreachable_or_unresponsive_runtime_is_exit_code_1_with_and_without_an_agent() {
    let mut runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.path());
    agent.wait_healthy();
    let by_agent = || Pleg::new(&["status", "--agent", &agent.socket, "-o", "json"]).run();
    let by_reason = |reason: &str| {
        eventually(reason, || {
            let ended = by_agent();
            (ended.value()["health"]["reason"] == reason).then_some(ended)
        })
    };

    runtime.sim.stop();
    status(&runtime, &[]).assert_code(1);
    by_reason("RuntimeSilent").assert_code(1);
    runtime.sim.resume();
    by_reason("AllSeen").assert_code(0);

    runtime.go_away();
    let gone = status(&runtime, &[]).assert_code(1);
    assert!(
        gone.err.starts_with("pleg: cannot connect to "),
        "{}",
        gone.err
    );
    assert_eq!(gone.out, "");
    by_reason("RuntimeUnreachable").assert_code(1);
}
