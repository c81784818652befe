//! A kubelet that acts on its answers: it relists, inspects the pods that have changed, and a worker for
//! each pod starts missing containers, or stops all containers of a deleted pod and then releases its
//! volumes.
//!
//! ```text
//!   relist: both lists --all states--> inspect: the status of each container of a changed pod
//!                                         | newer than the worker's last action
//!                                         v
//!   worker: run, create, start   or   stop; none is running --> volumes released; remove
//! ```
//!
//! So the test detects a second copy of a container, and volumes that are released while a process of the
//! pod runs.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cri::{Rpc, v1};
use guard::core::{CallId, Outcome};
use prost::Message;
use tokio::time::Instant;

use super::kubelet::{create_of, one, run_of};
use super::runtime::{EXITED, RUNNING};

/// A call to make.
pub type Wanted = (Rpc, Bytes, Want);

/// The purpose of a call.
#[derive(Clone, Debug)]
pub enum Want {
    Sandboxes,
    Containers,
    Status(String, String),
    Action(String),
    /// Start the created container.
    Create(String),
}

/// The observed state of one id of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    name: String,
    attempt: u32,
    state: i32,
}

#[derive(Debug, Default)]
struct Pod {
    names: Vec<String>,
    is_deleted: bool,
    /// Whether its volumes are released.
    is_released: bool,
    /// The state in the last lists.
    listed: BTreeMap<String, Seen>,
    /// The state as of the last inspection, and when the lists before it were requested.
    sandboxes: BTreeMap<String, Seen>,
    containers: BTreeMap<String, Seen>,
    seen: Option<Instant>,
    /// The current inspection: the ids whose status is outstanding, when the lists before it were
    /// requested, whether a call has failed, and the states in the answers.
    inspecting: BTreeSet<String>,
    begun: Option<Instant>,
    fails: bool,
    inspected: BTreeMap<String, Seen>,
    /// When the worker last acted. It acts only on a state that was observed after that.
    acted: Option<Instant>,
    /// How many calls of the worker are outstanding.
    busy: usize,
}

#[derive(Debug, Default)]
pub struct Acting {
    pods: BTreeMap<String, Pod>,
    made: u32,
    relist: Option<Instant>,
    sandboxes: Vec<v1::PodSandbox>,
    calls: BTreeMap<CallId, Want>,
    /// How many containers it has started, and the volumes of how many pods it has released.
    pub started: u64,
    pub released: u64,
}

const UID: &str = "io.kubernetes.pod.uid";

impl Acting {
    /// Adds a pod to run.
    pub fn wants_pod(&mut self) {
        self.made += 1;
        let pod = Pod {
            names: vec!["app".to_owned(), "side".to_owned()],
            ..Pod::default()
        };
        self.pods.insert(format!("wanted-{}", self.made), pod);
    }

    /// Deletes one of its pods.
    pub fn deletes_pod(&mut self, which: usize) {
        let mut alive = self.pods.values_mut().filter(|pod| !pod.is_deleted);
        if let Some(pod) = alive.nth(which) {
            pod.is_deleted = true;
        }
    }

    pub fn made_call(&mut self, call: CallId, want: Want) {
        self.calls.insert(call, want);
    }

    /// Begins a relist, unless one is in progress. Called once a second.
    pub fn relist(&mut self, now: Instant) -> Vec<Wanted> {
        if self.relist.is_some() {
            return Vec::new();
        }
        self.relist = Some(now);
        vec![(Rpc::ListPodSandbox, Bytes::new(), Want::Sandboxes)]
    }

    /// Handles the end of a call. Calls `released` with the UID of each pod whose volumes are released
    /// now.
    pub fn on_end(
        &mut self,
        call: CallId,
        outcome: Option<&Outcome>,
        now: Instant,
        released: impl FnMut(&str),
    ) -> Vec<Wanted> {
        let Some(want) = self.calls.remove(&call) else {
            return Vec::new();
        };
        let message = match outcome {
            Some(Outcome::Messages(messages)) => messages.first(),
            _ => None,
        };
        match (want, message) {
            (Want::Sandboxes, Some(message)) => {
                let list = v1::ListPodSandboxResponse::decode(message.clone()).unwrap();
                self.sandboxes = list.items;
                vec![(Rpc::ListContainers, Bytes::new(), Want::Containers)]
            }
            (Want::Containers, Some(message)) => {
                let list = v1::ListContainersResponse::decode(message.clone()).unwrap();
                let inspections = self.inspect(list.containers);
                let actions = self.work(now, released);
                inspections.into_iter().chain(actions).collect()
            }
            (Want::Sandboxes | Want::Containers, None) => {
                self.relist = None;
                Vec::new()
            }
            (Want::Status(uid, id), message) => {
                let not_found = matches!(outcome, Some(Outcome::NotFound));
                self.on_status(&uid, &id, message, not_found);
                self.work(now, released)
            }
            (Want::Create(uid), Some(message)) => {
                let made = v1::CreateContainerResponse::decode(message.clone()).unwrap();
                let start = one(&made.container_id);
                self.started += 1;
                vec![(Rpc::StartContainer, start, Want::Action(uid))]
            }
            (Want::Create(uid) | Want::Action(uid), _) => {
                self.did(&uid, now);
                Vec::new()
            }
        }
    }

    /// Records that an action of a worker has ended, successfully or not.
    fn did(&mut self, uid: &str, now: Instant) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.busy -= 1;
            pod.acted = Some(now);
        }
    }

    /// Ends all calls, which are lost with the guard.
    pub fn lost_all(&mut self, now: Instant) {
        // Calls that are not sent yet are not lost.
        for want in std::mem::take(&mut self.calls).into_values() {
            match want {
                Want::Sandboxes | Want::Containers => self.relist = None,
                Want::Status(uid, id) => self.on_status(&uid, &id, None, false),
                Want::Create(uid) | Want::Action(uid) => self.did(&uid, now),
            }
        }
    }

    /// Requests the status of each container of the pods that have changed, once both lists are answered.
    fn inspect(&mut self, containers: Vec<v1::Container>) -> Vec<Wanted> {
        let Some(begun) = self.relist.take() else {
            return Vec::new();
        };
        let mut wanted = Vec::new();
        for (uid, pod) in &mut self.pods {
            let sandboxes = self.sandboxes.iter().filter(|row| row.labels[UID] == *uid);
            let sandboxes: BTreeMap<String, Seen> = sandboxes
                .map(|row| {
                    let attempt = row.metadata.as_ref().unwrap().attempt;
                    let name = String::new();
                    let state = row.state;
                    let seen = Seen {
                        name,
                        attempt,
                        state,
                    };
                    (row.id.clone(), seen)
                })
                .collect();
            let of_pod = containers.iter().filter(|row| row.labels[UID] == *uid);
            let of_pod: BTreeMap<String, Seen> = of_pod
                .map(|row| {
                    let metadata = row.metadata.clone().unwrap();
                    let seen = Seen {
                        name: metadata.name,
                        attempt: metadata.attempt,
                        state: row.state,
                    };
                    (row.id.clone(), seen)
                })
                .collect();
            if !pod.inspecting.is_empty() {
                // The last inspection is not finished.
                continue;
            }
            let mut listed = sandboxes.clone();
            listed.extend(of_pod.clone());
            let is_new = pod.seen.is_none() || pod.seen < pod.acted;
            if listed == pod.listed && !is_new {
                continue;
            }
            pod.listed = listed;
            pod.sandboxes = sandboxes;
            pod.inspected = of_pod;
            pod.inspecting = pod.inspected.keys().cloned().collect();
            pod.begun = Some(begun);
            pod.fails = false;
            pod.commit();
            wanted.extend(pod.inspecting.iter().map(|id| {
                let want = Want::Status(uid.clone(), id.clone());
                (Rpc::ContainerStatus, one(id), want)
            }));
        }
        wanted
    }

    fn on_status(&mut self, uid: &str, id: &str, message: Option<&Bytes>, is_gone: bool) {
        let Some(pod) = self.pods.get_mut(uid) else {
            return;
        };
        if !pod.inspecting.remove(id) {
            return;
        }
        match message {
            Some(message) => {
                let read = v1::ContainerStatusResponse::decode(message.clone()).unwrap();
                let state = read.status.unwrap().state;
                if let Some(inspected) = pod.inspected.get_mut(id) {
                    inspected.state = state;
                }
            }
            // A kubelet skips a container that is not found.
            None if is_gone => {
                pod.inspected.remove(id);
            }
            None => pod.fails = true,
        }
        pod.commit();
    }

    /// The next calls of the workers.
    fn work(&mut self, now: Instant, mut released: impl FnMut(&str)) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        let mut gone = Vec::new();
        for (uid, pod) in &mut self.pods {
            let is_current = pod
                .seen
                .is_some_and(|seen| pod.acted.is_none_or(|acted| seen > acted));
            if pod.busy > 0 || !is_current || !pod.inspecting.is_empty() {
                continue;
            }
            let actions = match pod.is_deleted {
                true => pod.end(uid, &mut released, &mut self.released),
                false => pod.run(uid),
            };
            if pod.is_released && pod.sandboxes.is_empty() && pod.containers.is_empty() {
                gone.push(uid.clone());
            }
            pod.busy = actions.len();
            if !actions.is_empty() {
                pod.acted = Some(now);
            }
            wanted.extend(actions);
        }
        for uid in gone {
            self.pods.remove(&uid);
        }
        wanted
    }
}

impl Pod {
    /// Ends the inspection, once all its calls have ended.
    fn commit(&mut self) {
        if !self.inspecting.is_empty() {
            return;
        }
        match self.fails {
            // The next relist inspects the pod again, and the worker waits.
            true => {
                self.listed.clear();
                self.seen = None;
            }
            false => {
                self.containers = std::mem::take(&mut self.inspected);
                self.seen = self.begun;
            }
        }
    }

    fn run(&self, uid: &str) -> Vec<Wanted> {
        let newest = self.sandboxes.iter().max_by_key(|(_, seen)| seen.attempt);
        let Some((sandbox, _)) = newest.filter(|(_, seen)| seen.state == 0) else {
            // Stop the running containers first.
            let ends = self.ends(uid);
            if !ends.is_empty() {
                return ends;
            }
            let attempt = newest.map_or(0, |(_, seen)| seen.attempt + 1);
            let want = Want::Action(uid.to_owned());
            return vec![(Rpc::RunPodSandbox, run_of(uid, attempt), want)];
        };
        let missing = self.names.iter().filter_map(|name| {
            let of = self.containers.values().filter(|seen| seen.name == *name);
            let newest = of.max_by_key(|seen| seen.attempt);
            let attempt = match newest {
                Some(seen) if seen.state == RUNNING => return None,
                Some(seen) => seen.attempt + 1,
                None => 0,
            };
            let request = create_of(uid, sandbox, name, attempt);
            Some((Rpc::CreateContainer, request, Want::Create(uid.to_owned())))
        });
        missing.collect()
    }

    fn ends(&self, uid: &str) -> Vec<Wanted> {
        let running = self
            .containers
            .iter()
            .filter(|(_, seen)| seen.state == RUNNING);
        let stop =
            |(id, _): (&String, _)| (Rpc::StopContainer, one(id), Want::Action(uid.to_owned()));
        running.map(stop).collect()
    }

    fn end(&mut self, uid: &str, released: &mut impl FnMut(&str), count: &mut u64) -> Vec<Wanted> {
        let ends = self.ends(uid);
        if !ends.is_empty() {
            return ends;
        }
        if !self.is_released {
            released(uid);
            *count += 1;
            self.is_released = true;
        }
        let removed = self
            .containers
            .iter()
            .filter(|(_, seen)| seen.state == EXITED);
        let want = || Want::Action(uid.to_owned());
        let removed = removed.map(|(id, _)| (Rpc::RemoveContainer, one(id), want()));
        let removed: Vec<Wanted> = removed.collect();
        if !removed.is_empty() || !self.containers.is_empty() {
            return removed;
        }
        let sandboxes = self.sandboxes.keys();
        sandboxes
            .map(|id| (Rpc::RemovePodSandbox, one(id), want()))
            .collect()
    }
}
