//! Rows of lists, and a runtime that lists them.

use cri::v1;
use prost::Message;

use super::{RawAnswer, RawRuntime};

/// A runtime that lists these rows, with equal statuses.
pub fn rows_of(sandboxes: Vec<v1::PodSandbox>, containers: Vec<v1::Container>) -> RawRuntime {
    RawRuntime::new(move |method, request| match method {
        "Version" => v1::VersionResponse {
            runtime_name: "odd\u{1b}[31m".to_owned(),
            runtime_version: "1\r\n".to_owned(),
            ..Default::default()
        }
        .into(),
        "ListPodSandbox" => v1::ListPodSandboxResponse {
            items: sandboxes.clone(),
        }
        .into(),
        "ListContainers" => v1::ListContainersResponse {
            containers: containers.clone(),
        }
        .into(),
        "PodSandboxStatus" => {
            let id = v1::PodSandboxStatusRequest::decode(request).unwrap();
            let mut rows = sandboxes.iter();
            match rows.find(|row| row.id == id.pod_sandbox_id) {
                Some(row) => sandbox_status(row).into(),
                None => RawAnswer::Refusal(5, "no such sandbox"),
            }
        }
        _ => {
            let id = v1::ContainerStatusRequest::decode(request).unwrap();
            let mut rows = containers.iter();
            match rows.find(|row| row.id == id.container_id) {
                Some(row) => container_status(row).into(),
                None => RawAnswer::Refusal(5, "no such container"),
            }
        }
    })
}

fn sandbox_status(row: &v1::PodSandbox) -> v1::PodSandboxStatusResponse {
    v1::PodSandboxStatusResponse {
        status: Some(v1::PodSandboxStatus {
            id: row.id.clone(),
            metadata: row.metadata.clone(),
            state: row.state,
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn container_status(row: &v1::Container) -> v1::ContainerStatusResponse {
    v1::ContainerStatusResponse {
        status: Some(v1::ContainerStatus {
            id: row.id.clone(),
            metadata: row.metadata.clone(),
            state: row.state,
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub fn sandbox(id: &str, pod: &str) -> v1::PodSandbox {
    v1::PodSandbox {
        id: id.to_owned(),
        metadata: Some(v1::PodSandboxMetadata {
            name: pod.to_owned(),
            uid: format!("uid-{pod}"),
            namespace: "default".to_owned(),
            attempt: 0,
        }),
        ..Default::default()
    }
}

pub fn container(id: &str, sandbox: &str, name: &str) -> v1::Container {
    v1::Container {
        id: id.to_owned(),
        pod_sandbox_id: sandbox.to_owned(),
        metadata: Some(v1::ContainerMetadata {
            name: name.to_owned(),
            attempt: 0,
        }),
        state: 1,
        ..Default::default()
    }
}
