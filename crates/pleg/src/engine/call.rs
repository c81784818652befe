//! What is asked of the runtime, for whom, and what it answered.

use tokio::time::Instant;

use crate::model::id::{Id, PodUid};
use crate::model::listed::{ListedContainer, ListedSandbox};
use crate::model::status::{ContainerStatus, SandboxStatus};
use crate::runtime::{CallError, Listing, Rpc, Runtime, RuntimeVersion, of_the_asked};

pub(crate) use base::ledger::Key;

/// What the runtime is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    Version,
    List(List),
    Sandbox(Id),
    Container(Id),
    /// The pid of a container's init process: a verbose `ContainerStatus`.
    Pid(Id),
}

/// One of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Sandboxes,
    Containers,
}

impl List {
    pub(crate) fn rpc(self) -> Rpc {
        match self {
            Self::Sandboxes => Rpc::ListPodSandbox,
            Self::Containers => Rpc::ListContainers,
        }
    }
}

impl Question {
    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Version => (Rpc::Version, None),
            Self::List(list) => (list.rpc(), None),
            Self::Sandbox(id) => (Rpc::PodSandboxStatus, Some(id.clone())),
            Self::Container(id) | Self::Pid(id) => (Rpc::ContainerStatus, Some(id.clone())),
        }
    }

    /// The answer to one that has failed so.
    pub(crate) fn failed(&self, error: CallError) -> Answer {
        match self {
            Self::Version => Answer::Version(Err(error)),
            Self::List(List::Sandboxes) => Answer::Sandboxes(Err(error)),
            Self::List(List::Containers) => Answer::Containers(Err(error)),
            Self::Sandbox(_) => Answer::Sandbox(Err(error)),
            Self::Container(_) => Answer::Container(Err(error)),
            Self::Pid(_) => Answer::Pid(Err(error)),
        }
    }

    /// Asks. Ends when the runtime answers or the connection is gone.
    pub(crate) async fn ask(self, runtime: &impl Runtime) -> Answer {
        match self {
            Self::Version => Answer::Version(runtime.version().await),
            Self::List(List::Sandboxes) => Answer::Sandboxes(runtime.list_sandboxes().await),
            Self::List(List::Containers) => Answer::Containers(runtime.list_containers().await),
            Self::Sandbox(id) => {
                let answer = runtime.sandbox_status(&id).await;
                Answer::Sandbox(answer.and_then(|status| of_the_asked(&id, status)))
            }
            Self::Container(id) => {
                let answer = runtime.container_status(&id).await;
                Answer::Container(answer.and_then(|status| of_the_asked(&id, status)))
            }
            Self::Pid(id) => Answer::Pid(runtime.container_pid(&id).await),
        }
    }
}

/// What the runtime answered.
#[derive(Debug)]
pub(crate) enum Answer {
    Version(Result<RuntimeVersion, CallError>),
    Sandboxes(Result<Listing<ListedSandbox>, CallError>),
    Containers(Result<Listing<ListedContainer>, CallError>),
    Sandbox(Result<SandboxStatus, CallError>),
    Container(Result<ContainerStatus, CallError>),
    Pid(Result<Option<u32>, CallError>),
}

impl Answer {
    pub(crate) fn error(&self) -> Option<&CallError> {
        match self {
            Self::Version(answer) => answer.as_ref().err(),
            Self::Sandboxes(answer) => answer.as_ref().err(),
            Self::Containers(answer) => answer.as_ref().err(),
            Self::Sandbox(answer) => answer.as_ref().err(),
            Self::Container(answer) => answer.as_ref().err(),
            Self::Pid(answer) => answer.as_ref().err(),
        }
    }
}

/// Why something is asked: who takes the answer in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A part of a relist.
    Relist,
    /// The list that answers, during a sweep in place of the other.
    SweepList,
    /// One id of a sweep, with its pod where that is known.
    Sweep(Option<PodUid>),
    /// A part of the inspection with this number.
    Inspect(PodUid, u64),
    /// The pid of a container that runs.
    Pid,
    /// Whether the runtime knows of a death that the kernel told.
    Death,
    /// What an id is that the kernel reported, and whether it has started or ended.
    Birth,
    /// Whether others are answered while one is not.
    Witness,
    /// Whether the runtime lives.
    Heartbeat,
}

impl Purpose {
    /// Whether the answer is taken for how it is with the id that was asked for.
    pub(crate) fn is_look(&self) -> bool {
        matches!(self, Self::Sweep(_) | Self::Inspect(..) | Self::Death)
    }
}

/// A call to be made.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) question: Question,
    pub(crate) purpose: Purpose,
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) call: Call,
    /// When it was made.
    pub(crate) begun: Instant,
    pub(crate) answer: Answer,
}
