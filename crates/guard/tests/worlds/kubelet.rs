//! The random calls of a kubelet, and the states that its answers have shown.

use std::collections::BTreeMap;

use bytes::Bytes;
use cri::{Rpc, dockerd, v1};
use fastrand::Rng;
use guard::Kind;
use prost::Message;
use tokio::time::Instant;

use super::runtime::Runtime;

/// A call that the kubelet has made.
#[derive(Clone, Debug)]
pub struct Call {
    pub rpc: Rpc,
    pub request: Bytes,
    pub requested: Instant,
    /// Whether an observer makes the call, and not the kubelet.
    pub is_ours: bool,
}

/// What the answers to the kubelet have shown about an id.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// The highest state, and when it was first shown.
    pub state: Option<(i32, Instant)>,
    /// When an answer first showed the id.
    pub there: Option<Instant>,
    /// When its removal was answered.
    pub removed: Option<Instant>,
    /// When its start was answered.
    pub started: Option<Instant>,
}

#[derive(Debug, Default)]
pub struct Kubelet {
    pub reported: BTreeMap<String, Reported>,
    attempts: u32,
}

impl Kubelet {
    pub fn of(&mut self, id: &str) -> &mut Reported {
        self.reported.entry(id.to_owned()).or_default()
    }

    /// The next random call.
    pub fn next(&mut self, rng: &mut Rng, runtime: &Runtime) -> (Rpc, Bytes) {
        let known: Vec<(&String, Kind, i32)> = runtime
            .alive()
            .filter(|(id, _)| {
                self.reported
                    .get(*id)
                    .is_some_and(|reported| reported.removed.is_none())
            })
            .map(|(id, thing)| (id, thing.kind, thing.state()))
            .collect();
        let of = |kind| {
            let of = known.iter().filter(move |(_, other, _)| *other == kind);
            of.map(|(id, ..)| (*id).clone()).collect::<Vec<_>>()
        };
        let (sandboxes, containers) = (of(Kind::Sandbox), of(Kind::Container));
        let sandbox = rng.choice(&sandboxes).cloned();
        let container = rng.choice(&containers).cloned();
        self.attempts += 1;
        let attempt = self.attempts;
        match (rng.u32(0..100), sandbox, container) {
            (0..25, ..) => (Rpc::ListContainers, Bytes::new()),
            (25..35, ..) => (Rpc::ListPodSandbox, Bytes::new()),
            (35..50, sandbox, container) => {
                let filter = filter(rng, runtime, sandbox, container);
                (
                    Rpc::ListContainers,
                    encoded(&v1::ListContainersRequest {
                        filter: Some(filter),
                    }),
                )
            }
            (50..56, Some(id), _) => (Rpc::PodSandboxStatus, one(&id)),
            // `crictl inspect`
            (56..60, _, Some(id)) => (Rpc::ContainerStatus, verbose(&id)),
            (60..72, _, Some(id)) => (Rpc::ContainerStatus, one(&id)),
            // A pod may get another sandbox in any state of its last one.
            (72..76, Some(id), _) if rng.bool() => {
                let uid = &runtime.things[&id].uid;
                (Rpc::RunPodSandbox, run_of(uid, attempt))
            }
            (72..76, ..) => (Rpc::RunPodSandbox, run_sandbox(rng, attempt)),
            (76..82, Some(id), _) => (Rpc::CreateContainer, create(runtime, &id, attempt)),
            (82..90, _, Some(id)) => (Rpc::StartContainer, one(&id)),
            (90..93, _, Some(id)) => (Rpc::StopContainer, one(&id)),
            (93..96, _, Some(id)) => (Rpc::RemoveContainer, one(&id)),
            (96..97, Some(id), _) => (Rpc::StopPodSandbox, one(&id)),
            (97..98, Some(id), _) => (Rpc::RemovePodSandbox, one(&id)),
            _ => (Rpc::Version, Bytes::new()),
        }
    }
}

fn filter(
    rng: &mut Rng,
    runtime: &Runtime,
    sandbox: Option<String>,
    container: Option<String>,
) -> v1::ContainerFilter {
    let mut filter = v1::ContainerFilter::default();
    match rng.u8(0..4) {
        0 => filter.id = container.unwrap_or_default(),
        1 => filter.pod_sandbox_id = sandbox.unwrap_or_default(),
        2 => {
            let of = container.and_then(|id| Some(runtime.things.get(&id)?.labels()));
            filter.label_selector = of.map(Into::into).unwrap_or_default();
        }
        _ => {}
    }
    if rng.bool() {
        let state = rng.i32(0..3);
        filter.state = Some(v1::ContainerStateValue { state });
    }
    filter
}

fn run_sandbox(rng: &mut Rng, attempt: u32) -> Bytes {
    run_of(&format!("uid-{attempt}-{}", rng.u8(..)), attempt)
}

/// A request to run a sandbox of this pod.
pub fn run_of(uid: &str, attempt: u32) -> Bytes {
    let labels = [
        ("io.kubernetes.pod.uid".to_owned(), uid.to_owned()),
        (
            "io.kubernetes.container.name".to_owned(),
            dockerd::SANDBOX.to_owned(),
        ),
    ];
    encoded(&v1::RunPodSandboxRequest {
        config: Some(v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: "pod".into(),
                uid: uid.to_owned(),
                namespace: "default".into(),
                attempt,
            }),
            labels: labels.into(),
            ..Default::default()
        }),
        ..Default::default()
    })
}

fn create(runtime: &Runtime, sandbox: &str, attempt: u32) -> Bytes {
    let uid = &runtime.things[sandbox].uid;
    create_of(uid, sandbox, &format!("app{}", attempt % 3), attempt)
}

/// A request to create a container of this pod.
pub fn create_of(uid: &str, sandbox: &str, name: &str, attempt: u32) -> Bytes {
    let labels = [
        ("io.kubernetes.pod.uid".to_owned(), uid.to_owned()),
        ("io.kubernetes.container.name".to_owned(), name.to_owned()),
    ];
    encoded(&v1::CreateContainerRequest {
        pod_sandbox_id: sandbox.to_owned(),
        config: Some(v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata {
                name: name.to_owned(),
                attempt,
            }),
            labels: labels.into(),
            ..Default::default()
        }),
        ..Default::default()
    })
}

pub fn one(id: &str) -> Bytes {
    encoded(&v1::ContainerStatusRequest {
        container_id: id.to_owned(),
        verbose: false,
    })
}

fn verbose(id: &str) -> Bytes {
    encoded(&v1::ContainerStatusRequest {
        container_id: id.to_owned(),
        verbose: true,
    })
}

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}
