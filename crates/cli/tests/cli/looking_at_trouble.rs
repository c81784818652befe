//! A look of our own at a runtime that hangs or refuses: what is found, and exit codes.

use pleg::runtime::{CallError, NoConnection, Rpc};
use serde_json::Value;
use sim::{Fault, Malformation};

use crate::support::{Agent, Ended, FakeRuntime, Pleg, assert_keys, assert_status_shape};

fn pods(runtime: &FakeRuntime, more: &[&str]) -> Ended {
    Pleg::new(&[&["pods", "-r", &runtime.path()], more].concat()).run()
}

fn status(runtime: &FakeRuntime, more: &[&str]) -> Ended {
    let path = runtime.path();
    Pleg::new(&[&["status", "-r", &path, "--agent", "off"], more].concat()).run()
}

#[test]
fn a_hung_status_call_is_found_and_named_with_exit_code_1() {
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
fn a_hung_list_is_found_with_nobody_to_name() {
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
fn lists_that_are_refused_are_what_could_not_be_done() {
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
fn the_status_of_another_id_is_nobodys() {
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
fn a_list_that_the_runtime_answers_with_unavailable_is_no_lost_connection() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    // The code that a runtime answers with, not one of ours.
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
