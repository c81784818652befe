//! The ids on a node, and messages of a client and a runtime.

use cri::v1;
use prost::Message;

/// The ids of the container and the sandbox that are created.
pub const MADE: &str = "made";
pub const MADE_SANDBOX: &str = "made sandbox";

pub fn sandbox_id(number: usize) -> String {
    format!("{number:063x}a")
}

pub fn container_id(number: usize) -> String {
    format!("{number:063x}b")
}

pub(super) fn made_sandbox() -> v1::PodSandboxMetadata {
    v1::PodSandboxMetadata {
        name: MADE.to_owned(),
        uid: MADE.to_owned(),
        ..Default::default()
    }
}

/// The request that creates [`MADE_SANDBOX`].
pub fn run_sandbox() -> Vec<u8> {
    let config = v1::PodSandboxConfig {
        metadata: Some(made_sandbox()),
        ..Default::default()
    };
    v1::RunPodSandboxRequest {
        config: Some(config),
        ..Default::default()
    }
    .encode_to_vec()
}

/// The request that creates [`MADE`] in this sandbox.
pub fn create_container(sandbox: &str) -> Vec<u8> {
    let config = v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata {
            name: MADE.to_owned(),
            attempt: 1,
        }),
        ..Default::default()
    };
    v1::CreateContainerRequest {
        pod_sandbox_id: sandbox.to_owned(),
        config: Some(config),
        ..Default::default()
    }
    .encode_to_vec()
}

/// A request for the status of a container, or for another call about it that needs only its id.
pub fn request_for(id: &str) -> Vec<u8> {
    v1::ContainerStatusRequest {
        container_id: id.to_owned(),
        verbose: false,
    }
    .encode_to_vec()
}

/// A request for the running containers.
pub fn list_running() -> Vec<u8> {
    let state = v1::ContainerStateValue { state: 1 };
    let filter = v1::ContainerFilter {
        state: Some(state),
        ..Default::default()
    };
    v1::ListContainersRequest {
        filter: Some(filter),
    }
    .encode_to_vec()
}

/// A message with these bytes in field 1.
pub fn nested(bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    prost::encoding::bytes::encode(1, &bytes.to_vec(), &mut message);
    message
}

/// The statistics of an id, as encoded in the answer for it.
pub fn stats_of(id: &str) -> Vec<u8> {
    nested(&nested(&nested(id.as_bytes())))
}
