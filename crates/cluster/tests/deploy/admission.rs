//! The rules of the admission policies, evaluated by an interpreter of CEL in Rust. `policy.rs`
//! evaluates them with a real API server, if there is one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api_double::{Double, until};
use cel::{Context, Env, Value as CelValue, extensions};
use cluster::{Figures, KubernetesConfig, start};
use pleg::model::wall_time::system_clock;
use pleg::out::status_report::StatusReport;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::files::base;

const AGENT: &str = "system:serviceaccount:pleg:pleg-agent";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_POLICY: &str = "ValidatingAdmissionPolicy pleg-agent";
const EVENT_POLICY: &str = "ValidatingAdmissionPolicy pleg-agent-events";

/// A request of an agent whose token is bound to a pod on `node-1`.
fn request(operation: &str, namespace: &str) -> Value {
    json!({
        "operation": operation,
        "namespace": namespace,
        "userInfo": {"username": AGENT, "extra": {NODE_NAME: ["node-1"]}},
    })
}

/// Why a policy refuses a request: the messages of its failed validations.
fn refusals(policy: &str, request: &Value, object: &Value, old: &Value) -> Vec<String> {
    let spec = base()[policy]["spec"].clone();
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings).unwrap();
    let env = Arc::new(env);
    let mut variables = HashMap::<String, CelValue>::new();
    let judge = |expression: &Value, variables: &HashMap<String, CelValue>| {
        let mut context = Context::with_env(env.clone());
        context.add_variable("request", request.clone()).unwrap();
        context.add_variable("object", object.clone()).unwrap();
        context.add_variable("oldObject", old.clone()).unwrap();
        let variables = CelValue::from(variables.clone());
        context.add_variable_from_value("variables", variables);
        let expression = expression.as_str().unwrap();
        let program = env.compile(expression);
        let program = program.unwrap_or_else(|error| panic!("{expression}: {error}"));
        let value = program.execute(&context);
        value.unwrap_or_else(|error| panic!("{expression}: {error}"))
    };
    for condition in spec["matchConditions"].as_array().unwrap() {
        if judge(&condition["expression"], &variables) != CelValue::Bool(true) {
            return Vec::new();
        }
    }
    for variable in spec["variables"].as_array().unwrap() {
        let value = judge(&variable["expression"], &variables);
        variables.insert(variable["name"].as_str().unwrap().to_owned(), value);
    }
    let validations = spec["validations"].as_array().unwrap().iter();
    let broken = validations
        .filter(|it| judge(&it["expression"], &variables) != CelValue::Bool(true))
        .map(|it| it["message"].as_str().unwrap().to_owned());
    broken.collect()
}

/// Why the policy for events refuses the creation of an event; empty if it accepts it.
fn created(event: &Value) -> Vec<String> {
    let namespace = event["metadata"]["namespace"].as_str().unwrap();
    refusals(
        EVENT_POLICY,
        &request("CREATE", namespace),
        event,
        &json!(null),
    )
}

/// Why the policy for events refuses a change of an event; empty if it accepts it.
fn changed(old: &Value, new: &Value) -> Vec<String> {
    let namespace = old["metadata"]["namespace"].as_str().unwrap();
    refusals(EVENT_POLICY, &request("UPDATE", namespace), new, old)
}

fn event(regarding: Value, related: Value) -> Value {
    let namespace = regarding.get("namespace").cloned();
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "it.1", "namespace": namespace.unwrap_or("default".into())},
        "type": "Warning",
        "reason": "ContainerStuck",
        "note": "it hangs",
        "regarding": regarding,
        "related": related,
        "reportingController": "pleg.dev/agent",
        "reportingInstance": "node-1",
    })
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": name})
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web"})
}

/// `value` with one field replaced.
fn with(value: &Value, pointer: &str, other: Value) -> Value {
    let mut value = value.clone();
    *value.pointer_mut(pointer).unwrap() = other;
    value
}

fn report(stuck: Value, state: &str, reason: &str) -> StatusReport {
    let report = json!({
        "health": {"state": state, "reason": reason, "since": "2026-11-22T20:00:00Z",
            "message": "so it is", "lastSeen": null, "ageSeconds": null, "thresholdSeconds": 180.0},
        "kubeletView": {"ready": true, "message": "", "notReadyInSeconds": null},
        "relist": {"mode": "generic", "count": 1, "periodSeconds": 1.0, "lastDurationSeconds": null,
            "lastKind": null, "lastFailure": null, "sweeping": false},
        "stuck": stuck, "failing": [], "blind": [], "inFlight": [],
        "stream": {"state": "off", "events": 0, "missed": 0, "reconnects": 0},
        "kernel": {"state": "off", "watched": 0, "why": null},
        "runtime": {"name": null, "version": null, "apiVersion": null, "endpoint": "unix:///x"},
        "pods": 1, "containers": {},
    });
    serde_json::from_value(report).unwrap()
}

#[tokio::test]
async fn the_events_that_an_agent_writes_are_accepted_and_so_are_their_series() {
    let double = Double::start().await;
    let config = KubernetesConfig {
        node_name: Some("node-1".to_owned()),
        kubeconfig: Some(double.kubeconfig()),
        agents: 1,
        ..KubernetesConfig::default()
    };
    let figures = Figures::register(&Registry::new()).unwrap();
    let reporter = start(config, figures, system_clock()).unwrap();
    let call = json!({"call": "ContainerStatus", "id": "abc", "container": "app",
        "sinceSeconds": 12.3, "pod": {"uid": "uid", "namespace": "shop", "name": "web-1"}});
    let mut first = Vec::new();
    for _ in 0..2 {
        reporter.report(report(json!([call]), "Degraded", "ContainerStuck"));
        sleep(Duration::from_millis(300)).await;
        reporter.report(report(json!([]), "Healthy", "AllSeen"));
        sleep(Duration::from_millis(300)).await;
        if first.is_empty() {
            until("four events", || double.events().len() == 4).await;
            first = double.events();
        }
    }
    until("series", || {
        double.events().iter().all(|it| it.get("series").is_some())
    })
    .await;
    for event in &first {
        assert_eq!(created(event), Vec::<String>::new(), "{event}");
    }
    for (old, new) in first.iter().zip(double.events()) {
        assert_eq!(changed(old, &new), Vec::<String>::new(), "{new}");
    }
}

#[test]
fn an_event_of_or_about_another_node_is_refused() {
    let of_node = event(node("node-1"), json!({}));
    let of_pod = event(pod(), node("node-1"));
    assert_eq!(created(&of_node), Vec::<String>::new());
    assert_eq!(created(&of_pod), Vec::<String>::new());
    let (name, about) = (
        "in the name of the node",
        "only about its Node, and about pods",
    );
    for (event, why) in [
        (with(&of_pod, "/reportingInstance", "node-2".into()), name),
        (with(&of_pod, "/reportingInstance", "".into()), name),
        (
            with(&of_pod, "/reportingController", "kubelet".into()),
            name,
        ),
        (with(&of_node, "/regarding/name", "node-2".into()), about),
        (
            with(&of_node, "/metadata/namespace", "kube-system".into()),
            about,
        ),
        (
            with(&of_pod, "/metadata/namespace", "kube-system".into()),
            about,
        ),
        (with(&of_pod, "/regarding/kind", "Secret".into()), about),
        (with(&of_pod, "/regarding/kind", "Node".into()), about),
        (
            with(&of_pod, "/regarding/apiVersion", "evil/v1".into()),
            about,
        ),
        (with(&of_pod, "/related", json!({})), about),
        (with(&of_pod, "/related/name", "node-2".into()), about),
        (json!({"metadata": {"namespace": "default"}}), about),
    ] {
        let refusals = created(&event);
        let is_said = refusals.iter().any(|message| message.contains(why));
        assert!(is_said, "{event}: {refusals:?}");
    }
}

#[test]
fn only_the_series_of_own_events_can_be_changed() {
    let ours = event(pod(), node("node-1"));
    let mut series = ours.clone();
    series["series"] = json!({"count": 2, "lastObservedTime": "2026-11-22T20:00:00.000000Z"});
    series["metadata"]["resourceVersion"] = "8".into();
    series["metadata"]["managedFields"] = json!([{"manager": "pleg"}]);
    assert_eq!(changed(&ours, &series), Vec::<String>::new());
    let mut labelled = series.clone();
    labelled["metadata"]["labels"] = json!({"x": "y"});
    let theirs = with(&ours, "/reportingInstance", "node-2".into());
    for (old, new) in [
        (&ours, &with(&ours, "/note", "another".into())),
        (&ours, &with(&ours, "/type", "Normal".into())),
        (&ours, &labelled),
        (&labelled, &ours),
        (&theirs, &theirs),
        (&theirs, &ours),
    ] {
        assert_ne!(changed(old, new), Vec::<String>::new(), "{old} {new}");
    }
    let delete = request("DELETE", "shop");
    let refusals = refusals(EVENT_POLICY, &delete, &json!(null), &ours);
    assert!(refusals.contains(&"an agent deletes no event".to_owned()));
}

#[test]
fn a_token_without_the_name_of_one_node_changes_nothing_and_others_are_not_affected() {
    let event = event(node("node-1"), json!({}));
    let mut request = request("CREATE", "default");
    for extra in [
        json!({}),
        json!({NODE_NAME: []}),
        json!({NODE_NAME: ["node-2"]}),
        json!({NODE_NAME: ["node-1", "node-2"]}),
    ] {
        request["userInfo"]["extra"] = extra;
        let refusals = refusals(EVENT_POLICY, &request, &event, &json!(null));
        assert_ne!(refusals, Vec::<String>::new(), "{request}");
    }
    request["userInfo"] = json!({"username": AGENT});
    let without_extra = refusals(EVENT_POLICY, &request, &event, &json!(null));
    assert_ne!(without_extra, Vec::<String>::new());
    request["userInfo"] = json!({"username": "system:node:node-1"});
    let of_kubelet = refusals(EVENT_POLICY, &request, &event, &json!(null));
    assert_eq!(of_kubelet, Vec::<String>::new());
}

#[test]
fn a_long_node_name_is_shortened_as_by_the_agent() {
    let name = format!("{}.{}", "a".repeat(63), "b".repeat(150));
    let mut event = event(node(&name), json!({}));
    event["reportingInstance"] = name[..128].into();
    let mut request = request("CREATE", "default");
    request["userInfo"]["extra"][NODE_NAME] = json!([name]);
    let refused = |event: &Value| refusals(EVENT_POLICY, &request, event, &json!(null));
    assert_eq!(refused(&event), Vec::<String>::new());
    event["reportingInstance"] = name[..127].into();
    assert_ne!(refused(&event), Vec::<String>::new());
}

#[test]
fn an_agent_changes_its_condition_only_on_its_own_node() {
    let node = |name: &str| {
        json!({
            "metadata": {"name": name, "labels": {"a": "b"}},
            "spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    };
    let with_condition = |name: &str, kind: &str| {
        let mut node = node(name);
        let ours = json!({"type": kind, "status": "False"});
        node["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(ours);
        node
    };
    let mut request = request("UPDATE", "");
    request["subResource"] = "status".into();
    let refused = |new: &Value, old: &Value| refusals(NODE_POLICY, &request, new, old);
    let own = with_condition("node-1", "PLEGUnhealthy");
    assert_eq!(refused(&own, &node("node-1")), Vec::<String>::new());
    for (new, old) in [
        (with_condition("node-2", "PLEGUnhealthy"), node("node-2")),
        (with_condition("node-1", "Other"), node("node-1")),
        (with(&own, "/metadata/labels/a", "c".into()), node("node-1")),
        (with(&own, "/spec/taints", json!([])), node("node-1")),
    ] {
        assert_ne!(refused(&new, &old), Vec::<String>::new(), "{new}");
    }
}
