//! `pleg watch`: the fields of the records, and the filters.

use serde_json::{Value, json};

use crate::support::{FakeRuntime, Pleg, TEST_LIMIT, assert_keys, assert_time};
use pleg::runtime::Rpc;
use rustix::process::Signal;
use sim::Fault;

/// `pleg watch` of this runtime in JSON, with a short period.
fn watch(runtime: &FakeRuntime, more: &[&str]) -> Pleg {
    let path = runtime.path();
    let args = ["watch", "-r", &path, "--agent", "off", "-o", "json"];
    Pleg::new(&[&args[..], &["--relist-period", "50ms"], more].concat())
}

#[test]
fn records_have_the_promised_keys_and_types() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"])]);
    let mut watch = watch(&runtime, &[]).start();
    let healthy = watch.record("all is well", |record| record["kind"] == "health");
    runtime.sim.exit("web-0", "app", 3);
    let died = watch.record("the death", |record| record["type"] == "ContainerDied");
    runtime.sim.world().remove("web-0");
    let removed = watch.record("the removal", |record| record["type"] == "ContainerRemoved");
    watch.signal(Signal::INT);
    let records = watch.end(TEST_LIMIT).assert_code(0).records();

    for record in &records {
        assert_time(&record["time"]);
        match record["kind"].as_str().unwrap() {
            "event" => assert_keys(
                record,
                &[
                    "kind",
                    "time",
                    "type",
                    "pod",
                    "id",
                    "subject",
                    "container",
                    "exitCode",
                    "reason",
                    "initial",
                    "source",
                ],
            ),
            "synced" => assert_keys(record, &["kind", "time", "pods", "containers"]),
            "health" => assert_keys(
                record,
                &[
                    "kind", "time", "state", "reason", "message", "stuck", "failing", "blind",
                ],
            ),
            other => panic!("{other}"),
        }
    }
    let shown = |record: &Value| {
        let mut record = record.clone();
        record.as_object_mut().unwrap().remove("time");
        record
    };
    let pod = json!({"uid": "uid-web-0", "namespace": "default", "name": "web-0"});
    assert_eq!(
        shown(&died),
        json!({
            "kind": "event", "type": "ContainerDied", "pod": pod,
            "id": "web-0/app.0", "subject": "container", "container": "app",
            "exitCode": 3, "reason": "Error", "initial": false, "source": "stream",
        })
    );
    assert_eq!(removed["exitCode"], Value::Null);
    assert_eq!(
        shown(&healthy),
        json!({"kind": "health", "state": "Healthy", "reason": "AllSeen", "message": "all pods are up to date",
            "stuck": [], "failing": [], "blind": []})
    );
    let sandbox = records.iter().find(|r| r["subject"] == "sandbox").unwrap();
    assert_eq!(
        shown(sandbox),
        json!({
            "kind": "event", "type": "ContainerStarted", "pod": pod,
            "id": "web-0.0", "subject": "sandbox", "container": null,
            "exitCode": null, "reason": null, "initial": true, "source": "relist",
        })
    );
}

#[test]
fn synced_is_reported_once_after_all_initial_events() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x", "y"]), ("b", &["x"]), ("c", &[])]);
    let records = watch(&runtime, &["--for", "1500ms"])
        .run()
        .assert_code(0)
        .records();
    let synced: Vec<usize> = (0..records.len())
        .filter(|index| records[*index]["kind"] == "synced")
        .collect();
    assert_eq!(synced.len(), 1, "{records:?}");
    let (before, after) = records.split_at(synced[0]);
    assert_eq!(
        (&after[0]["pods"], &after[0]["containers"]),
        (&3.into(), &3.into())
    );
    assert_eq!(before.len(), 6, "three sandboxes and three containers");
    assert!(
        before.iter().all(|record| record["initial"] == true),
        "{before:?}"
    );
    assert!(
        after.iter().all(|record| record["kind"] != "event"),
        "{after:?}"
    );
}

#[test]
fn only_the_wanted_pods_are_shown() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"])]);
    for (options, pods) in [
        (&["-n", "default"][..], &["a", "b"][..]),
        (&["--namespace", "kube-system"], &[]),
        (&["--pod", "b"], &["b"]),
        (&["-n", "default", "--pod", "a"], &["a"]),
        (&["-n", "kube-system", "--pod", "a"], &[]),
    ] {
        let options = [options, &["--for", "1s"]].concat();
        let records = watch(&runtime, &options).run().assert_code(0).records();
        let mut shown: Vec<&str> = records
            .iter()
            .filter_map(|record| record["pod"]["name"].as_str())
            .collect();
        shown.sort_unstable();
        shown.dedup();
        assert_eq!(shown, pods, "{options:?}");
        assert!(records.iter().any(|record| record["kind"] == "synced"));
    }
}

#[test]
fn a_stuck_status_call_is_reported_and_delays_no_other_event() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"])]);
    let mut watch = watch(&runtime, &[]).start();
    watch.record("synced", |record| record["kind"] == "synced");
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("a/x.0"), Fault::Hang);
    runtime.sim.exit("a", "x", 1);
    runtime.sim.exit("b", "x", 2);
    let died = watch.record("b's death", |record| record["type"] == "ContainerDied");
    assert_eq!(died["pod"]["name"], "b");
    let health = watch.record("a is named", |record| record["state"] == "Degraded");
    let stuck = &health["stuck"][0];
    assert_keys(stuck, &["call", "id", "container", "pod", "sinceSeconds"]);
    assert_eq!(
        (
            &stuck["call"],
            &stuck["id"],
            &stuck["container"],
            &stuck["pod"]["name"]
        ),
        (
            &json!("ContainerStatus"),
            &json!("a/x.0"),
            &json!("x"),
            &json!("a")
        )
    );
    assert!(stuck["sinceSeconds"].as_f64().unwrap() >= 1.0);
    runtime.sim.lift_all();
    let died = watch.record("a's death", |record| record["type"] == "ContainerDied");
    assert_eq!(
        (&died["pod"]["name"], &died["exitCode"]),
        (&json!("a"), &json!(1))
    );
}

#[test]
fn the_documented_modes_and_hints_are_accepted() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    for options in [
        &["--mode", "auto"][..],
        &["--mode", "generic"],
        &["--relist-threshold", "3m"],
    ] {
        let options = [options, &["--for", "300ms"]].concat();
        watch(&runtime, &options).run().assert_code(0);
    }
}
