//! Converts `metadata`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pleg::model::id::{PodRef, PodUid};

use super::problem::At;
use super::{NEEDS_API_SERVER, has_items, has_text, names};

/// The largest total size of a pod's annotations, in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Annotations that have an effect in a kubelet.
const KUBELET_ANNOTATIONS: [(&str, &str); 2] = [
    (
        "container.apparmor.security.beta.kubernetes.io/",
        "AppArmor profiles cannot be chosen",
    ),
    (
        "kubernetes.io/config.mirror",
        "this is the mirror of a static pod, not its manifest",
    ),
];

/// A pod's names, labels and annotations.
pub(super) struct Metadata {
    pub(super) pod: PodRef,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

pub(super) fn read(metadata: ObjectMeta, manifest_uid: PodUid, at: &At<'_>) -> Metadata {
    let ObjectMeta {
        annotations,
        creation_timestamp: _,
        deletion_grace_period_seconds,
        deletion_timestamp,
        finalizers,
        generate_name,
        generation: _,
        labels,
        managed_fields: _,
        name,
        namespace,
        owner_references,
        resource_version: _,
        self_link: _,
        uid,
    } = metadata;

    let is_deleted = deletion_timestamp.is_some() || deletion_grace_period_seconds.is_some();
    at.refuse("deletionTimestamp", is_deleted, "the pod is being deleted");
    at.refuse("finalizers", has_items(&finalizers), NEEDS_API_SERVER);
    let has_owners = has_items(&owner_references);
    at.refuse("ownerReferences", has_owners, NEEDS_API_SERVER);
    at.refuse(
        "generateName",
        has_text(&generate_name),
        "the pod needs a name",
    );
    let has_uid = has_text(&uid);
    at.refuse("uid", has_uid, "the UID is computed from the manifest");

    let name = name.unwrap_or_default();
    at.field("name").check_text(&name, names::dns_subdomain);
    let namespace = namespace.filter(|it| !it.is_empty());
    let namespace = namespace.unwrap_or_else(|| "default".to_owned());
    at.field("namespace").check(names::dns_label(&namespace));

    let labels = labels.unwrap_or_default();
    for (key, value) in &labels {
        let at = at.field("labels").key(key);
        at.check(names::qualified_name(key));
        at.check(names::label_value(value));
    }
    let annotations = annotations.unwrap_or_default();
    check_annotations(&annotations, &at.field("annotations"));
    Metadata {
        pod: PodRef {
            uid: manifest_uid,
            namespace: namespace.into(),
            name: name.into(),
        },
        labels,
        annotations,
    }
}

fn check_annotations(annotations: &BTreeMap<String, String>, at: &At<'_>) {
    for key in annotations.keys() {
        let at = at.key(key);
        at.check(names::qualified_name(key));
        for (prefix, why) in KUBELET_ANNOTATIONS {
            if key.starts_with(prefix) {
                at.unsupported(why);
            }
        }
    }
    let size: usize = annotations.iter().map(|(k, v)| k.len() + v.len()).sum();
    if size > MAX_ANNOTATIONS {
        at.invalid(format!(
            "{size} bytes, at most {MAX_ANNOTATIONS} are allowed"
        ));
    }
}
