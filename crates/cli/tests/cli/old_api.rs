//! A runtime that serves only CRI v1alpha2.

use std::thread::sleep;
use std::time::Duration;

use cri::ApiVersion;
use pleg::runtime::{CallError, Rpc};
use serde_json::json;
use sim::Fault;

use crate::support::{Agent, FakeRuntime, Pleg};

fn old_runtime() -> FakeRuntime {
    let mut runtime = FakeRuntime::nowhere();
    runtime.sim.run("web-0", &["app"]);
    runtime.come_back_as(ApiVersion::V1Alpha2);
    runtime
}

#[test]
fn pods_status_and_watch_use_v1alpha2_without_v1() {
    let runtime = old_runtime();
    let path = runtime.path();
    let pods = Pleg::new(&["pods", "-r", &path, "-o", "json"]).run();
    let pods = pods.assert_code(0).value();
    assert_eq!(pods[0]["containers"][0]["state"], "running");

    let args = ["status", "-r", &path, "--agent", "off", "-o", "json"];
    let status = Pleg::new(&args).run().assert_code(0).value();
    assert_eq!(status["runtime"]["apiVersion"], "v1alpha2");
    assert_eq!(status["runtime"]["name"], "pleg-sim");

    let args = ["watch", "-r", &path, "--agent", "off"];
    let mut watch = Pleg::new(&args).start();
    let header = watch.line("the header", |_| true);
    assert!(header.contains("CRI v1alpha2 at unix://"), "{header}");
    runtime.sim.exit("web-0", "app", 3);
    watch.line("the death", |line| {
        line.contains("ContainerDied") && line.contains("exit 3")
    });
}

#[test]
fn an_upgraded_runtime_is_called_with_v1() {
    let mut runtime = old_runtime();
    let agent = Agent::watching(&runtime.endpoint());
    let speaks = |api: &'static str| {
        agent.wait("/v1/status", |answer| {
            let status = answer.json();
            status["runtime"]["apiVersion"] == api && status["health"]["state"] == "Healthy"
        });
    };
    speaks("v1alpha2");
    for (api, name) in [(ApiVersion::V1, "v1"), (ApiVersion::V1Alpha2, "v1alpha2")] {
        runtime.go_away();
        runtime.come_back_as(api);
        speaks(name);
    }
}

#[test]
fn a_hanging_version_hides_no_pod_in_either_api_version() {
    let mut runtime = old_runtime();
    runtime.sim.fault(Rpc::Version, None, Fault::Hang);
    let agent = Agent::watching(&runtime.endpoint());
    let is_reported = |code: i32| {
        agent.wait("/v1/pods", |answer| {
            let text = answer.body.clone();
            text.contains(&format!("\"exitCode\":{code}"))
        });
    };
    runtime.sim.exit("web-0", "app", 43);
    is_reported(43);
    for (api, code) in [(ApiVersion::V1, 44), (ApiVersion::V1Alpha2, 45)] {
        runtime.go_away();
        runtime.come_back_as(api);
        let name = format!("of-{}", api.as_str());
        runtime.sim.run(&name, &["app"]);
        runtime.sim.exit(&name, "app", code);
        is_reported(code);
    }
}

#[test]
fn a_list_that_is_not_implemented_does_not_change_the_api_version() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["y"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let not_served = CallError::Unimplemented("unknown method".into());
    let fault = Fault::Fail(not_served);
    runtime.sim.fault(Rpc::ListContainers, None, fault);
    agent.wait("/v1/status", |answer| {
        answer.json()["health"]["reason"] == "ListFails"
    });
    runtime.sim.exit("a", "x", 46);
    for _ in 0..30 {
        let status = agent.get("/v1/status").json();
        assert_eq!(status["failing"], json!([]));
        assert_eq!(status["blind"], json!(["newContainers"]));
        sleep(Duration::from_millis(100));
    }
    let pods = agent.get("/v1/pods").body;
    assert!(pods.contains("\"exitCode\":46"), "{pods}");
}
