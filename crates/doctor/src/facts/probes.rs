//! What the runtime answered when it was asked, call by call.

use causes::finding::PodName;
use pleg::out::health::{HealthState, Reason};
use pleg::out::status_report::GuardMode;
use pleg::runtime::Rpc;
use pleg::runtime::{CallError, Condition, Conditions, NoConnection, RuntimeVersion, Unreachable};
use serde::{Deserialize, Serialize};

use super::Fact;
use super::kubelet::KubeletHealth;
use super::stacks::Stacks;
use super::tasks::Task;

mod report;

pub use report::ProbeReport;

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
    /// How many status calls of each kind failed, those that are not kept included.
    pub failures: Vec<Failures>,
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
    /// The guard on this node, between the kubelet and the runtime that was asked.
    #[serde(default)]
    pub guard: Option<GuardFacts>,
    /// The runtime's goroutines, if asking for them was allowed and something hung.
    pub stacks: Fact<Stacks>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "error")]
pub enum End {
    /// It was answered.
    Answered,
    /// It was not answered within its deadline.
    Hung,
    /// It failed.
    Failed(CallError),
}

/// How a call ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
    pub call: Rpc,
    /// The container or sandbox that was asked for.
    pub id: Option<String>,
    /// How it ended.
    pub end: End,
    /// How long it took, or has been taking.
    pub seconds: f64,
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

/// A guard between the kubelet and the runtime: the kubelet's side of the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuardFacts {
    /// What it does.
    pub mode: GuardMode,
    /// For how long it has answered lists in place of the runtime, if it does now.
    pub since_seconds: Option<f64>,
    /// Whether one fault was guarded for as long as the limit allows.
    pub limit_reached: bool,
    /// Whether the kubelet behind it is Ready, as far as that depends on lists.
    pub kubelet_ready: bool,
    /// Why.
    pub kubelet: String,
}

/// What an agent on the node says of itself and of the runtime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentsWord {
    /// Its state.
    pub state: HealthState,
    /// Why it is in that state.
    pub reason: Reason,
    /// The sentence that goes with it.
    pub message: String,
    /// How long its last relist took.
    pub relist_seconds: Option<f64>,
    /// Why a list failed, where the runtime answers otherwise.
    pub failure: Option<CallError>,
}

impl AgentsWord {
    /// Whether it sees every pod.
    pub fn is_healthy(&self) -> bool {
        self.state == HealthState::Healthy
    }
}

/// What calls of one kind cost, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Which.
    pub call: Rpc,
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

/// Calls of one kind for single ids that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failures {
    /// Which.
    pub call: Rpc,
    /// How many failed.
    pub failed: usize,
    /// How many were made.
    pub made: usize,
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

    /// How it ended, in one word.
    pub fn outcome(&self) -> Outcome {
        match &self.end {
            End::Answered => Outcome::Ok,
            End::Hung => Outcome::Hung,
            End::Failed(CallError::Unavailable(_)) => Outcome::Refused,
            End::Failed(_) => Outcome::Error,
        }
    }

    /// Why it failed, if it did.
    pub fn error(&self) -> Option<&CallError> {
        match &self.end {
            End::Failed(error) => Some(error),
            End::Answered | End::Hung => None,
        }
    }

    /// What kept us from a connection, if that is why it failed.
    pub fn no_connection(&self) -> Option<NoConnection> {
        match self.error()? {
            CallError::Unavailable(Unreachable { cause, .. }) => Some(*cause),
            _ => None,
        }
    }

    /// Whether it was we who may not ask, which says nothing of the runtime.
    pub fn is_forbidden(&self) -> bool {
        self.no_connection() == Some(NoConnection::Forbidden)
    }
}

/// A call that hangs for more ids at once is held up by a daemon, and not by each of them.
pub const MAX_SINGLED_OUT: usize = 2;

impl ProbeFacts {
    /// The call of that kind for the whole node, if it was made.
    pub fn node(&self, call: Rpc) -> Option<&Probe> {
        let mut calls = self.calls.iter();
        calls.find(|probe| probe.call == call && probe.id.is_none())
    }

    /// How the call of that kind for the whole node ended.
    pub fn outcome(&self, call: Rpc) -> Option<Outcome> {
        self.node(call).map(Probe::outcome)
    }

    /// The calls of that kind for one id that hang.
    pub fn hung(&self, call: Rpc) -> impl Iterator<Item = &Probe> {
        self.calls
            .iter()
            .filter(move |probe| probe.call == call && probe.id.is_some() && probe.end == End::Hung)
    }

    /// Whether the runtime as a whole does not answer: then a call that hangs says nothing of
    /// the container that it asks for.
    pub fn is_silent(&self) -> bool {
        self.outcome(Rpc::Version) == Some(Outcome::Hung)
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

    /// Whether it said that it is CRI-O.
    pub fn is_crio(&self) -> bool {
        let runtime = self.runtime.as_ref();
        runtime.is_some_and(|runtime| &*runtime.name == "cri-o")
    }

    /// Whether any call hangs.
    pub fn any_hung(&self) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|probe| probe.end == End::Hung)
    }

    /// What calls of that kind cost, if any was answered.
    pub fn cost(&self, call: Rpc) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.call == call)
    }

    /// The calls of that kind that hang, as far as that singles anybody out: others of the kind
    /// are answered, if only to an agent, and have waited for less long. Otherwise it is the
    /// runtime as a whole.
    pub fn singled_out(&self, call: Rpc) -> Vec<&Probe> {
        let others = self.cost(call);
        let is_answered = others.is_some_and(|cost| cost.count > 0) || self.agent.is_some();
        let slowest = others.map_or(0.0, |cost| cost.max);
        let hung = self.hung(call);
        let out: Vec<&Probe> = hung
            .filter(|probe| is_answered && probe.seconds > slowest)
            .collect();
        match out.len() > MAX_SINGLED_OUT {
            true => Vec::new(),
            false => out,
        }
    }

    /// Whether the runtime may be containerd: those that are known not to be say so.
    pub fn may_be_containerd(&self) -> bool {
        let runtime = self.runtime.as_ref();
        runtime.is_none_or(|runtime| !matches!(&*runtime.name, "cri-o" | "docker" | "cri-dockerd"))
    }
}
