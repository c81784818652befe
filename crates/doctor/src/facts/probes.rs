//! What the runtime answered when it was asked, call by call.

use pleg::runtime::{Condition, Conditions, RuntimeVersion};
use serde::{Deserialize, Serialize};

use super::Fact;
use super::kubelet::KubeletHealth;
use super::stacks::Stacks;
use super::tasks::Task;
use crate::finding::PodName;

/// The answers of the runtime, and who stands behind them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeFacts {
    /// The runtime's socket; empty where none was found.
    pub endpoint: String,
    /// Whether it was root who asked: much is hidden from others.
    pub as_root: bool,
    /// Who answers there.
    pub runtime: Option<RuntimeVersion>,
    /// The calls for the whole node, those that went wrong, and the slowest of each kind.
    pub calls: Vec<Probe>,
    /// What the calls cost, those that are not kept included.
    pub costs: Vec<Cost>,
    /// What the lists hold, or an agent knows.
    pub rows: Option<Rows>,
    /// What the runtime says of itself.
    pub conditions: Option<Conditions>,
    /// How many containers and sandboxes were not asked for, for lack of time or because
    /// too many calls hung already.
    pub unasked: usize,
    /// The process that listens on the socket.
    pub listener: Fact<u32>,
    /// The containers that run, as the runtime's folders tell.
    pub tasks: Fact<Vec<Task>>,
    /// The kubelet's own `/healthz`.
    pub kubelet: Fact<KubeletHealth>,
    /// What an agent says, where it was heard because we may not ask the runtime.
    pub agent: Option<AgentsWord>,
    /// The runtime's goroutines, if asking for them was allowed and something hung.
    pub stacks: Fact<Stacks>,
}

/// The methods that are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "they are CRI's")]
pub enum Method {
    Version,
    Status,
    ListPodSandbox,
    ListContainers,
    PodSandboxStatus,
    ContainerStatus,
}

impl Method {
    /// CRI's name of it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Version => "Version",
            Self::Status => "Status",
            Self::ListPodSandbox => "ListPodSandbox",
            Self::ListContainers => "ListContainers",
            Self::PodSandboxStatus => "PodSandboxStatus",
            Self::ContainerStatus => "ContainerStatus",
        }
    }

    /// What the kubelet's metrics call it: their `operation_type`.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Status => "status",
            Self::ListPodSandbox => "list_podsandbox",
            Self::ListContainers => "list_containers",
            Self::PodSandboxStatus => "podsandbox_status",
            Self::ContainerStatus => "container_status",
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It was answered.
    Ok,
    /// It was not, within its deadline.
    Hung,
    /// The answer was an error.
    Error,
    /// There was no connection.
    Refused,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// CRI's method.
    pub call: Method,
    /// The container or sandbox that was asked for.
    pub id: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, or has been taking.
    pub seconds: f64,
    /// The error's words, or whose call it is if an agent waits for it.
    pub message: Option<String>,
    /// An agent made it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_agent: bool,
    /// The answer's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The pod, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodName>,
    /// The container's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

/// What an agent on the node says of itself and of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentsWord {
    /// Its state: `Healthy`.
    pub health: String,
    /// The sentence that goes with it.
    pub message: String,
    /// How long its last relist took.
    pub relist_seconds: Option<f64>,
    /// Why a list failed, where the runtime answers otherwise.
    pub failure: Option<String>,
}

impl AgentsWord {
    /// Whether it sees every pod.
    pub fn is_healthy(&self) -> bool {
        self.health == "Healthy"
    }
}

/// What calls of one kind cost, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Which.
    pub call: Method,
    /// How many were answered.
    #[serde(default)]
    pub count: usize,
    /// The median.
    #[serde(default)]
    pub p50: f64,
    /// 90 of 100 took no longer.
    #[serde(default)]
    pub p90: f64,
    /// 99 of 100 took no longer.
    #[serde(default)]
    pub p99: f64,
    /// The slowest.
    #[serde(default)]
    pub max: f64,
    /// The mean of those that were made one after the other, as the kubelet makes them; where
    /// these are few, no more than the mean of all.
    pub alone: Option<f64>,
}

/// What is on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rows {
    /// All sandboxes.
    pub sandboxes: usize,
    /// Those of them that do not run any more.
    pub dead_sandboxes: usize,
    /// All containers.
    pub containers: usize,
    /// Those of them that have exited.
    pub exited: usize,
    /// The namespace with the most that is dead, and how much.
    pub most_dead: Option<(String, usize)>,
}

impl Probe {
    /// Whose word it is, behind a sentence.
    pub fn source(&self) -> &'static str {
        match self.by_agent {
            true => ", as the agent on this node says",
            false => "",
        }
    }

    /// Whether it was we who may not ask, which says nothing of the runtime.
    pub fn is_forbidden(&self) -> bool {
        let why = self.message.as_deref().unwrap_or_default();
        self.outcome == Outcome::Refused && why.to_ascii_lowercase().contains("permission denied")
    }
}

impl ProbeFacts {
    /// The call of that kind for the whole node, if it was made.
    pub fn node(&self, call: Method) -> Option<&Probe> {
        let mut calls = self.calls.iter();
        calls.find(|probe| probe.call == call && probe.id.is_none())
    }

    /// How the call of that kind for the whole node ended.
    pub fn outcome(&self, call: Method) -> Option<Outcome> {
        self.node(call).map(|probe| probe.outcome)
    }

    /// The calls of that kind for one id that hang.
    pub fn hung(&self, call: Method) -> impl Iterator<Item = &Probe> {
        self.calls.iter().filter(move |probe| {
            probe.call == call && probe.id.is_some() && probe.outcome == Outcome::Hung
        })
    }

    /// A condition of the runtime's that should be met, and is not.
    pub fn unmet(&self, kind: &str) -> Option<&Condition> {
        let told = self.conditions.as_ref()?.conditions.iter();
        let mut unmet = told.filter(|condition| !condition.met);
        unmet.find(|condition| condition.kind == kind)
    }

    /// Whether it said that it is containerd.
    pub fn is_containerd(&self) -> bool {
        let runtime = self.runtime.as_ref();
        runtime.is_some_and(|runtime| &*runtime.name == "containerd")
    }

    /// Whether any call hangs.
    pub fn any_hung(&self) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|probe| probe.outcome == Outcome::Hung)
    }

    /// What calls of that kind cost, if any was answered.
    pub fn cost(&self, call: Method) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.call == call)
    }

    /// Whether the runtime may be containerd: those that are known not to be say so.
    pub fn may_be_containerd(&self) -> bool {
        let runtime = self.runtime.as_ref();
        runtime.is_none_or(|runtime| !matches!(&*runtime.name, "cri-o" | "docker" | "cri-dockerd"))
    }
}
