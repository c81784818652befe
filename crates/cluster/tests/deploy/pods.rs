//! The pods of the agent: what they may do and mount, and what admits them.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceQuota};
use serde_json::json;

use crate::files::{Objects, base, documents, read, text};

pub fn pod(objects: &Objects) -> (PodSpec, Container) {
    let set: DaemonSet = read(&objects["DaemonSet pleg-agent"]);
    let spec = set.spec.unwrap();
    let labels = spec.template.metadata.unwrap().labels;
    assert_eq!(spec.selector.match_labels, labels, "its own pods");
    let pod = spec.template.spec.unwrap();
    assert_eq!(pod.containers.len(), 1);
    let container = pod.containers[0].clone();
    (pod, container)
}

/// Each mounted host path, and whether it is writable.
pub fn host_paths(objects: &Objects) -> BTreeSet<(String, bool)> {
    let (pod, container) = pod(objects);
    let mounts = container.volume_mounts.unwrap();
    let volumes = pod.volumes.unwrap();
    assert_eq!(mounts.len(), volumes.len());
    let paths = volumes.into_iter().filter_map(|volume| {
        let path = volume.host_path?.path;
        let mount = mounts
            .iter()
            .find(|mount| mount.name == volume.name)
            .unwrap();
        assert_eq!(mount.mount_path, path);
        Some((path, mount.read_only != Some(true)))
    });
    paths.collect()
}

pub fn check_privileges(objects: &Objects) {
    let (pod, container) = pod(objects);
    let of_container = serde_json::to_value(container.security_context).unwrap();
    let expected = json!({
        "privileged": false,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "runAsUser": 0,
        "runAsGroup": 0,
        "runAsNonRoot": false,
        "capabilities": {"drop": ["ALL"]},
    });
    assert_eq!(of_container, expected);
    let of_pod = pod.security_context.unwrap();
    assert_eq!(of_pod.seccomp_profile.unwrap().type_, "RuntimeDefault");
    assert_eq!(pod.host_ipc, None);
    assert!(pod.init_containers.is_none());
    let writable = host_paths(objects)
        .into_iter()
        .filter(|(_, writable)| *writable);
    let writable: Vec<String> = writable.map(|(path, _)| path).collect();
    assert_eq!(writable, ["/run/pleg", "/var/lib/pleg"]);
}

#[test]
fn the_quota_for_gke_allows_the_priority_class_of_the_pods() {
    let quota = documents(&text("kubernetes/components/gke/resource-quota.yaml")).remove(0);
    let quota: ResourceQuota = read(&quota);
    assert_eq!(quota.metadata.namespace.as_deref(), Some("pleg"));
    let spec = quota.spec.unwrap();
    let scope = spec.scope_selector.unwrap().match_expressions.unwrap();
    assert_eq!(scope.len(), 1);
    let (name, operator) = (&*scope[0].scope_name, &*scope[0].operator);
    assert_eq!((name, operator), ("PriorityClass", "In"));
    let class = pod(&base()).0.priority_class_name.unwrap();
    assert_eq!(scope[0].values, Some(vec![class]));
    assert!(spec.hard.unwrap().contains_key("pods"));
}

/// OpenShift's rule for admission (openshift/apiserver-library-go,
/// pkg/securitycontextconstraints/sccmatching/provider.go): each field that the pod sets must be
/// allowed, and no field that it does not set may be added.
#[test]
fn the_constraints_for_openshift_admit_the_pods_and_nothing_that_they_do_not_use() {
    let file = "kubernetes/components/openshift/security-context-constraints.yaml";
    let allowed = documents(&text(file)).remove(0);
    let agent = "system:serviceaccount:pleg:pleg-agent";
    assert_eq!(allowed["users"], json!([agent]));
    assert_eq!(allowed["groups"], json!([]));
    let (pod, container) = pod(&base());
    let context = container.security_context.unwrap();
    for (field, used) in [
        ("allowHostIPC", pod.host_ipc),
        ("allowHostNetwork", pod.host_network),
        ("allowHostPID", pod.host_pid),
        ("allowPrivilegedContainer", context.privileged),
        (
            "allowPrivilegeEscalation",
            context.allow_privilege_escalation,
        ),
        ("readOnlyRootFilesystem", context.read_only_root_filesystem),
    ] {
        assert_eq!(allowed[field], used.unwrap_or_default(), "{field}");
    }
    let user = json!({"type": "MustRunAs", "uid": context.run_as_user});
    assert_eq!(allowed["runAsUser"], user);
    let capabilities = context.capabilities.unwrap();
    assert_eq!(
        allowed["requiredDropCapabilities"],
        json!(capabilities.drop)
    );
    assert_eq!(capabilities.add, None);
    for field in ["allowedCapabilities", "defaultAddCapabilities"] {
        assert_eq!(allowed[field], json!([]), "{field}");
    }
    let seccomp = pod.security_context.unwrap().seccomp_profile.unwrap();
    assert_eq!(seccomp.type_, "RuntimeDefault");
    assert_eq!(allowed["seccompProfiles"], json!(["runtime/default"]));
    assert_eq!(allowed["seLinuxContext"]["type"], "RunAsAny");
    // The service account's token is added as a projected volume.
    let mut used = BTreeSet::from(["projected".to_owned()]);
    for volume in serde_json::to_value(pod.volumes)
        .unwrap()
        .as_array()
        .unwrap()
    {
        let kinds = volume.as_object().unwrap().keys();
        used.extend(kinds.filter(|key| *key != "name").cloned());
    }
    let volumes: BTreeSet<String> = serde_json::from_value(allowed["volumes"].clone()).unwrap();
    assert_eq!(volumes, used);
    assert_eq!(
        allowed["allowHostDirVolumePlugin"],
        used.contains("hostPath")
    );
}

#[test]
fn a_pod_starts_on_every_node_and_receives_the_nodes_name() {
    let (pod, container) = pod(&base());
    assert_eq!(
        pod.priority_class_name.as_deref(),
        Some("system-node-critical")
    );
    let tolerations = serde_json::to_value(pod.tolerations).unwrap();
    assert_eq!(tolerations, json!([{"operator": "Exists"}]));
    let env = serde_json::to_value(container.env).unwrap();
    let name =
        json!({"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}});
    assert_eq!(env[0], name);
    let resources = container.resources.unwrap();
    let limits = resources.limits.unwrap();
    assert!(limits.contains_key("memory") && !limits.contains_key("cpu"));
    let path = |probe: Option<k8s_openapi::api::core::v1::Probe>| {
        let get = probe.unwrap().http_get.unwrap();
        (get.host.unwrap(), get.path.unwrap())
    };
    let local = |path: &str| ("127.0.0.1".to_owned(), path.to_owned());
    assert_eq!(path(container.liveness_probe), local("/livez"));
    assert_eq!(path(container.readiness_probe), local("/readyz"));
}

#[test]
fn each_privilege_and_mount_has_its_reason_in_a_comment() {
    let text = text("kubernetes/base/daemonset.yaml");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let needs_reason = [
        "hostPID: true",
        "hostNetwork: true",
        "automountServiceAccountToken: true",
        "priorityClassName: system-node-critical",
        "tolerations:",
        "seLinuxOptions:",
        "runAsUser: 0",
        "- name: runtime",
        "- name: state",
        "- name: bundles",
        "livenessProbe:",
        "readinessProbe:",
        "requests:",
    ];
    for line in needs_reason {
        let at = lines.iter().position(|it| *it == line).unwrap();
        assert!(lines[at - 1].starts_with('#'), "{line} has no reason");
    }
}
