//! Labels and annotations: the kubelet's, and those that identify our pods.

use std::collections::HashMap;

use pleg::model::id::PodRef;

use super::Host;
use crate::decide::Termination;
use crate::spec::{ContainerSpec, PodSpec};

/// The label with the owner of a sandbox or container. What belongs to other owners is never touched.
pub(super) const OWNER: &str = "pleg.dev/owner";

/// The annotation with the name of the manifest's file.
pub(super) const FILE: &str = "pleg.dev/file";

/// The annotation with the [`Termination`] of the pod.
const TERMINATION: &str = "pleg.dev/termination";

pub(super) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(super) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(super) const POD_UID: &str = "io.kubernetes.pod.uid";
pub(super) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
const GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";

const HASH: &str = "io.kubernetes.container.hash";
const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const CONFIG_HASH: &str = "kubernetes.io/config.hash";
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

pub(super) type Map = HashMap<String, String>;

pub(super) fn sandbox_labels(pod: &PodSpec, host: &Host) -> Map {
    let mut labels: Map = pod.labels.clone().into_iter().collect();
    labels.extend(identity(&pod.pod, host));
    labels
}

pub(super) fn container_labels(pod: &PodSpec, container: &ContainerSpec, host: &Host) -> Map {
    let mut labels = identity(&pod.pod, host);
    labels.insert(CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

fn identity(pod: &PodRef, host: &Host) -> Map {
    map([
        (POD_NAME, pod.name.to_string()),
        (POD_NAMESPACE, pod.namespace.to_string()),
        (POD_UID, pod.uid.to_string()),
        (OWNER, host.owner.clone()),
    ])
}

pub(super) fn sandbox_annotations(pod: &PodSpec) -> Map {
    // A termination contains only plain data, so its serialization cannot fail.
    let termination = serde_json::to_string(&Termination::from(pod)).unwrap_or_default();
    let mut annotations: Map = pod.annotations.clone().into_iter().collect();
    annotations.extend(map([
        (CONFIG_HASH, pod.pod.uid.to_string()),
        (CONFIG_SOURCE, "file".to_owned()),
        (GRACE_PERIOD, pod.grace_period.as_secs().to_string()),
        (FILE, pod.file.to_string()),
        (TERMINATION, termination),
    ]));
    annotations
}

pub(super) fn container_annotations(pod: &PodSpec, container: &ContainerSpec, attempt: u32) -> Map {
    map([
        (HASH, hash(container)),
        (RESTART_COUNT, attempt.to_string()),
        (MESSAGE_PATH, "/dev/termination-log".to_owned()),
        (MESSAGE_POLICY, "File".to_owned()),
        (GRACE_PERIOD, pod.grace_period.as_secs().to_string()),
    ])
}

/// The termination in these annotations, or the kubelet's defaults.
pub(super) fn termination(annotations: &Map) -> Termination {
    let text = annotations.get(TERMINATION);
    let termination = text.and_then(|text| serde_json::from_str(text).ok());
    termination.unwrap_or_default()
}

/// FNV-1a of a container's specification, for readers of the annotation. Whether a pod is replaced
/// depends on its UID alone.
fn hash(container: &ContainerSpec) -> String {
    let text = format!("{container:?}");
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:x}")
}

fn map<const N: usize>(pairs: [(&str, String); N]) -> Map {
    pairs.map(|(key, value)| (key.to_owned(), value)).into()
}
