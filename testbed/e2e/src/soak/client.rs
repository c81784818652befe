//! Calls to a runtime, or to a guard in front of it. Each answer is checked.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cri::v1::{
    Container, ContainerState, ContainerStatusRequest, ContainerStatusResponse,
    ListContainersRequest, ListContainersResponse, ListPodSandboxRequest, ListPodSandboxResponse,
    PodSandbox, PodSandboxState, PodSandboxStatusRequest, PodSandboxStatusResponse,
};
use cri::{ApiVersion, Client, Endpoint, Rpc};
use prost::Message;
use tonic::Code;

use super::World;
use super::journal::{Contradiction, Interval, Kind, Rule, State};

/// The deadline of the calls that check whether the runtime itself gives the same answer as the guard.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(2);

/// The socket of a client's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// Through the guard.
    Guard,
    /// Over the socket of the runtime.
    Runtime,
}

/// Why a call returned no result.
#[derive(Clone, Debug)]
pub(super) enum NoAnswer {
    Deadline,
    NotFound,
    Refused(Code),
}

/// A client of one socket.
#[derive(Clone)]
pub(super) struct Caller {
    world: Rc<World>,
    client: Client,
    path: Path,
    deadline: Duration,
}

impl Caller {
    pub(super) fn new(
        world: Rc<World>,
        endpoint: &Endpoint,
        path: Path,
        deadline: Duration,
    ) -> Self {
        Self {
            world,
            client: Client::acting(endpoint, 64 << 20),
            path,
            deadline,
        }
    }

    pub(super) fn with_deadline(&self, deadline: Duration) -> Self {
        Self {
            deadline,
            ..self.clone()
        }
    }

    /// Makes a call, and counts its end.
    pub(super) async fn call<Q, A>(&self, rpc: Rpc, request: Q) -> Result<A, NoAnswer>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let call = self.client.unary(ApiVersion::V1, rpc, request);
        let answer = match tokio::time::timeout(self.deadline, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) if status.code() == Code::NotFound => Err(NoAnswer::NotFound),
            Ok(Err(status)) => Err(NoAnswer::Refused(status.code())),
            Err(_) => Err(NoAnswer::Deadline),
        };
        self.world
            .counts
            .borrow_mut()
            .ended(self.path, answer.as_ref().err());
        answer
    }

    /// Lists all sandboxes, and checks the list.
    pub(super) async fn sandboxes(&self) -> Result<Vec<PodSandbox>, NoAnswer> {
        let sent = Instant::now();
        let listed = self.unchecked_sandboxes().await?;
        let rows = listed.iter();
        let rows = rows.map(|row| (row.id.clone(), of_sandbox(row.state())));
        let interval = (sent, Instant::now());
        self.check(Kind::Sandbox, &rows.collect::<Vec<_>>(), interval)
            .await;
        Ok(listed)
    }

    async fn unchecked_sandboxes(&self) -> Result<Vec<PodSandbox>, NoAnswer> {
        let request = ListPodSandboxRequest { filter: None };
        let list: ListPodSandboxResponse = self.call(Rpc::ListPodSandbox, request).await?;
        Ok(list.items)
    }

    /// Lists all containers, and checks the list.
    pub(super) async fn containers(&self) -> Result<Vec<Container>, NoAnswer> {
        let sent = Instant::now();
        let listed = self.unchecked_containers().await?;
        let rows = listed.iter();
        let rows = rows.map(|row| (row.id.clone(), of_container(row.state())));
        let interval = (sent, Instant::now());
        self.check(Kind::Container, &rows.collect::<Vec<_>>(), interval)
            .await;
        Ok(listed)
    }

    async fn unchecked_containers(&self) -> Result<Vec<Container>, NoAnswer> {
        let request = ListContainersRequest { filter: None };
        let list: ListContainersResponse = self.call(Rpc::ListContainers, request).await?;
        Ok(list.containers)
    }

    /// Requests the state of one id, and checks it. `None` if the runtime does not have the id.
    pub(super) async fn state(&self, kind: Kind, id: &str) -> Result<Option<State>, NoAnswer> {
        let sent = Instant::now();
        let shown = self.unchecked_state(kind, id).await?;
        let interval = (sent, Instant::now());
        let found = {
            let journal = self.world.journal.borrow();
            journal.check_status(kind, id, shown, interval)
        };
        self.world.counts.borrow_mut().statuses += 1;
        if let Some(found) = found {
            self.judge(found).await;
        }
        Ok(shown)
    }

    async fn unchecked_state(&self, kind: Kind, id: &str) -> Result<Option<State>, NoAnswer> {
        let id = id.to_owned();
        let state = match kind {
            Kind::Sandbox => {
                let request = PodSandboxStatusRequest {
                    pod_sandbox_id: id,
                    verbose: false,
                };
                let answer = self.call(Rpc::PodSandboxStatus, request).await;
                answer.map(|answer: PodSandboxStatusResponse| {
                    answer.status.map(|status| of_sandbox(status.state()))
                })
            }
            Kind::Container => {
                let request = ContainerStatusRequest {
                    container_id: id,
                    verbose: false,
                };
                let answer = self.call(Rpc::ContainerStatus, request).await;
                answer.map(|answer: ContainerStatusResponse| {
                    answer.status.map(|status| of_container(status.state()))
                })
            }
        };
        match state {
            Err(NoAnswer::NotFound) => Ok(None),
            state => state,
        }
    }

    /// Whether a status or a list on this client's socket shows this contradiction now.
    async fn shows(&self, found: &Contradiction) -> bool {
        let status = self.unchecked_state(found.kind, &found.id).await;
        if status.is_ok_and(|state| state == found.shown) {
            return true;
        }
        let listed = match found.kind {
            Kind::Sandbox => self.unchecked_sandboxes().await.map(|list| {
                let row = list.iter().find(|row| row.id == found.id);
                row.map(|row| of_sandbox(row.state()))
            }),
            Kind::Container => self.unchecked_containers().await.map(|list| {
                let row = list.iter().find(|row| row.id == found.id);
                row.map(|row| of_container(row.state()))
            }),
        };
        listed.is_ok_and(|state| state == found.shown)
    }

    async fn check(&self, kind: Kind, rows: &[(String, State)], interval: Interval) {
        let found = self.world.journal.borrow().check_list(kind, rows, interval);
        self.world
            .counts
            .borrow_mut()
            .listed(self.path, interval.1 - interval.0);
        for contradiction in found {
            self.judge(contradiction).await;
        }
    }

    /// Counts a contradiction. It is the runtime's own if a status or a list of the runtime itself shows
    /// it: containerd 2 lists a sandbox as READY while the status is NOTREADY.
    async fn judge(&self, found: Contradiction) {
        let direct = self.world.direct.borrow().clone();
        let is_own = match (self.path, direct) {
            (Path::Runtime, _) => true,
            (Path::Guard, Some(direct)) if found.rule != Rule::Doubled => {
                Box::pin(direct.with_deadline(CONFIRMED_WITHIN).shows(&found)).await
            }
            (Path::Guard, _) => false,
        };
        self.world
            .counts
            .borrow_mut()
            .contradicted(found.rule, is_own);
        let kind = match is_own {
            true => "contradiction of the runtime itself",
            false => "DANGEROUS",
        };
        self.world.log(&format!("{kind}: {found:?}"));
    }
}

/// The number of calls, by result.
pub(super) type Ends = BTreeMap<String, u64>;

fn of_sandbox(state: PodSandboxState) -> State {
    match state {
        PodSandboxState::SandboxReady => State::Runs,
        PodSandboxState::SandboxNotready => State::Ended,
    }
}

fn of_container(state: ContainerState) -> State {
    match state {
        ContainerState::ContainerRunning => State::Runs,
        ContainerState::ContainerExited => State::Ended,
        ContainerState::ContainerCreated | ContainerState::ContainerUnknown => State::Other,
    }
}
