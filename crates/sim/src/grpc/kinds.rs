//! Answers a container status call that has a sandbox's id, and vice versa. To dockerd a sandbox is
//! a container too, with a special name.

use cri::{dockerd, v1};
use pleg::model::id::Id;
use tonic::Status;

use super::messages;
use crate::World;
use crate::manner::Manner;

/// The sandbox with this id as a container, if the runtime mixes both kinds.
pub(super) fn as_container(
    world: &World,
    id: &Id,
    manner: Manner,
) -> Result<v1::ContainerStatusResponse, Status> {
    let found = world.sandbox_by_id(id.as_str());
    let found = found.filter(|_| manner.mixes_kinds());
    let found = found.ok_or_else(|| manner.no_container(id))?;
    let (_, sandbox) = found;
    let status = v1::ContainerStatus {
        id: id.to_string(),
        metadata: Some(v1::ContainerMetadata {
            name: dockerd::SANDBOX.to_owned(),
            attempt: sandbox.attempt,
        }),
        state: v1::ContainerState::ContainerRunning.into(),
        created_at: sandbox.created_at.as_unix_nanos(),
        labels: messages::sandbox(found).labels,
        ..Default::default()
    };
    Ok(v1::ContainerStatusResponse {
        status: Some(status),
        ..Default::default()
    })
}

/// The container with this id as a sandbox, if the runtime mixes both kinds.
pub(super) fn as_sandbox(
    world: &World,
    id: &Id,
    manner: Manner,
) -> Result<v1::PodSandboxStatusResponse, Status> {
    let found = world.container_by_id(id.as_str());
    let found = found.filter(|_| manner.mixes_kinds());
    let found = found.ok_or_else(|| manner.no_sandbox(id))?;
    let (pod, container) = found;
    let status = v1::PodSandboxStatus {
        id: id.to_string(),
        metadata: Some(v1::PodSandboxMetadata {
            name: pod.pod.name.to_string(),
            uid: pod.pod.uid.to_string(),
            namespace: pod.pod.namespace.to_string(),
            attempt: container.attempt,
        }),
        created_at: container.created_at.as_unix_nanos(),
        labels: messages::container(found).labels,
        ..Default::default()
    };
    Ok(v1::PodSandboxStatusResponse {
        status: Some(status),
        ..Default::default()
    })
}
