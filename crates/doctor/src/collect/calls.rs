//! The calls that are outstanding, each in a task of its own: whoever waits for one waits for no
//! other.

use std::collections::BTreeMap;
use std::sync::Arc;

use cri::{Endpoint, Rpc};
use pleg::model::id::Id;
use pleg::model::listed::{ListedContainer, ListedSandbox};
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::runtime::{CallError, Conditions, Listing, Runtime, RuntimeVersion, of_the_asked};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::bounded::bounded;
use super::targets::Target;
use crate::facts::probes::{End, Probe};

/// What is asked: a method, and for whom, unless for the whole node.
pub(super) type Question = (Rpc, Option<Id>);

/// The calls that are outstanding.
pub(super) struct Calls {
    runtime: Arc<GrpcRuntime>,
    /// They end with this.
    tasks: JoinSet<(Question, Result<Answer, CallError>)>,
    outstanding: BTreeMap<Question, Outstanding>,
}

/// A call that is not answered yet.
pub(super) struct Outstanding {
    pub since: Instant,
    /// For whom, unless it is for the whole node.
    pub target: Option<Target>,
    /// No other was outstanding meanwhile.
    pub alone: bool,
}

/// A call that has ended.
pub(super) struct EndedCall {
    pub method: Rpc,
    pub call: Outstanding,
    pub answer: Result<Answer, CallError>,
}

/// What a call was answered.
pub(super) enum Answer {
    Version(RuntimeVersion),
    Conditions(Conditions),
    Sandboxes(Listing<ListedSandbox>),
    Containers(Listing<ListedContainer>),
    /// The status of a container or sandbox.
    OfOne,
}

impl Outstanding {
    /// The call as it is now, with this end.
    pub fn probe(&self, method: Rpc, end: End) -> Probe {
        let target = self.target.as_ref();
        Probe {
            call: method,
            id: target.map(|target| bounded(target.id.as_str())),
            end,
            seconds: self.since.elapsed().as_secs_f64(),
            by_agent: false,
            bytes: None,
            pod: target.and_then(|target| target.pod.clone()),
            container: target.and_then(|target| target.container.clone()),
        }
    }
}

impl Calls {
    pub fn new(endpoint: &Endpoint) -> Self {
        Self {
            runtime: Arc::new(GrpcRuntime::new(endpoint, MAX_MESSAGE_SIZE)),
            tasks: JoinSet::new(),
            outstanding: BTreeMap::new(),
        }
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.runtime.connections()
    }

    pub fn is_empty(&self) -> bool {
        self.outstanding.is_empty()
    }

    pub fn is_waiting_for(&self, question: &Question) -> bool {
        self.outstanding.contains_key(question)
    }

    /// What is outstanding, and since when.
    pub fn times(&self) -> BTreeMap<Question, Instant> {
        let calls = self.outstanding.iter();
        calls
            .map(|(question, call)| (question.clone(), call.since))
            .collect()
    }

    /// What is outstanding, and for what.
    pub fn all(&self) -> impl Iterator<Item = (&Question, &Outstanding)> {
        self.outstanding.iter()
    }

    pub fn outstanding(&self) -> impl Iterator<Item = &Outstanding> {
        self.outstanding.values()
    }

    /// Makes a call, unless it is outstanding already.
    pub fn start(&mut self, call: Rpc, target: Option<Target>) {
        let id = target.as_ref().map(|target| target.id.clone());
        let question = (call, id.clone());
        if self.is_waiting_for(&question) {
            return;
        }
        let alone = self.outstanding.is_empty();
        for other in self.outstanding.values_mut() {
            other.alone = false;
        }
        let since = Instant::now();
        let outstanding = Outstanding {
            since,
            target,
            alone,
        };
        self.outstanding.insert(question.clone(), outstanding);
        let runtime = self.runtime.clone();
        self.tasks.spawn(async move {
            let answer = ask(&runtime, call, id.as_ref()).await;
            (question, answer)
        });
    }

    /// The next call that ends; `None` if none ends in time.
    pub async fn one_ends(&mut self, until: Instant) -> Option<EndedCall> {
        let ended = timeout_at(until, self.tasks.join_next()).await.ok()??;
        let (question, answer) = ended.expect("no call is cancelled, and none panics");
        let call = self.outstanding.remove(&question)?;
        let (method, _) = question;
        Some(EndedCall {
            method,
            call,
            answer,
        })
    }

    /// Ends those that are outstanding; the connection stays.
    pub fn end_all(&mut self) {
        self.outstanding.clear();
        self.tasks = JoinSet::new();
    }

    /// Waits for none of them any longer.
    pub fn give_up(&mut self) -> impl Iterator<Item = (Question, Outstanding)> + use<> {
        std::mem::take(&mut self.outstanding).into_iter()
    }
}

async fn ask(runtime: &GrpcRuntime, call: Rpc, id: Option<&Id>) -> Result<Answer, CallError> {
    match (call, id) {
        (Rpc::ListPodSandbox, _) => Ok(Answer::Sandboxes(runtime.list_sandboxes().await?)),
        (Rpc::ListContainers, _) => Ok(Answer::Containers(runtime.list_containers().await?)),
        (Rpc::Status, _) => Ok(Answer::Conditions(runtime.conditions().await?)),
        (Rpc::PodSandboxStatus, Some(id)) => {
            let status = runtime.sandbox_status(id).await?;
            of_the_asked(id, status).map(|_| Answer::OfOne)
        }
        (Rpc::ContainerStatus, Some(id)) => {
            let status = runtime.container_status(id).await?;
            of_the_asked(id, status).map(|_| Answer::OfOne)
        }
        (Rpc::Version, _) => Ok(Answer::Version(runtime.version().await?)),
        // A round starts no others.
        _ => Err(CallError::Unimplemented(
            format!("{call} is never called").into(),
        )),
    }
}
