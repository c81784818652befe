//! The world as messages of CRI, with the labels and annotations that a kubelet sets.

use std::collections::{BTreeMap, HashMap};

use cri::v1;
use pleg::model::id::PodRef;
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::model::wall_time::WallTime;

use crate::runtime::reason;
use crate::world::{Container, Pod, Sandbox, World};

type Map = HashMap<String, String>;

/// A state number that no enumeration of CRI defines.
const UNDEFINED_STATE: i32 = 99;

/// The answer to `Status`: the runtime is ready, and so is the network unless it has an error.
pub(super) fn readiness(world: &World) -> v1::StatusResponse {
    let condition = |name: &str, error: Option<&str>| v1::RuntimeCondition {
        r#type: name.to_owned(),
        status: error.is_none(),
        reason: error.map_or_else(String::new, |_| format!("{name}False")),
        message: error.unwrap_or_default().to_owned(),
    };
    let network = world.network_error.as_deref();
    let conditions = [("RuntimeReady", None), ("NetworkReady", network)];
    let conditions = conditions.map(|(name, error)| condition(name, error));
    v1::StatusResponse {
        status: Some(v1::RuntimeStatus {
            conditions: conditions.into(),
        }),
        info: Map::new(),
    }
}

pub(super) fn sandbox((pod, sandbox): (&Pod, &Sandbox)) -> v1::PodSandbox {
    v1::PodSandbox {
        id: sandbox.id.to_string(),
        metadata: Some(sandbox_metadata(&pod.pod, sandbox)),
        state: sandbox_state(sandbox.state),
        created_at: sandbox.created_at.as_unix_nanos(),
        labels: sandbox_labels(&pod.pod, sandbox),
        annotations: sandbox_annotations(sandbox),
        runtime_handler: runtime_handler(sandbox),
    }
}

pub(super) fn sandbox_status((pod, sandbox): (&Pod, &Sandbox)) -> v1::PodSandboxStatusResponse {
    let mut ips = sandbox.ips.iter().map(ToString::to_string);
    let network = v1::PodSandboxNetworkStatus {
        ip: ips.next().unwrap_or_default(),
        additional_ips: ips.map(|ip| v1::PodIp { ip }).collect(),
    };
    let status = v1::PodSandboxStatus {
        id: sandbox.id.to_string(),
        metadata: Some(sandbox_metadata(&pod.pod, sandbox)),
        state: sandbox_state(sandbox.state),
        created_at: sandbox.created_at.as_unix_nanos(),
        network: Some(network),
        labels: sandbox_labels(&pod.pod, sandbox),
        runtime_handler: runtime_handler(sandbox),
    };
    v1::PodSandboxStatusResponse {
        status: Some(status),
        ..Default::default()
    }
}

pub(super) fn container((pod, container): (&Pod, &Container)) -> v1::Container {
    v1::Container {
        id: container.id.to_string(),
        pod_sandbox_id: container.sandbox_id.to_string(),
        metadata: Some(container_metadata(container)),
        image: Some(image(container)),
        image_ref: container.image().to_owned(),
        state: container_state(container.listed()),
        created_at: container.created_at.as_unix_nanos(),
        labels: container_labels(&pod.pod, container),
        annotations: container_annotations(container),
    }
}

/// The status of a container. `info` is the additional part of a verbose answer.
pub(super) fn container_status(
    (pod, container): (&Pod, &Container),
    info: Map,
    now: WallTime,
) -> v1::ContainerStatusResponse {
    let ended = container.reported_end(now);
    let code = ended.map(|(_, code)| code);
    let given = container.given.as_ref();
    let status = v1::ContainerStatus {
        id: container.id.to_string(),
        metadata: Some(container_metadata(container)),
        state: container_state(container.state),
        created_at: container.created_at.as_unix_nanos(),
        started_at: container.started_at.map_or(0, WallTime::as_unix_nanos),
        finished_at: ended.map_or(0, |(time, _)| time.as_unix_nanos()),
        exit_code: code.unwrap_or_default(),
        image: Some(image(container)),
        image_ref: container.image().to_owned(),
        reason: code.map(reason).unwrap_or_default().to_owned(),
        labels: container_labels(&pod.pod, container),
        annotations: container_annotations(container),
        log_path: given.map_or_else(String::new, |given| given.log_path.clone()),
        ..Default::default()
    };
    v1::ContainerStatusResponse {
        status: Some(status),
        info,
    }
}

/// The additional part of a container's verbose status, as from containerd and CRI-O.
pub(super) fn container_info(container: &Container) -> Map {
    let info = format!("{{\"sandboxID\":\"{}\"}}", container.sandbox_id);
    Map::from([("info".to_owned(), info)])
}

/// The sandboxes that match a filter.
pub(super) fn sandboxes(world: &World, filter: &v1::PodSandboxFilter) -> Vec<v1::PodSandbox> {
    let all = world.sandboxes().map(sandbox);
    all.filter(|item| sandbox_matches(item, filter)).collect()
}

/// The containers that match a filter.
pub(super) fn containers(world: &World, filter: &v1::ContainerFilter) -> Vec<v1::Container> {
    let all = world.containers().map(container);
    all.filter(|item| container_matches(item, filter)).collect()
}

/// Whether a sandbox matches a filter. Empty fields of the filter match all.
fn sandbox_matches(item: &v1::PodSandbox, filter: &v1::PodSandboxFilter) -> bool {
    (filter.id.is_empty() || filter.id == item.id)
        && filter.state.is_none_or(|wanted| wanted.state == item.state)
        && selects(&filter.label_selector, &item.labels)
}

/// Whether a container matches a filter. Empty fields of the filter match all.
fn container_matches(item: &v1::Container, filter: &v1::ContainerFilter) -> bool {
    let sandbox = &filter.pod_sandbox_id;
    (filter.id.is_empty() || filter.id == item.id)
        && (sandbox.is_empty() || *sandbox == item.pod_sandbox_id)
        && filter.state.is_none_or(|wanted| wanted.state == item.state)
        && selects(&filter.label_selector, &item.labels)
}

fn selects(selector: &Map, labels: &Map) -> bool {
    selector
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}

fn sandbox_metadata(pod: &PodRef, sandbox: &Sandbox) -> v1::PodSandboxMetadata {
    v1::PodSandboxMetadata {
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        namespace: pod.namespace.to_string(),
        attempt: sandbox.attempt,
    }
}

fn container_metadata(container: &Container) -> v1::ContainerMetadata {
    v1::ContainerMetadata {
        name: container.name.clone(),
        attempt: container.attempt,
    }
}

fn image(container: &Container) -> v1::ImageSpec {
    v1::ImageSpec {
        image: container.image().to_owned(),
        ..Default::default()
    }
}

fn runtime_handler(sandbox: &Sandbox) -> String {
    let given = sandbox.given.as_ref();
    given.map_or_else(String::new, |given| given.runtime_handler.clone())
}

fn sandbox_state(state: SandboxState) -> i32 {
    match state {
        SandboxState::Ready => v1::PodSandboxState::SandboxReady.into(),
        SandboxState::NotReady => v1::PodSandboxState::SandboxNotready.into(),
        SandboxState::Unknown => UNDEFINED_STATE,
    }
}

fn container_state(state: ContainerState) -> i32 {
    let state = match state {
        ContainerState::Created => v1::ContainerState::ContainerCreated,
        ContainerState::Running => v1::ContainerState::ContainerRunning,
        ContainerState::Exited => v1::ContainerState::ContainerExited,
        ContainerState::Unknown => v1::ContainerState::ContainerUnknown,
    };
    state.into()
}

fn map<const N: usize>(entries: [(&str, String); N]) -> Map {
    let entries = entries.into_iter();
    entries
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn owned(map: &BTreeMap<String, String>) -> Map {
    map.clone().into_iter().collect()
}

fn sandbox_labels(pod: &PodRef, sandbox: &Sandbox) -> Map {
    let given = sandbox.given.as_ref();
    given.map_or_else(|| pod_labels(pod), |given| owned(&given.labels))
}

fn sandbox_annotations(sandbox: &Sandbox) -> Map {
    if let Some(given) = &sandbox.given {
        return owned(&given.annotations);
    }
    map([
        ("kubernetes.io/config.seen", sandbox.created_at.to_string()),
        ("kubernetes.io/config.source", "api".to_owned()),
    ])
}

fn container_labels(pod: &PodRef, container: &Container) -> Map {
    if let Some(given) = &container.given {
        return owned(&given.labels);
    }
    let mut labels = pod_labels(pod);
    labels.extend(map([(
        "io.kubernetes.container.name",
        container.name.clone(),
    )]));
    labels
}

fn pod_labels(pod: &PodRef) -> Map {
    map([
        ("io.kubernetes.pod.name", pod.name.to_string()),
        ("io.kubernetes.pod.namespace", pod.namespace.to_string()),
        ("io.kubernetes.pod.uid", pod.uid.to_string()),
    ])
}

fn container_annotations(container: &Container) -> Map {
    if let Some(given) = &container.given {
        return owned(&given.annotations);
    }
    map([
        ("io.kubernetes.container.hash", "1f3a5c7e".to_owned()),
        (
            "io.kubernetes.container.restartCount",
            container.attempt.to_string(),
        ),
        (
            "io.kubernetes.container.terminationMessagePath",
            "/dev/termination-log".to_owned(),
        ),
        (
            "io.kubernetes.container.terminationMessagePolicy",
            "File".to_owned(),
        ),
        ("io.kubernetes.pod.terminationGracePeriod", "30".to_owned()),
    ])
}
