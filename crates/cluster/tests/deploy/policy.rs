//! The admission policy, evaluated by a real API server (1.30 or later): `PLEG_TEST_KUBECONFIG` is
//! the kubeconfig of an administrator. The server needs no nodes and no controllers. Without it
//! these tests print that they are left out.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::files::{documents, text};

const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const OWN: &str = "pleg-test-own";
const OTHER: &str = "pleg-test-other";
const REFUSED: &str = "ValidatingAdmissionPolicy 'pleg-agent'";

async fn ask(client: &Client, method: &str, path: &str, kind: &str, body: Value) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind);
    let request = request
        .body(Body::from(body.to_string().into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// The path of an object.
fn path(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap();
    let (group, plural) = match object["kind"].as_str().unwrap() {
        "Namespace" => ("/api/v1", "namespaces"),
        "Node" => ("/api/v1", "nodes"),
        "ServiceAccount" => ("/api/v1/namespaces/pleg", "serviceaccounts"),
        "Pod" => ("/api/v1/namespaces/pleg", "pods"),
        "ClusterRole" => ("/apis/rbac.authorization.k8s.io/v1", "clusterroles"),
        "ClusterRoleBinding" => ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
        "ValidatingAdmissionPolicy" => (
            "/apis/admissionregistration.k8s.io/v1",
            "validatingadmissionpolicies",
        ),
        "ValidatingAdmissionPolicyBinding" => (
            "/apis/admissionregistration.k8s.io/v1",
            "validatingadmissionpolicybindings",
        ),
        other => panic!("{other}"),
    };
    format!("{group}/{plural}/{name}")
}

/// A cluster with two Nodes, the agent's account, the policy, and a pod of that account on one
/// Node.
struct Cluster {
    admin: Client,
    agent: Client,
    objects: Vec<Value>,
}

impl Cluster {
    async fn make(with_taint: bool) -> Option<Self> {
        let Some(file) = std::env::var_os("PLEG_TEST_KUBECONFIG") else {
            let why = "LEFT OUT: the admission policy on a real API server: PLEG_TEST_KUBECONFIG \
                       names none";
            let _ = writeln!(std::io::stderr(), "{why}");
            return None;
        };
        let file = Kubeconfig::read_from(Path::new(&file)).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(file, &options)
            .await
            .unwrap();
        let admin = Client::try_from(config.clone()).unwrap();
        let mark = format!("{:x}", fastrand::u64(..));
        let objects = objects(with_taint, &mark);
        // Delete the objects of a failed run.
        delete(&admin, &objects).await;
        for object in &objects {
            let url = format!("{}?fieldManager=test&force=true", path(object));
            let (status, answer) = ask(&admin, "PATCH", &url, APPLY, object.clone()).await;
            assert!(status < 300, "{url}: {answer}");
        }
        let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": "pleg-test"});
        let wanted = json!({"spec": {"boundObjectRef": bound}});
        let url = "/api/v1/namespaces/pleg/serviceaccounts/pleg-agent/token";
        let (_, answer) = ask(&admin, "POST", url, "application/json", wanted).await;
        let token = json!({"token": answer["status"]["token"]});
        config.auth_info = serde_json::from_value(token).unwrap();
        let agent = Client::try_from(config).unwrap();
        let cluster = Self {
            admin,
            agent,
            objects,
        };
        cluster.until_the_policy_is_in_force(&mark).await;
        Some(cluster)
    }

    /// Waits until the policy is in force: the server reads its policies from time to time, and
    /// uses the old ones until then.
    async fn until_the_policy_is_in_force(&self, mark: &str) {
        for _ in 0..100 {
            let labels = json!({"metadata": {"labels": {"x": "y"}}});
            let url = format!("/api/v1/nodes/{OWN}/status?dryRun=All");
            let (_, answer) = ask(&self.agent, "PATCH", &url, MERGE, labels).await;
            if answer["message"]
                .as_str()
                .unwrap_or_default()
                .contains(mark)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the policy is not in force");
    }

    async fn patch(&self, path: &str, kind: &str, body: Value) -> Result<(), String> {
        let url = format!("/api/v1/nodes/{path}?fieldManager=pleg&force=true");
        let url = if kind == APPLY {
            url
        } else {
            url.replace("&force=true", "")
        };
        match ask(&self.agent, "PATCH", &url, kind, body).await {
            (..300, _) => Ok(()),
            (_, answer) => Err(answer["message"].as_str().unwrap().to_owned()),
        }
    }

    async fn allowed(&self, path: &str, kind: &str, body: Value) {
        let answer = self.patch(path, kind, body.clone()).await;
        assert_eq!(answer, Ok(()), "{path} {body}");
    }

    async fn refused(&self, path: &str, kind: &str, body: Value, why: &str) {
        let refusal = self.patch(path, kind, body.clone()).await.unwrap_err();
        assert!(
            refusal.contains(REFUSED) && refusal.contains(why),
            "{path} {body}: {refusal}"
        );
    }
}

async fn delete(admin: &Client, objects: &[Value]) {
    for object in objects.iter().rev() {
        let now = json!({"gracePeriodSeconds": 0});
        ask(admin, "DELETE", &path(object), "application/json", now).await;
    }
    // Without a controller, a namespace must be ended here.
    let mut namespace = objects[0].clone();
    namespace["spec"] = json!({"finalizers": []});
    let url = "/api/v1/namespaces/pleg/finalize";
    ask(admin, "PUT", url, "application/json", namespace).await;
}

fn objects(with_taint: bool, mark: &str) -> Vec<Value> {
    let mut files = vec![
        "base/namespace.yaml",
        "base/service-account.yaml",
        "base/rbac.yaml",
        "base/admission-policy.yaml",
        // Only the right: without the permission in the policy it has no effect.
        "components/taint/rbac.yaml",
    ];
    let mut objects: Vec<Value> = files
        .drain(..)
        .flat_map(|file| documents(&text(&format!("kubernetes/{file}"))))
        .collect();
    let mut policies = objects.iter_mut();
    let policy = policies
        .find(|it| it["kind"] == "ValidatingAdmissionPolicy")
        .unwrap();
    let validations = policy["spec"]["validations"].as_array_mut().unwrap();
    let message = &mut validations.last_mut().unwrap()["message"];
    *message = format!("{} ({mark})", message.as_str().unwrap()).into();
    if with_taint {
        policy["spec"]["variables"][1]["expression"] = "['plegnothealthy']".into();
    }
    for node in [OWN, OTHER] {
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node, "annotations": {"a": "b"}, "labels": {"a": "b"}},
            "spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]},
        }));
    }
    objects.push(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pleg-test", "namespace": "pleg"},
        "spec": {
            "serviceAccountName": "pleg-agent",
            "nodeName": OWN,
            "containers": [{"name": "agent", "image": "pleg:0.1.0"}],
        },
    }));
    objects
}

fn condition(node: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node},
        "status": {"conditions": [{"type": kind, "status": "False", "reason": "AllSeen"}]},
    })
}

async fn check(with_taint: bool) -> bool {
    let Some(cluster) = Cluster::make(with_taint).await else {
        return false;
    };
    let own = format!("{OWN}/status");
    cluster
        .allowed(&own, APPLY, condition(OWN, "PLEGUnhealthy"))
        .await;
    let other = format!("{OTHER}/status");
    let foreign = condition(OTHER, "PLEGUnhealthy");
    cluster
        .refused(&other, APPLY, foreign, "only the Node that its pod runs on")
        .await;
    cluster
        .refused(
            &own,
            APPLY,
            condition(OWN, "Ready"),
            "only its own conditions",
        )
        .await;
    let summary = json!({"metadata": {"annotations": {"pleg.dev/status": "{}"}}});
    cluster.allowed(&own, MERGE, summary).await;
    for (body, why) in [
        (
            json!({"status": {"capacity": {"cpu": "9"}}}),
            "nothing in the status but",
        ),
        (
            json!({"status": {"volumesInUse": ["x"]}}),
            "nothing in the status but",
        ),
        (json!({"metadata": {"labels": {"x": "y"}}}), "no labels"),
        (json!({"metadata": {"labels": null}}), "no labels"),
        (json!({"metadata": {"finalizers": ["a/b"]}}), "no labels"),
        (
            json!({"metadata": {"annotations": null}}),
            "no annotation but",
        ),
        (
            json!({"metadata": {"annotations": {"pleg.dev/taint": "x"}}}),
            "no annotation but",
        ),
    ] {
        cluster.refused(&own, MERGE, body, why).await;
    }

    let (_, node) = ask(
        &cluster.admin,
        "GET",
        &format!("/api/v1/nodes/{OWN}"),
        "",
        json!(null),
    )
    .await;
    let had = node["spec"]["taints"].clone();
    let with = |taint: Value| {
        let mut all = had.as_array().unwrap().clone();
        all.push(taint);
        json!({"op": "replace", "path": "/spec/taints", "value": all})
    };
    let ours = json!({"key": "plegnothealthy", "value": "true", "effect": "NoSchedule"});
    let mark = json!({"op": "add", "path": "/metadata/annotations/pleg.dev~1taint", "value": "x"});
    let set = json!([with(ours.clone()), mark]);
    let step =
        |op: &str, path: &str, value: Value| json!([{"op": op, "path": path, "value": value}]);
    let mut foreign = vec![
        json!([with(json!({"key": "another", "effect": "NoExecute"}))]),
        json!([with(
            json!({"key": "plegnothealthy", "effect": "NoExecute"})
        )]),
        step("replace", "/spec/taints", json!([ours])),
        step("remove", "/spec/taints", json!(null)),
        step("add", "/spec/unschedulable", json!(true)),
        step("add", "/metadata/labels/x", json!("y")),
        step("add", "/metadata/annotations/x", json!("y")),
        step("remove", "/metadata/annotations/a", json!(null)),
    ];
    if with_taint {
        cluster.allowed(OWN, JSON_PATCH, set.clone()).await;
        let unset = step("replace", "/spec/taints", had.clone());
        cluster.allowed(OWN, JSON_PATCH, unset).await;
        cluster
            .refused(OTHER, JSON_PATCH, set, "only the Node that its pod runs on")
            .await;
    } else {
        foreign.push(set);
    }
    for body in foreign {
        cluster
            .refused(OWN, JSON_PATCH, body, "an agent changes")
            .await;
    }
    check_events(&cluster).await;
    let removal = json!({"type": "PLEGUnhealthy", "$patch": "delete"});
    let removal = json!({"metadata": {"annotations": {"pleg.dev/status": null}},
                      "status": {"conditions": [removal]}});
    let form = "application/strategic-merge-patch+json";
    cluster.allowed(&own, form, removal).await;
    delete(&cluster.admin, &cluster.objects).await;
    true
}

/// An event about a pod, as the agent on this node writes it.
fn event(node: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "pleg-test.1", "namespace": "pleg"},
        "eventTime": "2026-11-22T20:00:00.000000Z",
        "type": "Warning",
        "reason": "ContainerStuck",
        "action": "Relist",
        "note": "it hangs",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "pleg", "name": "pleg-test"},
        "related": {"apiVersion": "v1", "kind": "Node", "name": node},
        "reportingController": "pleg.dev/agent",
        "reportingInstance": node,
    })
}

/// Writes an event. Returns the HTTP status, and whether the policy for events refused the write.
async fn write_event(cluster: &Cluster, method: &str, url: &str, body: Value) -> (u16, bool) {
    let kind = if method == "PATCH" {
        MERGE
    } else {
        "application/json"
    };
    let (status, answer) = ask(&cluster.agent, method, url, kind, body).await;
    let message = answer["message"].as_str().unwrap_or_default();
    (status, message.contains("'pleg-agent-events'"))
}

async fn check_events(cluster: &Cluster) {
    const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/pleg/events";
    // This policy may come into force later than the other one.
    let mut is_refused = false;
    for _ in 0..100 {
        let url = format!("{EVENTS}?dryRun=All");
        (_, is_refused) = write_event(cluster, "POST", &url, event(OTHER)).await;
        if is_refused {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(is_refused, "the policy for events is not in force");
    let of_ours = format!("{EVENTS}/pleg-test.1");
    let json = "application/json";
    ask(&cluster.admin, "DELETE", &of_ours, json, json!({})).await;
    let created = write_event(cluster, "POST", EVENTS, event(OWN)).await;
    assert_eq!(created, (201, false));
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-11-22T20:01:00.000000Z"}});
    let patched = write_event(cluster, "PATCH", &of_ours, series).await;
    assert_eq!(patched, (200, false));
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    let (status, is_refused) = write_event(cluster, "PATCH", &of_ours, labels).await;
    assert!(status >= 400 && is_refused, "{status}");
    ask(&cluster.admin, "DELETE", &of_ours, json, json!({})).await;
}

#[tokio::test]
async fn an_agent_changes_only_its_own_conditions_and_its_taint_where_allowed() {
    if check(false).await {
        check(true).await;
    }
}
