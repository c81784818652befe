//! Labels and annotations: the kubelet's, and those by which our pods are known again.

use std::collections::HashMap;
use std::time::Duration;

use pleg::model::id::PodRef;
use serde::{Deserialize, Serialize};

use super::Host;
use crate::spec::{ContainerSpec, PodSpec, Role};

/// The label that says whose a sandbox or container is; what is not ours is never touched.
pub(super) const OWNER: &str = "pleg.dev/owner";

/// Which of the pod's containers it is, from 0: sidecars are ended in the reverse order.
pub(super) const POSITION: &str = "pleg.dev/position";

/// When it runs: the kubelet's own annotation does not tell sidecars from init containers.
pub(super) const ROLE: &str = "pleg.dev/role";

pub(super) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(super) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(super) const POD_UID: &str = "io.kubernetes.pod.uid";
pub(super) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
pub(super) const GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
pub(super) const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";

const HASH: &str = "io.kubernetes.container.hash";
const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const CONFIG_HASH: &str = "kubernetes.io/config.hash";
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

pub(super) type Map = HashMap<String, String>;

/// A preStop hook as the API writes it.
#[derive(Serialize, Deserialize)]
struct Handler {
    exec: Exec,
}

#[derive(Serialize, Deserialize)]
struct Exec {
    command: Vec<String>,
}

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
    let mut annotations: Map = pod.annotations.clone().into_iter().collect();
    annotations.extend(map([
        (CONFIG_HASH, pod.pod.uid.to_string()),
        (CONFIG_SOURCE, "file".to_owned()),
        (GRACE_PERIOD, pod.grace_period.as_secs().to_string()),
    ]));
    annotations
}

pub(super) fn container_annotations(pod: &PodSpec, container: &ContainerSpec, attempt: u32) -> Map {
    let mut containers = pod.containers.iter();
    let position = containers.position(|it| it.name == container.name);
    let mut annotations = map([
        (HASH, hash(container)),
        (RESTART_COUNT, attempt.to_string()),
        (MESSAGE_PATH, "/dev/termination-log".to_owned()),
        (MESSAGE_POLICY, "File".to_owned()),
        (GRACE_PERIOD, pod.grace_period.as_secs().to_string()),
        (ROLE, role_name(container.role).to_owned()),
        (POSITION, position.unwrap_or_default().to_string()),
    ]);
    if let Some(command) = container.pre_stop.clone() {
        let exec = Exec { command };
        // Of strings alone, which JSON can always hold.
        let handler = serde_json::to_string(&Handler { exec }).unwrap_or_default();
        annotations.insert(PRE_STOP.to_owned(), handler);
    }
    annotations
}

/// The grace period that annotations hold: the kubelet's default where they hold none.
pub(super) fn grace_period(annotations: &Map) -> Duration {
    let seconds = annotations.get(GRACE_PERIOD).and_then(|it| it.parse().ok());
    seconds.map_or(Duration::from_secs(30), Duration::from_secs)
}

/// The preStop command that annotations hold.
pub(super) fn pre_stop(annotations: &Map) -> Option<Vec<String>> {
    let handler = annotations.get(PRE_STOP)?;
    let handler: Handler = serde_json::from_str(handler).ok()?;
    Some(handler.exec.command)
}

/// The role that annotations hold; what does not say is ended as most are.
pub(super) fn role(annotations: &Map) -> Role {
    match annotations.get(ROLE).map(String::as_str) {
        Some("init") => Role::Init,
        Some("sidecar") => Role::Sidecar,
        _ => Role::Container,
    }
}

pub(super) fn position(annotations: &Map) -> usize {
    let position = annotations.get(POSITION).and_then(|it| it.parse().ok());
    position.unwrap_or_default()
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Init => "init",
        Role::Sidecar => "sidecar",
        Role::Container => "container",
    }
}

/// FNV-1a of all that is wanted of a container. Only the pod's UID decides what is replaced; this
/// is for those who read annotations.
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
