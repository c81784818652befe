//! `pleg pods` and `pleg status` without an agent, on a healthy node.

use pleg::model::wall_time::WallTime;
use serde_json::{Value, json};

use crate::support::{Ended, FakeRuntime, Pleg, assert_keys, assert_status_shape, assert_time};

pub fn pods(runtime: &FakeRuntime, more: &[&str]) -> Ended {
    Pleg::new(&[&["pods", "-r", &runtime.path()], more].concat()).run()
}

pub fn status(runtime: &FakeRuntime, more: &[&str]) -> Ended {
    let path = runtime.path();
    Pleg::new(&[&["status", "-r", &path, "--agent", "off"], more].concat()).run()
}

#[test]
fn pods_have_the_promised_shape() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"]), ("idle", &[])]);
    runtime.sim.exit("web-0", "app", 137);
    let now: WallTime = runtime.sim.now();
    runtime.sim.world().pod("web-0").create("new", now);

    let pods = pods(&runtime, &["-o", "json"]).assert_code(0).value();
    let names: Vec<_> = pods
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| &pod["name"])
        .collect();
    assert_eq!(names, ["idle", "web-0"]);
    for pod in pods.as_array().unwrap() {
        let status = ["uid", "namespace", "name", "sandboxes", "containers"];
        assert_keys(pod, &[&status[..], &["asOf", "error"]].concat());
    }
    let sandbox = &pods[0]["sandboxes"][0];
    assert_keys(sandbox, &["id", "state", "attempt", "createdAt", "ips"]);
    assert_time(&sandbox["createdAt"]);
    assert_eq!(sandbox["id"], "idle.0");
    assert_eq!(sandbox["ips"], json!(["10.0.0.2"]));
    assert_eq!(sandbox["attempt"], 0);

    let containers = pods[1]["containers"].as_array().unwrap();
    let named = |name: &str| containers.iter().find(|c| c["name"] == name).unwrap();
    let keys = [
        "id",
        "name",
        "state",
        "attempt",
        "exitCode",
        "reason",
        "createdAt",
        "startedAt",
        "finishedAt",
        "image",
    ];
    let app = named("app");
    assert_keys(app, &keys);
    for time in ["createdAt", "startedAt", "finishedAt"] {
        assert_time(&app[time]);
    }
    assert_eq!(
        (
            &app["id"],
            &app["state"],
            &app["exitCode"],
            &app["reason"],
            &app["image"]
        ),
        (
            &json!("web-0/app.0"),
            &json!("exited"),
            &json!(137),
            &json!("Error"),
            &json!("pleg.test/busybox:latest")
        )
    );
    let new = named("new");
    assert_keys(new, &keys);
    assert_eq!(new["state"], "created");
    for absent in ["exitCode", "reason", "startedAt", "finishedAt"] {
        assert_eq!(new[absent], Value::Null, "{absent}");
    }
}

#[test]
fn a_node_without_pods_is_an_empty_array() {
    let runtime = FakeRuntime::with_pods(&[]);
    assert_eq!(
        pods(&runtime, &["-o", "json"]).assert_code(0).value(),
        json!([])
    );
    assert_eq!(pods(&runtime, &[]).assert_code(0).out, "No pods found.\n");
}

#[test]
fn status_has_the_promised_shape() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x", "y"])]);
    runtime.sim.exit("b", "y", 0);
    let status = status(&runtime, &["-o", "json"]).assert_code(0).value();
    assert_status_shape(&status);
    assert_eq!(status["health"]["state"], "Healthy");
    assert_eq!(status["health"]["thresholdSeconds"], 180.0);
    assert_eq!(status["kubeletView"]["ready"], true);
    assert_eq!(status["kubeletView"]["notReadyInSeconds"], Value::Null);
    assert_eq!(status["relist"]["mode"], "generic");
    assert_eq!(status["relist"]["lastKind"], "list");
    assert_eq!(status["pods"], 2);
    assert_eq!(
        status["containers"],
        json!({"running": 2, "exited": 1, "created": 0, "unknown": 0})
    );
    assert_eq!(status["runtime"]["endpoint"], runtime.endpoint());
    assert_eq!(status["runtime"]["apiVersion"], "v1");
}

#[test]
fn filters_of_pods_are_those_of_watch() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"])]);
    let shown = pods(&runtime, &["-n", "default", "--pod", "b", "-o", "json"]).value();
    assert_eq!(shown.as_array().unwrap().len(), 1);
    assert_eq!(shown[0]["name"], "b");
    assert_eq!(
        pods(&runtime, &["-n", "none", "-o", "json"]).value(),
        json!([])
    );
}

#[test]
fn the_endpoint_may_come_from_the_environment() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let ended = Pleg::new(&["pods", "-o", "json"])
        .env("CONTAINER_RUNTIME_ENDPOINT", &runtime.endpoint())
        .run();
    assert_eq!(ended.assert_code(0).value()[0]["name"], "a");
}
