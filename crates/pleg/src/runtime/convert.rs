//! Converts CRI's messages to this library's types. No input makes it panic: unknown numbers become
//! `Unknown`, absent messages become absent values.

use std::net::IpAddr;

use cri::{dockerd, lean, v1};
use serde::Deserialize;

use crate::model::id::{Id, PodRef};
use crate::model::listed::{ContainerState, ListedContainer, ListedSandbox, SandboxState};
use crate::model::status::{ContainerStatus, SandboxStatus};
use crate::model::wall_time::WallTime;
use crate::runtime::names::Names;
use crate::runtime::{Announced, AnnouncedSandbox, CallError};

/// The longest id or name in an event, in bytes. Ids have 64 characters, and names of Kubernetes objects
/// at most 253.
const MAX_ANNOUNCED_LENGTH: usize = 1024;

const POD_UID: &str = "io.kubernetes.pod.uid";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_NAME: &str = "io.kubernetes.pod.name";
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

pub(super) fn container_state(number: i32) -> ContainerState {
    match v1::ContainerState::try_from(number) {
        Ok(v1::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(v1::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(v1::ContainerState::ContainerExited) => ContainerState::Exited,
        Ok(v1::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    }
}

fn sandbox_state(number: i32) -> SandboxState {
    match v1::PodSandboxState::try_from(number) {
        Ok(v1::PodSandboxState::SandboxReady) => SandboxState::Ready,
        Ok(v1::PodSandboxState::SandboxNotready) => SandboxState::NotReady,
        Err(_) => SandboxState::Unknown,
    }
}

pub(super) fn sandbox_row(names: &Names, listed: &lean::Sandbox<'_>) -> ListedSandbox {
    ListedSandbox {
        id: names.intern(listed.id).into(),
        pod: listed
            .metadata
            .map(|metadata| pod_ref(names, metadata.uid, metadata.namespace, metadata.name)),
        state: sandbox_state(listed.state),
        attempt: listed.metadata.map_or(0, |metadata| metadata.attempt),
        created_at: WallTime::from_unix_nanos(listed.created_at),
    }
}

fn pod_ref(names: &Names, uid: &str, namespace: &str, name: &str) -> PodRef {
    PodRef {
        uid: names.intern(uid).into(),
        namespace: names.intern(namespace),
        name: names.intern(name),
    }
}

pub(super) fn container_row(names: &Names, listed: &lean::Container<'_>) -> ListedContainer {
    ListedContainer {
        id: listed.id.into(),
        sandbox_id: names.intern(listed.sandbox_id).into(),
        // Unreadable labels count as absent: the sandbox may still name the pod.
        pod: pod_of_labels(names, listed.labels().unwrap_or_default()),
        name: names.intern(listed.name),
        state: container_state(listed.state),
        attempt: listed.attempt,
        created_at: WallTime::from_unix_nanos(listed.created_at),
    }
}

fn pod_of_labels<'a>(
    names: &Names,
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<PodRef> {
    let (mut uid, mut namespace, mut name) = (None, "", "");
    for (key, value) in labels {
        match key {
            POD_UID => uid = Some(value),
            POD_NAMESPACE => namespace = value,
            POD_NAME => name = value,
            _ => {}
        }
    }
    uid.map(|uid| pod_ref(names, uid, namespace, name))
}

pub(super) fn sandbox_status(
    names: &Names,
    requested: &Id,
    answer: v1::PodSandboxStatusResponse,
) -> Result<SandboxStatus, CallError> {
    let status = answer
        .status
        .ok_or_else(|| CallError::Malformed("PodSandboxStatus without a status".into()))?;
    let container = status.labels.get(CONTAINER_NAME);
    if container.is_some_and(|name| name != dockerd::SANDBOX) {
        return Err(CallError::NotFound("it is a container's id".into()));
    }
    let network = status.network.unwrap_or_default();
    let ips = std::iter::once(network.ip)
        .chain(network.additional_ips.into_iter().map(|ip| ip.ip))
        .filter_map(|ip| ip.parse::<IpAddr>().ok());
    let metadata = status.metadata.as_ref();
    Ok(SandboxStatus {
        id: shared(requested, status.id.into()),
        state: sandbox_state(status.state),
        attempt: metadata.map_or(0, |metadata| metadata.attempt),
        created_at: WallTime::from_unix_nanos(status.created_at),
        ips: ips.collect(),
        containers: answer
            .containers_statuses
            .into_iter()
            .map(|container| status_of(names, container))
            .collect(),
        pod: metadata
            .map(|metadata| pod_ref(names, &metadata.uid, &metadata.namespace, &metadata.name))
            .map(Box::new),
    })
}

pub(super) fn container_status(
    names: &Names,
    requested: &Id,
    answer: v1::ContainerStatusResponse,
) -> Result<ContainerStatus, CallError> {
    let status = answer
        .status
        .ok_or_else(|| CallError::Malformed("ContainerStatus without a status".into()))?;
    let metadata = status.metadata.as_ref();
    if metadata.is_some_and(|metadata| metadata.name == dockerd::SANDBOX) {
        return Err(CallError::NotFound("it is a sandbox's id".into()));
    }
    let status = status_of(names, status);
    Ok(ContainerStatus {
        id: shared(requested, status.id),
        ..status
    })
}

/// The id in an answer. Usually it is the requested one, so it is kept in memory once.
fn shared(requested: &Id, answered: Id) -> Id {
    match answered == *requested {
        true => requested.clone(),
        false => answered,
    }
}

fn status_of(names: &Names, status: v1::ContainerStatus) -> ContainerStatus {
    let metadata = status.metadata.unwrap_or_default();
    let state = container_state(status.state);
    let labels = status.labels.iter();
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
    ContainerStatus {
        id: status.id.into(),
        name: names.intern(&metadata.name),
        state,
        attempt: metadata.attempt,
        exit_code: (state == ContainerState::Exited).then_some(status.exit_code),
        reason: (!status.reason.is_empty()).then(|| names.intern(&status.reason)),
        created_at: WallTime::from_unix_nanos(status.created_at),
        started_at: WallTime::from_unix_nanos(status.started_at),
        finished_at: WallTime::from_unix_nanos(status.finished_at),
        image: names.intern(&status.image.unwrap_or_default().image),
        pod: pod_of_labels(names, labels).map(Box::new),
    }
}

/// Converts an event. An event without a sandbox status names no sandbox. An event with a text that is too
/// long for an id or a name is ignored.
pub(super) fn announced(event: v1::ContainerEventResponse) -> Option<Announced> {
    let is_removal = event.container_event_type() == v1::ContainerEventType::ContainerDeletedEvent;
    let status = event.pod_sandbox_status;
    let sandbox = status.and_then(|status| {
        let metadata = status.metadata.filter(|pod| !pod.uid.is_empty())?;
        Some(AnnouncedSandbox {
            id: status.id.into(),
            pod: PodRef {
                uid: metadata.uid.into(),
                namespace: metadata.namespace.into(),
                name: metadata.name.into(),
            },
        })
    });
    let announced = Announced {
        is_removal,
        id: event.container_id.into(),
        created_at: WallTime::from_unix_nanos(event.created_at),
        sandbox,
    };
    let of_sandbox = announced.sandbox.iter().flat_map(|sandbox| {
        let AnnouncedSandbox { id, pod } = sandbox;
        [id.as_str(), pod.uid.as_str(), &pod.namespace, &pod.name]
    });
    let lengths = of_sandbox.chain([announced.id.as_str()]).map(str::len);
    let longest = lengths.max();
    (longest <= Some(MAX_ANNOUNCED_LENGTH)).then_some(announced)
}

/// The part of a verbose `ContainerStatus` that is read. The answer also contains the container's
/// environment, which is never read.
#[derive(Deserialize)]
struct Process {
    pid: Option<u32>,
}

/// The PID that containerd and CRI-O report under `info`; 0 means none.
pub(super) fn pid(answer: &v1::ContainerStatusResponse) -> Option<u32> {
    let info = answer.info.get("info")?;
    let process: Process = serde_json::from_str(info).ok()?;
    process.pid.filter(|pid| *pid > 0)
}
