//! The manifests are what Kubernetes reads them as, and give no more rights than are used.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::DeepMerge;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn documents(file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// Reads it strictly: a field that the type does not have would be lost on the way back.
fn read<T: DeserializeOwned + Serialize + DeepMerge>(document: &Value) -> T {
    let read: T = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&read).unwrap(), document);
    read
}

/// Each right as `verb group/resource`.
fn rights(documents: &[Value]) -> BTreeSet<String> {
    let mut rights = BTreeSet::new();
    for document in documents {
        match document["kind"].as_str().unwrap() {
            "Namespace" => drop(read::<Namespace>(document)),
            "ServiceAccount" => drop(read::<ServiceAccount>(document)),
            "ClusterRoleBinding" => {
                let binding: ClusterRoleBinding = read(document);
                let subjects = binding.subjects.unwrap();
                assert_eq!(subjects.len(), 1);
                assert_eq!(subjects[0].name, "pleg-agent");
            }
            "ClusterRole" => {
                let role: ClusterRole = read(document);
                for rule in role.rules.unwrap() {
                    for group in rule.api_groups.iter().flatten() {
                        for resource in rule.resources.iter().flatten() {
                            let of = rule.verbs.iter();
                            rights.extend(of.map(|verb| format!("{verb} {group}/{resource}")));
                        }
                    }
                }
            }
            other => panic!("{other}"),
        }
    }
    rights
}

#[test]
fn an_agent_may_do_what_it_does_and_nothing_else() {
    let expected = [
        "create events.k8s.io/events",
        "patch /nodes/status",
        "watch /nodes",
    ];
    assert_eq!(
        rights(&documents("rbac.yaml")),
        expected.map(str::to_owned).into()
    );
    let expected = ["patch /nodes"];
    assert_eq!(
        rights(&documents("rbac-taint.yaml")),
        expected.map(str::to_owned).into()
    );
}
