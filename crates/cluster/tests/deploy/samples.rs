//! Samples for other programs: their kinds have no types here, so each field is compared with the
//! names in their published schemas.

use std::collections::BTreeSet;

use cluster::KubernetesConfig;
use serde_json::{Value, json};

use crate::files::{documents, text};

/// Every field below `value`, as `a.b[].c`.
fn fields(value: &Value) -> BTreeSet<String> {
    fn add(path: &str, value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    add(&format!("{path}.{key}"), value, found);
                }
            }
            Value::Array(items) => {
                for item in items {
                    add(&format!("{path}[]"), item, found);
                }
            }
            _ => drop(found.insert(path.trim_start_matches('.').to_owned())),
        }
    }
    let mut found = BTreeSet::new();
    add("", value, &mut found);
    found
}

/// The only document of a file, which must have this kind and only these fields.
fn sample(file: &str, version: &str, kind: &str, known: &[&str]) -> Value {
    let document = documents(&text(file)).remove(0);
    assert_eq!(document["apiVersion"], version);
    assert_eq!(document["kind"], kind);
    let known: BTreeSet<&str> = known.iter().copied().collect();
    for field in fields(&document["spec"]) {
        assert!(known.contains(&*field), "{kind} has no field {field}");
    }
    document["spec"].clone()
}

fn condition() -> String {
    KubernetesConfig::default().condition
}

#[test]
fn a_node_readiness_rule_requires_the_condition_to_be_false() {
    let spec = sample(
        "samples/node-readiness-rule.yaml",
        "readiness.node.x-k8s.io/v1alpha1",
        "NodeReadinessRule",
        &[
            "conditions[].type",
            "conditions[].requiredStatus",
            "enforcementMode",
            "nodeSelector.matchLabels.kubernetes.io/os",
            "taint.key",
            "taint.value",
            "taint.effect",
        ],
    );
    assert_eq!(spec["conditions"][0]["type"], condition());
    assert_eq!(spec["conditions"][0]["requiredStatus"], "False");
    assert_eq!(spec["enforcementMode"], "continuous");
    assert_eq!(spec["taint"]["effect"], "NoSchedule");
    let key = spec["taint"]["key"].as_str().unwrap();
    assert!(
        key.starts_with("readiness.k8s.io/"),
        "the controller accepts no other"
    );
}

#[test]
fn the_constraints_for_openshift_have_only_fields_of_their_schema() {
    let file = "kubernetes/components/openshift/security-context-constraints.yaml";
    let constraints = documents(&text(file)).remove(0);
    assert_eq!(constraints["apiVersion"], "security.openshift.io/v1");
    assert_eq!(constraints["kind"], "SecurityContextConstraints");
    // openshift/api, security/v1/types.go.
    let known = [
        "apiVersion",
        "kind",
        "metadata.name",
        "users[]",
        "groups",
        "allowHostDirVolumePlugin",
        "allowHostIPC",
        "allowHostNetwork",
        "allowHostPID",
        "allowHostPorts",
        "allowPrivilegeEscalation",
        "allowPrivilegedContainer",
        "allowedCapabilities",
        "defaultAddCapabilities",
        "requiredDropCapabilities[]",
        "readOnlyRootFilesystem",
        "runAsUser.type",
        "runAsUser.uid",
        "seLinuxContext.type",
        "fsGroup.type",
        "supplementalGroups.type",
        "seccompProfiles[]",
        "volumes[]",
    ];
    for field in fields(&constraints) {
        assert!(known.contains(&&*field), "there is no field {field}");
    }
}

#[test]
fn health_checks_act_only_on_true() {
    let spec = sample(
        "samples/node-health-check.yaml",
        "remediation.medik8s.io/v1alpha1",
        "NodeHealthCheck",
        &[
            "selector.matchExpressions[].key",
            "selector.matchExpressions[].operator",
            "unhealthyConditions[].type",
            "unhealthyConditions[].status",
            "unhealthyConditions[].duration",
            "minHealthy",
            "remediationTemplate.apiVersion",
            "remediationTemplate.kind",
            "remediationTemplate.namespace",
            "remediationTemplate.name",
        ],
    );
    let ours = |list: &Value| {
        let mut all = list.as_array().unwrap().iter();
        all.find(|it| it["type"] == condition()).unwrap().clone()
    };
    assert_eq!(ours(&spec["unhealthyConditions"])["status"], "True");

    let spec = sample(
        "samples/machine-health-check.yaml",
        "cluster.x-k8s.io/v1beta2",
        "MachineHealthCheck",
        &[
            "clusterName",
            "selector.matchLabels.cluster.x-k8s.io/deployment-name",
            "checks.unhealthyNodeConditions[].type",
            "checks.unhealthyNodeConditions[].status",
            "checks.unhealthyNodeConditions[].timeoutSeconds",
            "remediation.triggerIf.unhealthyLessThanOrEqualTo",
        ],
    );
    let check = ours(&spec["checks"]["unhealthyNodeConditions"]);
    assert_eq!(check["status"], "True");
    assert!(check["timeoutSeconds"].is_u64());
}

#[test]
fn the_pod_monitor_scrapes_the_port_that_the_metrics_overlay_opens() {
    let monitor = sample(
        "kubernetes/components/metrics/podmonitor.yaml",
        "monitoring.coreos.com/v1",
        "PodMonitor",
        &[
            "selector.matchLabels.app.kubernetes.io/name",
            "selector.matchLabels.app.kubernetes.io/component",
            "podMetricsEndpoints[].port",
            "podMetricsEndpoints[].path",
            "podMetricsEndpoints[].interval",
            "podMetricsEndpoints[].relabelings[].sourceLabels[]",
            "podMetricsEndpoints[].relabelings[].targetLabel",
            "podMetricsEndpoints[].relabelings[].replacement",
        ],
    );
    let set = documents(&text("kubernetes/base/daemonset.yaml")).remove(0);
    assert_eq!(monitor["selector"], set["spec"]["selector"]);
    let patch = documents(&text("kubernetes/components/metrics/daemonset.yaml")).remove(0);
    let port = &patch["spec"]["template"]["spec"]["containers"][0]["ports"][0];
    let mut jobs = Vec::new();
    for endpoint in monitor["podMetricsEndpoints"].as_array().unwrap() {
        assert_eq!(endpoint["port"], port["name"]);
        let [job, instance] = &endpoint["relabelings"].as_array().unwrap()[..] else {
            panic!("{endpoint}");
        };
        assert_eq!(
            (&job["targetLabel"], &instance["targetLabel"]),
            (&json!("job"), &json!("instance"))
        );
        jobs.push(&job["replacement"]);
    }
    assert_eq!(jobs, ["pleg", "pleg-kubelet"], "as the alerts select them");
}

#[test]
fn the_plugin_of_k9s_passes_the_nodes_name_as_an_argument() {
    let plugins = documents(&text("k9s/plugins.yaml")).remove(0);
    let plugin = plugins["plugins"]["pleg"].as_object().unwrap();
    let known = [
        "shortCut",
        "description",
        "scopes",
        "command",
        "background",
        "args",
    ];
    assert!(plugin.keys().all(|key| known.contains(&&**key)));
    assert_eq!(plugin["scopes"], json!(["nodes"]));
    let args = plugin["args"].as_array().unwrap();
    let script = args[1].as_str().unwrap();
    assert!(script.contains("pleg \"$1\"") && !script.contains("$NAME"));
    assert!(args[3..].contains(&"$NAME".into()));
}
