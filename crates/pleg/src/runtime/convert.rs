//! From CRI's messages to our own types. Nothing a runtime sends makes this panic:
//! unknown numbers become `Unknown`, absent messages become absent values.

use std::net::IpAddr;
use std::sync::Arc;

use cri::{lean, v1};
use serde::Deserialize;

use crate::id::{Id, PodRef};
use crate::listed::{ContainerState, ListedContainer, ListedSandbox, SandboxState};
use crate::runtime::{Announced, AnnouncedSandbox, CallError};
use crate::status::{ContainerStatus, SandboxStatus};
use crate::wall_time::WallTime;

const POD_UID: &str = "io.kubernetes.pod.uid";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_NAME: &str = "io.kubernetes.pod.name";

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

pub(super) fn sandbox_row(listed: &lean::Sandbox<'_>) -> ListedSandbox {
    ListedSandbox {
        id: listed.id.into(),
        pod: listed.metadata.map(|metadata| PodRef {
            uid: metadata.uid.into(),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
        }),
        state: sandbox_state(listed.state),
        attempt: listed.metadata.map_or(0, |metadata| metadata.attempt),
        created_at: WallTime::from_unix_nanos(listed.created_at),
    }
}

pub(super) fn container_row(listed: &lean::Container<'_>) -> ListedContainer {
    ListedContainer {
        id: listed.id.into(),
        sandbox_id: listed.sandbox_id.into(),
        // Labels that cannot be read are no labels: the sandbox may still tell the pod.
        pod: pod_of_labels(listed.labels().unwrap_or_default()),
        name: listed.name.into(),
        state: container_state(listed.state),
        attempt: listed.attempt,
        created_at: WallTime::from_unix_nanos(listed.created_at),
    }
}

fn pod_of_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<PodRef> {
    let (mut uid, mut namespace, mut name) = (None, "", "");
    for (key, value) in labels {
        match key {
            POD_UID => uid = Some(value),
            POD_NAMESPACE => namespace = value,
            POD_NAME => name = value,
            _ => {}
        }
    }
    uid.map(|uid| PodRef {
        uid: uid.into(),
        namespace: namespace.into(),
        name: name.into(),
    })
}

pub(super) fn sandbox_status(
    id: &Id,
    answer: v1::PodSandboxStatusResponse,
) -> Result<SandboxStatus, CallError> {
    let status = answer
        .status
        .ok_or_else(|| CallError::Malformed("PodSandboxStatus without a status".into()))?;
    let network = status.network.unwrap_or_default();
    let ips = std::iter::once(network.ip)
        .chain(network.additional_ips.into_iter().map(|ip| ip.ip))
        .filter_map(|ip| ip.parse::<IpAddr>().ok());
    let attempt = status
        .metadata
        .as_ref()
        .map_or(0, |metadata| metadata.attempt);
    Ok(SandboxStatus {
        id: id.clone(),
        state: sandbox_state(status.state),
        attempt,
        created_at: WallTime::from_unix_nanos(status.created_at),
        ips: ips.collect(),
        pod: status.metadata.map(|metadata| PodRef {
            uid: metadata.uid.into(),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
        }),
    })
}

pub(super) fn container_status(
    id: &Id,
    answer: v1::ContainerStatusResponse,
) -> Result<ContainerStatus, CallError> {
    let status = answer
        .status
        .ok_or_else(|| CallError::Malformed("ContainerStatus without a status".into()))?;
    let metadata = status.metadata.unwrap_or_default();
    let state = container_state(status.state);
    let labels = status.labels.iter();
    Ok(ContainerStatus {
        id: id.clone(),
        name: metadata.name.into(),
        state,
        attempt: metadata.attempt,
        exit_code: (state == ContainerState::Exited).then_some(status.exit_code),
        reason: (!status.reason.is_empty()).then(|| Arc::from(status.reason)),
        created_at: WallTime::from_unix_nanos(status.created_at),
        started_at: WallTime::from_unix_nanos(status.started_at),
        finished_at: WallTime::from_unix_nanos(status.finished_at),
        image: status.image.unwrap_or_default().image.into(),
        pod: pod_of_labels(labels.map(|(key, value)| (key.as_str(), value.as_str()))),
    })
}

/// An event without a sandbox status says only the id.
pub(super) fn announced(event: v1::ContainerEventResponse) -> Announced {
    let status = event.pod_sandbox_status;
    let sandbox = status.and_then(|status| {
        let metadata = status.metadata?;
        Some(AnnouncedSandbox {
            id: status.id.into(),
            pod: PodRef {
                uid: metadata.uid.into(),
                namespace: metadata.namespace.into(),
                name: metadata.name.into(),
            },
        })
    });
    Announced {
        id: event.container_id.into(),
        created_at: WallTime::from_unix_nanos(event.created_at),
        sandbox,
    }
}

/// What is read of the verbose answer: it holds the container's environment too, which is
/// nobody's business.
#[derive(Deserialize)]
struct Process {
    pid: Option<u32>,
}

/// The pid that containerd and CRI-O tell under `info`; theirs is 0 where there is none.
pub(super) fn pid(answer: &v1::ContainerStatusResponse) -> Option<u32> {
    let info = answer.info.get("info")?;
    let process: Process = serde_json::from_str(info).ok()?;
    process.pid.filter(|pid| *pid > 0)
}
