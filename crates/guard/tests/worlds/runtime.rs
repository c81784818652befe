//! The runtime of a random world: its sandboxes and containers, the effects of calls, and its faults.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use cri::{Rpc, dockerd, v1};
use guard::Kind;
use guard::core::Outcome;
use prost::Message;
use tokio::time::Instant;

pub const CREATED: i32 = 0;
pub const RUNNING: i32 = 1;
pub const EXITED: i32 = 2;

/// A sandbox, or a container.
#[derive(Clone, Debug)]
pub struct Thing {
    pub kind: Kind,
    pub sandbox: String,
    pub uid: String,
    pub name: String,
    pub attempt: u32,
    /// Its states and when each began, the newest last.
    pub states: Vec<(Instant, i32)>,
    pub removed: Option<Instant>,
    /// Whether a client other than the kubelet has created it.
    pub is_foreign: bool,
}

impl Thing {
    pub fn state(&self) -> i32 {
        self.states.last().map_or(0, |(_, state)| *state)
    }

    /// The state at this time, if it existed.
    pub fn state_at(&self, time: Instant) -> Option<i32> {
        if self.removed.is_some_and(|removed| removed <= time) {
            return None;
        }
        let states = self.states.iter().rev();
        let mut past = states.filter(|(since, _)| *since <= time);
        past.next().map(|(_, state)| *state)
    }

    pub fn created(&self) -> Instant {
        self.states[0].0
    }

    pub fn labels(&self) -> [(String, String); 2] {
        // CRI-O labels sandboxes like this.
        let name = match self.kind {
            Kind::Sandbox => dockerd::SANDBOX,
            Kind::Container => &self.name,
        };
        [
            ("io.kubernetes.pod.uid".to_owned(), self.uid.clone()),
            ("io.kubernetes.container.name".to_owned(), name.to_owned()),
        ]
    }

    fn enter(&mut self, state: i32, now: Instant) {
        if state > self.state() {
            self.states.push((now, state));
        }
    }
}

/// A call to the runtime.
#[derive(Clone, Debug)]
pub struct RuntimeCall {
    pub rpc: Rpc,
    pub request: Bytes,
}

#[derive(Debug, Default)]
pub struct Runtime {
    pub things: BTreeMap<String, Thing>,
    /// The kinds whose lists hang.
    pub lists_hang: BTreeSet<Kind>,
    /// The ids whose status hangs.
    pub statuses_hang: BTreeSet<String>,
    /// The kinds whose statuses all hang.
    pub kinds_hang: BTreeSet<Kind>,
    /// Whether changes are done, but not answered.
    pub answers_hang: bool,
    pub is_stopped: bool,
    /// Whether creations fail.
    pub refuses_creations: bool,
    /// Whether it behaves like cri-dockerd, which returns a sandbox as a container and the reverse, and
    /// whose verbose status does not have the sandbox of a container.
    pub is_dockerd: bool,
    /// The id that the next answer lacks although it exists.
    pub hidden: Option<String>,
    /// A container that was started while another copy of it ran.
    pub doubled: Option<String>,
    made: u32,
    /// When the first thing was created: the epoch of all timestamps.
    epoch: Option<Instant>,
}

impl Runtime {
    /// The wall-clock time, in nanoseconds since the epoch.
    pub fn unix_nanos(&self, time: Instant) -> i64 {
        let since = self
            .epoch
            .map(|epoch| time.saturating_duration_since(epoch));
        since.map_or(0, |since| since.as_nanos() as i64)
    }

    /// Ends all faults.
    pub fn recover(&mut self) {
        self.lists_hang.clear();
        self.statuses_hang.clear();
        self.kinds_hang.clear();
        self.answers_hang = false;
        self.is_stopped = false;
        self.refuses_creations = false;
    }

    pub fn alive(&self) -> impl Iterator<Item = (&String, &Thing)> {
        self.things
            .iter()
            .filter(|(_, thing)| thing.removed.is_none())
    }

    /// The things that an answer shows now.
    fn shown(&self) -> impl Iterator<Item = (&String, &Thing)> {
        let hidden = self.hidden.as_ref();
        self.alive().filter(move |(id, _)| hidden != Some(*id))
    }

    pub fn alive_mut(&mut self, id: &str) -> Option<&mut Thing> {
        self.things
            .get_mut(id)
            .filter(|thing| thing.removed.is_none())
    }

    /// Whether this call hangs before it is performed.
    pub fn holds(&self, call: &RuntimeCall) -> bool {
        self.is_stopped
            || match call.rpc {
                Rpc::ListPodSandbox => self.lists_hang.contains(&Kind::Sandbox),
                Rpc::ListContainers => self.lists_hang.contains(&Kind::Container),
                Rpc::ContainerStatus if self.kinds_hang.contains(&Kind::Container) => true,
                Rpc::PodSandboxStatus if self.kinds_hang.contains(&Kind::Sandbox) => true,
                Rpc::ContainerStatus | Rpc::PodSandboxStatus => {
                    self.statuses_hang.contains(&id_of(&call.request))
                }
                // A stuck container cannot be changed either.
                Rpc::StopContainer | Rpc::RemoveContainer | Rpc::StartContainer => {
                    self.statuses_hang.contains(&id_of(&call.request))
                }
                _ => false,
            }
    }

    /// Whether the answer to this call hangs, although the call is performed.
    pub fn holds_answer(&self, call: &RuntimeCall) -> bool {
        self.is_stopped
            || self.answers_hang
                && matches!(
                    call.rpc,
                    Rpc::RunPodSandbox
                        | Rpc::CreateContainer
                        | Rpc::StartContainer
                        | Rpc::RemoveContainer
                        | Rpc::RemovePodSandbox
                )
    }

    /// The id of the next creation, whose directory may exist already.
    pub fn next_id(&self) -> String {
        format!("{:064x}", self.made + 1)
    }

    pub fn make(&mut self, thing: Thing) -> String {
        let id = self.next_id();
        self.made += 1;
        self.epoch = self.epoch.or(Some(thing.created()));
        self.things.insert(id.clone(), thing);
        id
    }

    /// Performs a call, and returns its answer.
    pub fn perform(&mut self, call: &RuntimeCall, now: Instant) -> Outcome {
        let id = id_of(&call.request);
        let done = || Outcome::Messages(vec![Bytes::new()]);
        let makes = matches!(call.rpc, Rpc::RunPodSandbox | Rpc::CreateContainer);
        if makes && self.refuses_creations {
            return Outcome::Failed;
        }
        match call.rpc {
            Rpc::Version => Outcome::Messages(vec![Bytes::from_static(b"\x0a\x01v")]),
            Rpc::ListPodSandbox => self.list_sandboxes(&call.request),
            Rpc::ListContainers => self.list_containers(&call.request),
            Rpc::ContainerStatus => self.status(Kind::Container, &id, &call.request),
            Rpc::PodSandboxStatus => self.status(Kind::Sandbox, &id, &call.request),
            Rpc::RunPodSandbox => {
                let read = v1::RunPodSandboxRequest::decode(call.request.clone()).unwrap();
                let metadata = read.config.unwrap().metadata.unwrap();
                let id = self.make(Thing {
                    kind: Kind::Sandbox,
                    sandbox: String::new(),
                    uid: metadata.uid,
                    name: metadata.name,
                    attempt: metadata.attempt,
                    states: vec![(now, 0)],
                    removed: None,
                    is_foreign: false,
                });
                made(id)
            }
            Rpc::CreateContainer => {
                let read = v1::CreateContainerRequest::decode(call.request.clone()).unwrap();
                let config = read.config.unwrap();
                let metadata = config.metadata.unwrap();
                let Some(sandbox) = self.alive_mut(&read.pod_sandbox_id) else {
                    return Outcome::NotFound;
                };
                let uid = sandbox.uid.clone();
                let id = self.make(Thing {
                    kind: Kind::Container,
                    sandbox: read.pod_sandbox_id,
                    uid,
                    name: metadata.name,
                    attempt: metadata.attempt,
                    states: vec![(now, CREATED)],
                    removed: None,
                    is_foreign: false,
                });
                made(id)
            }
            Rpc::StartContainer => match self.alive_mut(&id) {
                Some(thing) => {
                    let (uid, name) = (thing.uid.clone(), thing.name.clone());
                    let is_new = thing.state() < RUNNING;
                    thing.enter(RUNNING, now);
                    let runs = self.alive().any(|(other, thing)| {
                        *other != id
                            && thing.kind == Kind::Container
                            && (&thing.uid, &thing.name) == (&uid, &name)
                            && thing.state() == RUNNING
                    });
                    if runs && is_new {
                        self.doubled = Some(format!("{uid}/{name}"));
                    }
                    done()
                }
                None => Outcome::NotFound,
            },
            Rpc::StopContainer => {
                if let Some(thing) = self.alive_mut(&id) {
                    thing.enter(EXITED, now);
                }
                done()
            }
            Rpc::RemoveContainer => {
                if let Some(thing) = self.alive_mut(&id) {
                    thing.removed = Some(now);
                }
                done()
            }
            Rpc::StopPodSandbox | Rpc::RemovePodSandbox => {
                let removes = call.rpc == Rpc::RemovePodSandbox;
                for (other, thing) in &mut self.things {
                    if thing.removed.is_none() && (*other == id || thing.sandbox == id) {
                        let ended = if thing.kind == Kind::Sandbox {
                            1
                        } else {
                            EXITED
                        };
                        thing.enter(ended, now);
                        thing.removed = removes.then_some(now);
                    }
                }
                done()
            }
            _ => Outcome::Failed,
        }
    }

    fn status(&self, kind: Kind, id: &str, request: &Bytes) -> Outcome {
        let thing = self.shown().find(|(other, _)| *other == id);
        let is_found = |thing: &Thing| thing.kind == kind || self.is_dockerd;
        let Some((id, thing)) = thing.filter(|(_, thing)| is_found(thing)) else {
            return Outcome::NotFound;
        };
        let message = match kind {
            Kind::Sandbox => v1::PodSandboxStatusResponse {
                status: Some(v1::PodSandboxStatus {
                    id: id.clone(),
                    metadata: Some(sandbox_metadata(thing)),
                    created_at: self.unix_nanos(thing.created()),
                    state: thing.state(),
                    labels: thing.labels().into(),
                    network: Some(v1::PodSandboxNetworkStatus {
                        ip: "10.0.0.1".to_owned(),
                        ..Default::default()
                    }),
                    ..Default::default()
                }),
                ..Default::default()
            }
            .encode_to_vec(),
            Kind::Container => v1::ContainerStatusResponse {
                status: Some(v1::ContainerStatus {
                    id: id.clone(),
                    metadata: Some(match thing.kind {
                        Kind::Container => container_metadata(thing),
                        Kind::Sandbox => v1::ContainerMetadata {
                            name: dockerd::SANDBOX.to_owned(),
                            attempt: thing.attempt,
                        },
                    }),
                    created_at: self.unix_nanos(thing.created()),
                    state: thing.state(),
                    started_at: i64::from(thing.states.iter().any(|(_, state)| *state == RUNNING)),
                    labels: thing.labels().into(),
                    ..Default::default()
                }),
                info: self.info(thing, request),
            }
            .encode_to_vec(),
        };
        Outcome::Messages(vec![message.into()])
    }

    /// The verbose information of a container's status.
    fn info(&self, thing: &Thing, request: &Bytes) -> HashMap<String, String> {
        let read = v1::ContainerStatusRequest::decode(request.clone());
        let is_verbose = read.is_ok_and(|read| read.verbose);
        let info = format!(r#"{{"sandboxID":"{}","pid":1}}"#, thing.sandbox);
        let info = (is_verbose && !self.is_dockerd).then(|| ("info".to_owned(), info));
        info.into_iter().collect()
    }

    fn list_sandboxes(&self, request: &Bytes) -> Outcome {
        let read = v1::ListPodSandboxRequest::decode(request.clone()).unwrap();
        let filter = read.filter.unwrap_or_default();
        let items = self.shown().filter(|(id, thing)| {
            thing.kind == Kind::Sandbox
                && (filter.id.is_empty() || filter.id == **id)
                && filter
                    .state
                    .is_none_or(|state| state.state == thing.state())
                && has_labels(thing, &filter.label_selector)
        });
        let items = items.map(|(id, thing)| v1::PodSandbox {
            id: id.clone(),
            metadata: Some(sandbox_metadata(thing)),
            created_at: self.unix_nanos(thing.created()),
            state: thing.state(),
            labels: thing.labels().into(),
            ..Default::default()
        });
        let list = v1::ListPodSandboxResponse {
            items: items.collect(),
        };
        Outcome::Messages(vec![list.encode_to_vec().into()])
    }

    fn list_containers(&self, request: &Bytes) -> Outcome {
        let read = v1::ListContainersRequest::decode(request.clone()).unwrap();
        let filter = read.filter.unwrap_or_default();
        let containers = self.shown().filter(|(id, thing)| {
            thing.kind == Kind::Container
                && (filter.id.is_empty() || filter.id == **id)
                && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == thing.sandbox)
                && filter
                    .state
                    .is_none_or(|state| state.state == thing.state())
                && has_labels(thing, &filter.label_selector)
        });
        let containers = containers.map(|(id, thing)| v1::Container {
            id: id.clone(),
            pod_sandbox_id: thing.sandbox.clone(),
            metadata: Some(container_metadata(thing)),
            created_at: self.unix_nanos(thing.created()),
            state: thing.state(),
            labels: thing.labels().into(),
            ..Default::default()
        });
        let list = v1::ListContainersResponse {
            containers: containers.collect(),
        };
        Outcome::Messages(vec![list.encode_to_vec().into()])
    }
}

fn has_labels(thing: &Thing, wanted: &std::collections::HashMap<String, String>) -> bool {
    let labels = thing.labels();
    wanted.iter().all(|(key, value)| {
        labels
            .iter()
            .any(|label| (&label.0, &label.1) == (key, value))
    })
}

fn sandbox_metadata(thing: &Thing) -> v1::PodSandboxMetadata {
    v1::PodSandboxMetadata {
        name: thing.name.clone(),
        uid: thing.uid.clone(),
        namespace: "default".into(),
        attempt: thing.attempt,
    }
}

fn container_metadata(thing: &Thing) -> v1::ContainerMetadata {
    v1::ContainerMetadata {
        name: thing.name.clone(),
        attempt: thing.attempt,
    }
}

fn made(id: String) -> Outcome {
    let answer = v1::CreateContainerResponse { container_id: id };
    Outcome::Messages(vec![answer.encode_to_vec().into()])
}

/// The id in field 1 of a request.
pub fn id_of(request: &Bytes) -> String {
    let read = v1::ContainerStatusRequest::decode(request.clone());
    read.map(|read| read.container_id).unwrap_or_default()
}
