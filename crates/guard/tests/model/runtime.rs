//! The runtime: its sandboxes and containers, its faults, and its answers.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use cri::{Rpc, v1};
use guard::Kind;
use guard::core::Outcome;
use prost::Message;

pub const CREATED: i32 = 0;
pub const RUNNING: i32 = 1;
pub const EXITED: i32 = 2;
pub const READY: i32 = 0;
pub const NOT_READY: i32 = 1;

/// A sandbox or a container, by its number among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item(pub Kind, pub usize);

impl Item {
    pub fn id(self) -> String {
        let Self(kind, number) = self;
        match kind {
            Kind::Sandbox => format!("s{number}"),
            Kind::Container => format!("c{number}"),
        }
    }

    pub fn of(id: &str) -> Self {
        let kind = match id.as_bytes()[0] {
            b's' => Kind::Sandbox,
            _ => Kind::Container,
        };
        Self(kind, id[1..].parse().expect("an id of this test"))
    }
}

/// The lifecycle state of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    NotMade,
    In(i32),
    Removed,
}

/// The calls that hang or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing is answered.
    All,
    /// The lists of a kind hang.
    Lists(Kind),
    /// Every status of a kind hangs.
    Statuses(Kind),
    /// The status of an item hangs, and so does every change of it.
    StatusOf(Item),
    /// The status of an item is answered with an error.
    Fails(Item),
    /// Changes are done, but not answered.
    Changes,
}

#[derive(Clone, Debug)]
pub struct Runtime {
    pub sandboxes: Vec<Life>,
    /// The containers, and the numbers of their sandboxes.
    pub containers: Vec<(Life, usize)>,
    pub faults: BTreeSet<Fault>,
}

impl Runtime {
    pub fn life(&self, Item(kind, number): Item) -> Life {
        match kind {
            Kind::Sandbox => self.sandboxes[number],
            Kind::Container => self.containers[number].0,
        }
    }

    pub fn set(&mut self, Item(kind, number): Item, life: Life) {
        match kind {
            Kind::Sandbox => self.sandboxes[number] = life,
            Kind::Container => self.containers[number].0 = life,
        }
    }

    pub fn items(&self, kind: Kind) -> impl Iterator<Item = Item> + use<> {
        let count = match kind {
            Kind::Sandbox => self.sandboxes.len(),
            Kind::Container => self.containers.len(),
        };
        (0..count).map(move |number| Item(kind, number))
    }

    fn alive(&self, kind: Kind) -> impl Iterator<Item = (Item, i32)> {
        self.items(kind)
            .filter_map(move |item| match self.life(item) {
                Life::In(state) => Some((item, state)),
                Life::NotMade | Life::Removed => None,
            })
    }

    /// Whether this call hangs before it is performed.
    pub fn holds(&self, rpc: Rpc, item: Option<Item>) -> bool {
        let hangs = |fault| self.faults.contains(&fault);
        let hangs_by_method = match rpc {
            Rpc::ListPodSandbox => hangs(Fault::Lists(Kind::Sandbox)),
            Rpc::ListContainers => hangs(Fault::Lists(Kind::Container)),
            Rpc::PodSandboxStatus => hangs(Fault::Statuses(Kind::Sandbox)),
            Rpc::ContainerStatus => hangs(Fault::Statuses(Kind::Container)),
            _ => false,
        };
        hangs(Fault::All)
            || hangs_by_method
            || item.is_some_and(|item| hangs(Fault::StatusOf(item)))
    }

    /// Whether the answer to this call hangs, although the call is performed.
    pub fn holds_answer(&self, rpc: Rpc) -> bool {
        self.faults.contains(&Fault::Changes) && is_change(rpc)
    }

    /// Performs a call, and returns its answer.
    pub fn perform(&mut self, rpc: Rpc, item: Option<Item>) -> Outcome {
        match (rpc, item) {
            (Rpc::ListPodSandbox, _) => message(&self.sandboxes()),
            (Rpc::ListContainers, _) => message(&self.containers()),
            (Rpc::PodSandboxStatus | Rpc::ContainerStatus, Some(item)) => self.status(rpc, item),
            (_, Some(item)) if is_change(rpc) => self.change(rpc, item),
            _ => Outcome::Messages(vec![Bytes::from_static(b"\x0a\x01v")]),
        }
    }

    fn change(&mut self, rpc: Rpc, item: Item) -> Outcome {
        let life = self.life(item);
        let next = match (rpc, life) {
            (Rpc::CreateContainer, Life::NotMade) => Life::In(CREATED),
            (Rpc::StartContainer, Life::In(CREATED)) => Life::In(RUNNING),
            (Rpc::StopContainer, Life::In(_)) => Life::In(EXITED),
            (Rpc::StopPodSandbox, Life::In(_)) => Life::In(NOT_READY),
            (Rpc::RemoveContainer | Rpc::RemovePodSandbox, _) => Life::Removed,
            (_, Life::NotMade | Life::Removed) => return Outcome::NotFound,
            _ => return Outcome::Failed,
        };
        self.set(item, next);
        if let Item(Kind::Sandbox, number) = item {
            for (life, sandbox) in &mut self.containers {
                if *sandbox == number && matches!(life, Life::In(_)) {
                    *life = match next {
                        Life::Removed => next,
                        _ => Life::In(EXITED),
                    };
                }
            }
        }
        match rpc {
            Rpc::CreateContainer => message(&v1::CreateContainerResponse {
                container_id: item.id(),
            }),
            _ => Outcome::Messages(vec![Bytes::new()]),
        }
    }

    fn status(&self, rpc: Rpc, item: Item) -> Outcome {
        if status_of(item.0) != rpc {
            return Outcome::NotFound;
        }
        if self.faults.contains(&Fault::Fails(item)) {
            return Outcome::Failed;
        }
        let Life::In(state) = self.life(item) else {
            return Outcome::NotFound;
        };
        match item.0 {
            Kind::Sandbox => message(&v1::PodSandboxStatusResponse {
                status: Some(v1::PodSandboxStatus {
                    id: item.id(),
                    state,
                    ..Default::default()
                }),
                ..Default::default()
            }),
            Kind::Container => message(&v1::ContainerStatusResponse {
                status: Some(v1::ContainerStatus {
                    id: item.id(),
                    metadata: Some(metadata(item)),
                    state,
                    started_at: i64::from(state >= RUNNING),
                    ..Default::default()
                }),
                info: self.info(item),
            }),
        }
    }

    /// The verbose information of a container's status.
    fn info(&self, Item(_, number): Item) -> HashMap<String, String> {
        let sandbox = Item(Kind::Sandbox, self.containers[number].1).id();
        let info = format!(r#"{{"sandboxID":"{sandbox}"}}"#);
        HashMap::from([("info".to_owned(), info)])
    }

    fn sandboxes(&self) -> v1::ListPodSandboxResponse {
        let items = self.alive(Kind::Sandbox);
        let items = items.map(|(item, state)| v1::PodSandbox {
            id: item.id(),
            state,
            ..Default::default()
        });
        v1::ListPodSandboxResponse {
            items: items.collect(),
        }
    }

    fn containers(&self) -> v1::ListContainersResponse {
        let containers = self.alive(Kind::Container);
        let containers = containers.map(|(item, state)| v1::Container {
            id: item.id(),
            pod_sandbox_id: Item(Kind::Sandbox, self.containers[item.1].1).id(),
            metadata: Some(metadata(item)),
            state,
            ..Default::default()
        });
        v1::ListContainersResponse {
            containers: containers.collect(),
        }
    }
}

pub fn list_of(kind: Kind) -> Rpc {
    match kind {
        Kind::Sandbox => Rpc::ListPodSandbox,
        Kind::Container => Rpc::ListContainers,
    }
}

pub fn status_of(kind: Kind) -> Rpc {
    match kind {
        Kind::Sandbox => Rpc::PodSandboxStatus,
        Kind::Container => Rpc::ContainerStatus,
    }
}

pub fn is_change(rpc: Rpc) -> bool {
    matches!(
        rpc,
        Rpc::CreateContainer
            | Rpc::StartContainer
            | Rpc::StopContainer
            | Rpc::RemoveContainer
            | Rpc::StopPodSandbox
            | Rpc::RemovePodSandbox
    )
}

fn metadata(item: Item) -> v1::ContainerMetadata {
    v1::ContainerMetadata {
        name: item.id(),
        attempt: 0,
    }
}

fn message(message: &impl Message) -> Outcome {
    Outcome::Messages(vec![message.encode_to_vec().into()])
}

/// The items and states that an answer to this method shows.
pub fn shown(rpc: Rpc, answer: &Bytes) -> Vec<(Item, i32)> {
    let answer = answer.clone();
    let read = "an answer can be read";
    match rpc {
        Rpc::ListPodSandbox => {
            let list = v1::ListPodSandboxResponse::decode(answer).expect(read);
            let rows = list.items.iter();
            rows.map(|row| (Item::of(&row.id), row.state)).collect()
        }
        Rpc::ListContainers => {
            let list = v1::ListContainersResponse::decode(answer).expect(read);
            let rows = list.containers.iter();
            rows.map(|row| (Item::of(&row.id), row.state)).collect()
        }
        Rpc::PodSandboxStatus => {
            let status = v1::PodSandboxStatusResponse::decode(answer).expect(read);
            let status = status.status.expect(read);
            vec![(Item::of(&status.id), status.state)]
        }
        Rpc::ContainerStatus => {
            let status = v1::ContainerStatusResponse::decode(answer).expect(read);
            let status = status.status.expect(read);
            vec![(Item::of(&status.id), status.state)]
        }
        Rpc::CreateContainer => {
            let made = v1::CreateContainerResponse::decode(answer).expect(read);
            vec![(Item::of(&made.container_id), CREATED)]
        }
        _ => Vec::new(),
    }
}

/// The request of a call for this item.
pub fn request(rpc: Rpc, item: Option<Item>, sandbox: impl Fn(Item) -> Item) -> Bytes {
    let Some(item) = item else {
        return Bytes::new();
    };
    let request = match rpc {
        Rpc::CreateContainer => v1::CreateContainerRequest {
            pod_sandbox_id: sandbox(item).id(),
            config: Some(v1::ContainerConfig {
                metadata: Some(metadata(item)),
                ..Default::default()
            }),
            ..Default::default()
        }
        .encode_to_vec(),
        // All other requests have the id in field 1.
        _ => v1::RemoveContainerRequest {
            container_id: item.id(),
        }
        .encode_to_vec(),
    };
    request.into()
}

/// The item whose id a request contains.
pub fn item_of(request: &Bytes) -> Option<Item> {
    let read = v1::ContainerStatusRequest::decode(request.clone()).ok()?;
    (!read.container_id.is_empty()).then(|| Item::of(&read.container_id))
}
