//! What the runtime of a node answers, and when.

use std::collections::HashMap;

use bytes::Bytes;
use cri::{Rpc, v1};
use guard::core::{HostIds, Outcome, RuntimeCallId};
use prost::Message;

use super::messages::made_sandbox;
use super::{MADE, MADE_SANDBOX, Node, container_id, nested, sandbox_id, stats_of};

fn message(message: &impl Message) -> Outcome {
    Outcome::Messages(vec![message.encode_to_vec().into()])
}

pub(super) fn id_of(request: &Bytes) -> String {
    let read = v1::ContainerStatusRequest::decode(request.clone());
    read.map(|read| read.container_id).unwrap_or_default()
}

/// Whether a list requests a sandbox by a prefix of its id, which cri-dockerd does not support.
fn has_prefix_filter(request: &Bytes) -> bool {
    let read = v1::ListContainersRequest::decode(request.clone());
    let filter = read.ok().and_then(|read| read.filter).unwrap_or_default();
    let length = filter.pod_sandbox_id.len();
    length > 0 && length < sandbox_id(0).len()
}

impl Node {
    pub(super) fn call_runtime(&mut self, runtime_call: RuntimeCallId, rpc: Rpc, request: Bytes) {
        match self.answer(rpc, &request) {
            Some(answer) => {
                let takes = (self.takes)(rpc);
                let due = match self.busy.iter_mut().min() {
                    Some(busy) => {
                        *busy = (*busy).max(self.now) + takes;
                        *busy
                    }
                    None => self.now + takes,
                };
                self.answers.push((due, runtime_call, answer));
            }
            None => self.held.push((runtime_call, rpc, request)),
        }
    }

    fn answer(&self, rpc: Rpc, request: &Bytes) -> Option<Outcome> {
        let id = id_of(request);
        if (self.hangs)(rpc, &id) {
            return None;
        }
        if (self.fails)(rpc, &id) {
            return Some(Outcome::Failed);
        }
        let is_left_over = self.leftovers.as_ref().is_some_and(|all| all.contains(&id));
        if is_left_over || rpc != Rpc::ListContainers && (self.lacks)(rpc, &id) {
            return Some(Outcome::NotFound);
        }
        if rpc == Rpc::ListContainers && has_prefix_filter(request) {
            return Some(message(&v1::ListContainersResponse::default()));
        }
        Some(match rpc {
            Rpc::ListPodSandbox => message(&v1::ListPodSandboxResponse {
                items: (0..self.sandboxes)
                    .map(|number| v1::PodSandbox {
                        id: sandbox_id(number),
                        ..Default::default()
                    })
                    .chain(self.makes_sandbox.map(|_| v1::PodSandbox {
                        id: MADE_SANDBOX.to_owned(),
                        metadata: Some(made_sandbox()),
                        ..Default::default()
                    }))
                    .collect(),
            }),
            Rpc::ListContainers => message(&v1::ListContainersResponse {
                containers: (0..self.containers)
                    .filter(|number| !(self.lacks)(rpc, &container_id(*number)))
                    .map(|number| v1::Container {
                        id: container_id(number),
                        pod_sandbox_id: self.sandbox_of(number),
                        state: 1,
                        ..Default::default()
                    })
                    .chain(self.makes.then(|| v1::Container {
                        id: MADE.to_owned(),
                        pod_sandbox_id: sandbox_id(0),
                        metadata: Some(v1::ContainerMetadata {
                            name: MADE.to_owned(),
                            attempt: 1,
                        }),
                        ..Default::default()
                    }))
                    .collect(),
            }),
            Rpc::ContainerStatus => message(&v1::ContainerStatusResponse {
                info: self.info(request, &id),
                status: Some(v1::ContainerStatus {
                    id,
                    state: 1,
                    ..Default::default()
                }),
            }),
            Rpc::PodSandboxStatus => message(&v1::PodSandboxStatusResponse {
                status: Some(v1::PodSandboxStatus {
                    network: self.network(&id),
                    id,
                    ..Default::default()
                }),
                ..Default::default()
            }),
            Rpc::ListContainerStats | Rpc::StreamContainerStats => {
                let ids = (0..self.containers).map(container_id);
                let ids = ids.filter(|id| self.lacks_stats_of.as_ref() != Some(id));
                let rows = ids.map(|id| stats_of(&id));
                Outcome::Messages(match rpc {
                    Rpc::StreamContainerStats => rows.map(Bytes::from).collect(),
                    _ => vec![rows.flatten().collect()],
                })
            }
            Rpc::ContainerStats => Outcome::Messages(vec![stats_of(&id).into()]),
            Rpc::CreateContainer => Outcome::Messages(vec![nested(MADE.as_bytes()).into()]),
            _ => Outcome::Messages(vec![Bytes::new()]),
        })
    }

    fn network(&self, id: &str) -> Option<v1::PodSandboxNetworkStatus> {
        let has_address = id == MADE_SANDBOX && self.makes_sandbox == Some(true);
        has_address.then(|| v1::PodSandboxNetworkStatus {
            ip: "10.0.0.7".to_owned(),
            ..Default::default()
        })
    }

    pub(super) fn host_ids(&self) -> HostIds {
        let Some(leftovers) = &self.leftovers else {
            return HostIds::Unavailable;
        };
        let there = (0..self.sandboxes).map(sandbox_id);
        let there = there.chain((0..self.containers).map(container_id));
        let all = there.chain(leftovers.iter().cloned());
        HostIds::All(all.map(|id| id.as_str().into()).collect())
    }

    fn sandbox_of(&self, number: usize) -> String {
        sandbox_id(number * self.sandboxes / self.containers)
    }

    /// The verbose information of a container's status.
    fn info(&self, request: &Bytes, id: &str) -> HashMap<String, String> {
        let read = v1::ContainerStatusRequest::decode(request.clone());
        if !read.is_ok_and(|read| read.verbose) {
            return HashMap::new();
        }
        let mut containers = 0..self.containers;
        let number = containers.find(|number| container_id(*number) == *id);
        let made = (self.makes && id == MADE).then(|| sandbox_id(0));
        let sandbox = number.map(|number| self.sandbox_of(number)).or(made);
        let info = |sandbox| ("info".to_owned(), format!(r#"{{"sandboxID":"{sandbox}"}}"#));
        sandbox.map(info).into_iter().collect()
    }
}
