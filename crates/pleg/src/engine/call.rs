//! Calls to the runtime: what is requested, for which purpose, and the answer.

use std::sync::Arc;

use tokio::time::Instant;

use crate::model::id::{Id, PodRef, PodUid};
use crate::model::listed::{ListedContainer, ListedPod, ListedSandbox};
use crate::model::status::{ContainerStatus, SandboxStatus};
use crate::records::Ticket;
use crate::runtime::{About, CallError, Listing, Rpc, Runtime, RuntimeVersion, of_the_requested};

pub(crate) use base::ledger::Key;

/// What a call requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Request {
    Version,
    List(List),
    Sandbox(Id),
    Container(Id),
    /// The PID of a container's init process, from a verbose `ContainerStatus`.
    Pid(Id),
}

/// One of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Sandboxes,
    Containers,
}

impl List {
    pub(crate) const BOTH: [Self; 2] = [Self::Sandboxes, Self::Containers];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Sandboxes => Self::Containers,
            Self::Containers => Self::Sandboxes,
        }
    }

    pub(crate) fn rpc(self) -> Rpc {
        match self {
            Self::Sandboxes => Rpc::ListPodSandbox,
            Self::Containers => Rpc::ListContainers,
        }
    }
}

impl Request {
    /// The status calls of a listed pod: first for its sandboxes, then for its containers.
    pub(crate) fn all_of(pod: &ListedPod) -> impl Iterator<Item = Self> {
        let sandboxes = pod.sandboxes.iter().map(|row| row.id.clone());
        let containers = pod.containers.iter().map(|row| row.id.clone());
        sandboxes
            .map(Self::Sandbox)
            .chain(containers.map(Self::Container))
    }

    pub(crate) fn id(&self) -> Option<&Id> {
        match self {
            Self::Version | Self::List(_) => None,
            Self::Sandbox(id) | Self::Container(id) | Self::Pid(id) => Some(id),
        }
    }

    /// What the call is about, for the ledger and for reports.
    pub(crate) fn about(&self, container: Option<&Arc<str>>, pod: Option<&PodRef>) -> About {
        let (call, id) = self.key();
        About {
            call,
            id,
            // A container that is known only by its id has no name yet.
            container: container.filter(|name| !name.is_empty()).cloned(),
            pod: pod.cloned(),
        }
    }

    /// What the call is about. The pod is the one in which its id is listed.
    pub(crate) fn about_in(&self, pod: &ListedPod) -> About {
        let container = match self {
            Self::Container(id) => pod.container_name(id),
            _ => None,
        };
        self.about(container, Some(&pod.pod))
    }

    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Version => (Rpc::Version, None),
            Self::List(list) => (list.rpc(), None),
            Self::Sandbox(id) => (Rpc::PodSandboxStatus, Some(id.clone())),
            Self::Container(id) | Self::Pid(id) => (Rpc::ContainerStatus, Some(id.clone())),
        }
    }

    /// The answer to this request if it failed with `error`.
    pub(crate) fn failed_with(&self, error: CallError) -> Answer {
        match self {
            Self::Version => Answer::Version(Err(error)),
            Self::List(List::Sandboxes) => Answer::Sandboxes(Err(error)),
            Self::List(List::Containers) => Answer::Containers(Err(error)),
            Self::Sandbox(_) => Answer::Sandbox(Err(error)),
            Self::Container(_) => Answer::Container(Err(error)),
            Self::Pid(_) => Answer::Pid(Err(error)),
        }
    }

    /// Sends the request. Returns when the runtime answers or the connection is lost.
    pub(crate) async fn send(self, runtime: &impl Runtime) -> Answer {
        match self {
            Self::Version => Answer::Version(runtime.version().await),
            Self::List(List::Sandboxes) => Answer::Sandboxes(runtime.list_sandboxes().await),
            Self::List(List::Containers) => Answer::Containers(runtime.list_containers().await),
            Self::Sandbox(id) => {
                let answer = runtime.sandbox_status(&id).await;
                Answer::Sandbox(answer.and_then(|status| of_the_requested(&id, status)))
            }
            Self::Container(id) => {
                let answer = runtime.container_status(&id).await;
                Answer::Container(answer.and_then(|status| of_the_requested(&id, status)))
            }
            Self::Pid(id) => Answer::Pid(runtime.container_pid(&id).await),
        }
    }
}

/// The answer to a request.
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

/// Why a call is made. This decides where the answer is taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The purpose of every call for a list, `Version` or a PID, and of no other call.
    Usual,
    /// The status of one id, as part of a sweep. Contains the pod of the id if it is known.
    Sweep(Option<PodUid>),
    /// A status for this inspection.
    Inspect(Ticket),
    /// Shows whether the runtime reports an exit that the kernel has reported.
    Death,
    /// Shows whether a container or sandbox has started or ended. The kernel has reported only its id.
    Birth,
    /// Shows whether other calls are answered while one is not.
    Witness,
}

impl Purpose {
    /// Whether the answer is used as the state of the requested id.
    pub(crate) fn is_observation(&self) -> bool {
        matches!(self, Self::Sweep(_) | Self::Inspect(..) | Self::Death)
    }
}

/// A call to be made.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) request: Request,
    pub(crate) purpose: Purpose,
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) call: Call,
    /// When the call was sent.
    pub(crate) begun: Instant,
    pub(crate) answer: Answer,
}
