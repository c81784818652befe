//! The manifests are valid objects of Kubernetes, and grant only rights that are used.

use std::collections::BTreeSet;

use cluster::KubernetesConfig;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};

use crate::files::{Objects, base, documents, kustomized, read, text};
use crate::pods::{check_privileges, host_paths, pod};

/// The rights of each agent.
const RIGHTS: [&str; 4] = [
    "create events.k8s.io/events",
    "patch events.k8s.io/events",
    "patch /nodes/status",
    "watch /nodes",
];

/// The additional right for the taint.
const RIGHT_TO_TAINT: &str = "patch /nodes";

/// Each right as `verb group/resource`. All of them belong to the agent's service account.
fn rights(objects: &Objects) -> BTreeSet<String> {
    let mut rights = BTreeSet::new();
    for (name, document) in objects {
        let role: ClusterRole = match name.split_once(' ').unwrap() {
            ("ClusterRole", _) => read(document),
            _ => continue,
        };
        let binding = name.replace("ClusterRole ", "ClusterRoleBinding ");
        let binding: ClusterRoleBinding = read(&objects[&binding]);
        assert_eq!(Some(binding.role_ref.name), role.metadata.name);
        let subjects = serde_json::to_value(binding.subjects).unwrap();
        let agent = json!({"kind": "ServiceAccount", "name": "pleg-agent", "namespace": "pleg"});
        assert_eq!(subjects, json!([agent]));
        for rule in role.rules.unwrap() {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    let of = rule.verbs.iter();
                    rights.extend(of.map(|verb| format!("{verb} {group}/{resource}")));
                }
            }
        }
    }
    rights
}

/// Parses each object as its declared type.
fn read_all(objects: &Objects) {
    for (name, document) in objects {
        match document["kind"].as_str().unwrap() {
            "Namespace" => drop(read::<Namespace>(document)),
            "ServiceAccount" => drop(read::<ServiceAccount>(document)),
            "ClusterRole" => drop(read::<ClusterRole>(document)),
            "ClusterRoleBinding" => drop(read::<ClusterRoleBinding>(document)),
            "ConfigMap" => drop(read::<ConfigMap>(document)),
            "DaemonSet" => drop(read::<DaemonSet>(document)),
            "ValidatingAdmissionPolicy" => drop(read::<ValidatingAdmissionPolicy>(document)),
            "ValidatingAdmissionPolicyBinding" => {
                drop(read::<ValidatingAdmissionPolicyBinding>(document));
            }
            "ResourceQuota" => drop(read::<ResourceQuota>(document)),
            // samples.rs reads them.
            "PodMonitor" | "SecurityContextConstraints" => {}
            _ => panic!("{name} is of an unknown kind"),
        }
    }
}

/// The agent's configuration.
fn config(objects: &Objects) -> KubernetesConfig {
    let map: ConfigMap = read(&objects["ConfigMap pleg-agent"]);
    let file = &map.data.unwrap()["config.yaml"];
    let keys: Value = serde_saphyr::from_str(file).unwrap();
    let all: Vec<_> = keys.as_object().unwrap().keys().collect();
    assert_eq!(all, ["diagnosis", "kubernetes"]);
    assert_eq!(
        keys["diagnosis"],
        json!({}),
        "in the folder that is mounted"
    );
    let config: KubernetesConfig = serde_json::from_value(keys["kubernetes"].clone()).unwrap();
    config.check().unwrap();
    config
}

fn variable(policy: &ValidatingAdmissionPolicy, name: &str) -> String {
    let mut variables = policy.spec.as_ref().unwrap().variables.iter().flatten();
    variables
        .find(|it| it.name == name)
        .unwrap()
        .expression
        .clone()
}

/// The policy allows what the agent is configured to write, and concerns no other account.
fn check_policy(objects: &Objects) {
    let policy: ValidatingAdmissionPolicy = read(&objects["ValidatingAdmissionPolicy pleg-agent"]);
    let config = config(objects);
    assert_eq!(
        variable(&policy, "conditions"),
        format!("['{}']", config.condition)
    );
    let keys = match config.taint.is_empty() {
        true => "[]".to_owned(),
        false => format!("['{}']", config.taint_key),
    };
    assert_eq!(variable(&policy, "taintKeys"), keys);
    for name in POLICIES {
        let policy = &objects[&format!("ValidatingAdmissionPolicy {name}")];
        let policy: ValidatingAdmissionPolicy = read(policy);
        let spec = policy.spec.unwrap();
        assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
        let about = spec.match_conditions.unwrap();
        assert_eq!(about.len(), 1);
        let agent = "request.userInfo.username == 'system:serviceaccount:pleg:pleg-agent'";
        assert_eq!(about[0].expression, agent);
        for validation in spec.validations.unwrap() {
            assert!(validation.message.is_some(), "a refusal says why");
        }
        let binding = &objects[&format!("ValidatingAdmissionPolicyBinding {name}")];
        let binding: ValidatingAdmissionPolicyBinding = read(binding);
        let binding = binding.spec.unwrap();
        assert_eq!(binding.policy_name.as_deref(), Some(name));
        assert_eq!(binding.validation_actions.unwrap(), ["Deny"]);
    }
}

/// The policies for each resource that an agent may change.
const POLICIES: [&str; 2] = ["pleg-agent", "pleg-agent-events"];

/// Each right to change something is limited by a policy.
fn check_limits(objects: &Objects) {
    let mut limited = BTreeSet::new();
    for name in POLICIES {
        let spec = &objects[&format!("ValidatingAdmissionPolicy {name}")]["spec"];
        for rule in spec["matchConstraints"]["resourceRules"]
            .as_array()
            .unwrap()
        {
            for resource in rule["resources"].as_array().unwrap() {
                let group = rule["apiGroups"][0].as_str().unwrap();
                limited.insert(format!("{group}/{}", resource.as_str().unwrap()));
            }
        }
    }
    for right in rights(objects) {
        let (verb, resource) = right.split_once(' ').unwrap();
        let parent = resource.trim_end_matches("/status");
        let is_limited = limited.contains(resource) || limited.contains(&format!("{parent}/*"));
        assert!(is_limited || verb == "watch", "{right}: {limited:?}");
    }
}

fn check_rights(objects: &Objects) {
    let mut expected: BTreeSet<String> = RIGHTS.map(str::to_owned).into();
    if !config(objects).taint.is_empty() {
        expected.insert(RIGHT_TO_TAINT.to_owned());
    }
    assert_eq!(rights(objects), expected);
}

#[test]
fn an_agent_has_exactly_the_rights_that_it_uses() {
    let objects = base();
    read_all(&objects);
    check_rights(&objects);
    check_privileges(&objects);
    let expected = [
        ("/run/containerd", false),
        ("/run/pleg", true),
        ("/var/lib/pleg", true),
    ];
    let expected = expected.map(|(path, writable)| (path.to_owned(), writable));
    assert_eq!(host_paths(&objects), expected.into());
    assert_eq!(config(&objects).taint, []);
}

#[test]
fn the_taint_overlay_adds_only_the_right_that_it_needs() {
    let role = documents(&text("kubernetes/components/taint/rbac.yaml"));
    let expected = [RIGHT_TO_TAINT.to_owned()];
    assert_eq!(rights(&crate::files::by_name(role)), expected.into());
}

#[test]
fn the_policies_apply_only_to_the_agent_and_fail_closed() {
    let objects = base();
    check_policy(&objects);
    check_limits(&objects);
}

#[test]
fn each_overlay_has_its_effect() {
    let Some(made) = kustomized("base") else {
        return;
    };
    assert_eq!(made, base());
    let overlays = [
        "all",
        "crio",
        "gke",
        "metrics",
        "openshift",
        "taint",
        "without-admission-policy",
    ];
    for overlay in overlays {
        let objects = kustomized(&format!("overlays/{overlay}")).unwrap();
        read_all(&objects);
        check_rights(&objects);
        check_privileges(&objects);
        let has = |what: &str| overlay == what || overlay == "all";
        assert_eq!(!config(&objects).taint.is_empty(), has("taint"));
        assert_eq!(
            objects.contains_key("PodMonitor pleg-agent"),
            has("metrics")
        );
        let ports = pod(&objects).1.ports.unwrap_or_default();
        assert_eq!(
            ports.len(),
            usize::from(has("metrics")),
            "no other port is opened"
        );
        if overlay == "without-admission-policy" {
            let has_none = objects.keys().all(|name| !name.contains("AdmissionPolicy"));
            assert!(has_none);
        } else {
            check_policy(&objects);
            check_limits(&objects);
        }
        for (kind, of) in [
            ("ResourceQuota", "gke"),
            ("SecurityContextConstraints", "openshift"),
        ] {
            let name = format!("{kind} pleg-agent");
            assert_eq!(objects.contains_key(&name), overlay == of, "{overlay}");
        }
        let runtime = match overlay {
            "crio" | "openshift" => vec!["/run/containers/storage/overlay-containers", "/run/crio"],
            _ => vec!["/run/containerd"],
        };
        let read_only = host_paths(&objects)
            .into_iter()
            .filter(|(_, writable)| !writable);
        let read_only: Vec<String> = read_only.map(|(path, _)| path).collect();
        assert_eq!(read_only, runtime);
    }
}

#[test]
fn the_documented_image_is_the_deployed_one() {
    let install = text("../docs/install.md");
    let mut pushed: Vec<&str> = install
        .split("docker://")
        .skip(1)
        .map(|rest| rest.split_whitespace().next().unwrap())
        .collect();
    pushed.dedup();
    let name = |key: &str| {
        let (_, rest) = install.split_once(key).unwrap();
        rest.split_whitespace().next().unwrap()
    };
    let deployed = format!("{}:{}", name("newName: "), name("newTag: "));
    assert_eq!(pushed, [&*deployed]);
    // The chart is installed with its own tag.
    let (repository, tag) = deployed.rsplit_once(':').unwrap();
    assert_eq!(name("image.repository="), repository);
    assert!(!install.contains("image.tag="));
    let values = documents(&text("helm/pleg/values.yaml")).remove(0);
    assert_eq!(values["image"]["tag"], tag);
}
