//! The calls to the runtime and their outcomes, and other facts about the runtime and its clients.

use causes::finding::PodName;
use pleg::out::health::{HealthState, Reason};
use pleg::out::status_report::GuardMode;
use pleg::runtime::{
    CallError, Condition, Conditions, NoConnection, Rpc, RuntimeVersion, Unreachable,
};
use serde::{Deserialize, Serialize};

use super::Fact;
use super::kubelet::KubeletHealth;
use super::stacks::Stacks;
use super::tasks::Task;

mod report;

pub use report::ProbeReport;

/// What is known about the runtime, its containers, and its clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeFacts {
    /// The runtime's socket; empty if none was found.
    pub endpoint: String,
    /// Whether the doctor ran as root: other users cannot read many facts.
    pub as_root: bool,
    /// The runtime's name and version.
    pub runtime: Option<RuntimeVersion>,
    /// The calls for the whole node, and the status calls that hang, have failed or were slow.
    pub calls: Vec<Probe>,
    /// How long calls of each kind took, including calls that are not in `calls`.
    pub costs: Vec<Cost>,
    /// How many status calls of each kind failed, including calls that are not in `calls`.
    pub failures: Vec<Failures>,
    /// The counts of what was listed, or of what an agent knows.
    pub rows: Option<Rows>,
    /// The conditions that the runtime reports.
    pub conditions: Option<Conditions>,
    /// Whether other calls are answered while `Version` hangs.
    pub besides_version: OtherCalls,
    /// How many pods were not observed in time, and are not reported with a call that hangs or fails.
    pub unobserved: usize,
    /// How many status calls were not made or not answered in time. Set only in bundles of earlier versions
    /// of pleg, which made calls without an engine.
    pub unasked: usize,
    /// How many containers and sandboxes may be listed as running although they have exited: the lists
    /// were not answered again, or the processes could not be read in time.
    pub undecided: usize,
    /// Whether the connection to the runtime was lost during status calls.
    pub went_away: ConnectionLosses,
    /// The process that listens on the socket.
    pub listener: Fact<u32>,
    /// The running containers, according to the runtime's state directories.
    pub tasks: Fact<Vec<Task>>,
    /// The kubelet's own `/healthz`.
    pub kubelet: Fact<KubeletHealth>,
    /// What an agent on the node reports, if the runtime was observed by its engine.
    pub agent: Option<AgentReport>,
    /// Why an agent cannot reach the runtime, although the doctor can. Set only in bundles of earlier
    /// versions of pleg, which made calls without an engine.
    pub unreachable_to_agent: Option<String>,
    /// The guard on this node, between the kubelet and the runtime.
    #[serde(default)]
    pub guard: Option<GuardFacts>,
    /// The runtime's goroutines, if the operator allows the signal and a call hung.
    pub stacks: Fact<Stacks>,
}

/// Whether the connection to the runtime was lost, and during which status calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "calls")]
pub enum ConnectionLosses {
    /// The connection was not lost.
    #[default]
    Never,
    /// The connection was lost during each of these calls; all other calls have been answered since.
    During(Vec<Probe>),
    /// The connection was lost each time that calls were made, so only the runtime's version is known, and
    /// only if the runtime is reachable again. These calls were outstanding the last time.
    EachTime(Vec<Probe>),
}

impl ConnectionLosses {
    /// The status calls during which the connection was lost.
    pub fn calls(&self) -> &[Probe] {
        match self {
            Self::Never => &[],
            Self::During(calls) | Self::EachTime(calls) => calls,
        }
    }
}

/// How other calls end while `Version` hangs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OtherCalls {
    /// It is not known how other calls end.
    #[default]
    Unknown,
    /// Other calls are answered.
    Answered,
    /// Other calls hang as well, including those that were answered before.
    Hang,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "error")]
pub enum End {
    /// The call was answered.
    Answered,
    /// The call was not answered within its deadline.
    Hung,
    /// The call failed.
    Failed(CallError),
}

/// How a call ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The call was answered.
    Ok,
    /// The call was not answered within its deadline.
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
    /// The container or sandbox whose status was requested; none for a call about the whole node.
    pub id: Option<String>,
    /// How it ended.
    pub end: End,
    /// How long it took, or has been taking.
    pub seconds: f64,
    /// Whether an agent made the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_agent: bool,
    /// The answer's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The pod, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodName>,
    /// The container's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

/// A guard between the kubelet and the runtime, and what the kubelet receives from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuardFacts {
    /// Its mode.
    pub mode: GuardMode,
    /// How long it has been answering lists in place of the runtime, in seconds, if it is doing so.
    pub since_seconds: Option<f64>,
    /// Whether it cannot answer lists because the runtime answers no call at all.
    #[serde(default)]
    pub runtime_silent: bool,
    /// Whether lists are overdue, and it has answered or refused none yet.
    #[serde(default)]
    pub waiting: bool,
    /// Whether it refuses lists because not everything in them can be confirmed.
    #[serde(default)]
    pub refusing: bool,
    /// Whether it has guarded against one fault for as long as the limit allows.
    pub limit_reached: bool,
    /// For how many seconds no kubelet has used it; `None` if one does.
    #[serde(default)]
    pub unused_seconds: Option<f64>,
    /// Whether the kubelet that uses it is Ready, judging by lists alone.
    pub kubelet_ready: bool,
    /// Why the kubelet is Ready or not.
    pub kubelet: String,
}

/// What an agent on the node reports about itself and the runtime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReport {
    /// The agent's health.
    pub state: HealthState,
    /// Why the agent's health is in that state.
    pub reason: Reason,
    /// The agent's message about its health.
    pub message: String,
    /// How long its last relist took.
    pub relist_seconds: Option<f64>,
    /// Why a list failed, if the runtime answers other calls. Set only in bundles of earlier versions of
    /// pleg, which made calls without an engine.
    pub failure: Option<CallError>,
}

impl AgentReport {
    /// Whether all pods are up to date.
    pub fn is_healthy(&self) -> bool {
        self.state == HealthState::Healthy
    }
}

/// How long calls of one kind took, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// The kind of call.
    pub call: Rpc,
    /// How many calls were answered.
    #[serde(default)]
    pub count: usize,
    /// The median.
    #[serde(default)]
    pub p50: f64,
    /// The 90th percentile.
    #[serde(default)]
    pub p90: f64,
    /// The 99th percentile.
    #[serde(default)]
    pub p99: f64,
    /// The slowest call.
    #[serde(default)]
    pub max: f64,
    /// The mean of the calls that were made while no other call was outstanding, as a kubelet makes them.
    /// If there are few of these, it is at most the mean of all calls.
    pub alone: Option<f64>,
}

/// How many calls of one kind for single ids failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failures {
    /// The kind of call.
    pub call: Rpc,
    /// How many failed.
    pub failed: usize,
    /// How many were made.
    pub made: usize,
}

/// How many containers and sandboxes are on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rows {
    /// All sandboxes.
    pub sandboxes: usize,
    /// Sandboxes that are not ready.
    pub dead_sandboxes: usize,
    /// All containers.
    pub containers: usize,
    /// Containers that have exited.
    pub exited: usize,
    /// The namespace with the most dead containers and sandboxes, and their number.
    pub most_dead: Option<(String, usize)>,
}

impl Probe {
    /// A call for the whole node that the doctor itself made.
    pub fn new(call: Rpc, end: End, seconds: f64) -> Self {
        Self {
            call,
            id: None,
            end,
            seconds,
            by_agent: false,
            bytes: None,
            pod: None,
            container: None,
        }
    }

    /// A note to append to a sentence about the call, if an agent made it.
    pub fn source(&self) -> &'static str {
        match self.by_agent {
            true => " (reported by the agent on this node)",
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

    /// Why there was no connection, if the call failed for that reason.
    pub fn no_connection(&self) -> Option<NoConnection> {
        match self.error()? {
            CallError::Unavailable(Unreachable { cause, .. }) => Some(*cause),
            _ => None,
        }
    }

    /// Whether it failed because the doctor lacks permission to connect, which is no evidence about the
    /// runtime.
    pub fn is_forbidden(&self) -> bool {
        self.no_connection() == Some(NoConnection::Forbidden)
    }
}

/// The calls for the statistics of all containers, from which a kubelet decides what it evicts.
pub const STATISTICS: [Rpc; 3] = [
    Rpc::ListContainerStats,
    Rpc::ListPodSandboxStats,
    Rpc::ListPodSandboxMetrics,
];

/// For how many ids a call may hang at once. If it hangs for more, a daemon is the cause, not each of the
/// containers.
pub const MAX_SINGLED_OUT: usize = 2;

impl ProbeFacts {
    /// The calls in `calls`, and those during which the connection was lost.
    pub fn all(&self) -> impl Iterator<Item = &Probe> {
        self.calls.iter().chain(self.went_away.calls())
    }

    /// Whether the connection was lost each time that calls were made, and the runtime is reachable again:
    /// only its version is known.
    pub fn is_interrupted(&self) -> bool {
        let is_back = self.outcome(Rpc::Version) == Some(Outcome::Ok);
        is_back && matches!(self.went_away, ConnectionLosses::EachTime(_))
    }

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

    /// How other calls end while `Version` hangs; `None` if `Version` does not hang.
    pub fn while_version_hangs(&self) -> Option<OtherCalls> {
        let hangs = self.outcome(Rpc::Version) == Some(Outcome::Hung);
        hangs.then_some(match self.besides_version {
            OtherCalls::Unknown if !self.is_anything_answered() => OtherCalls::Hang,
            others => others,
        })
    }

    fn is_anything_answered(&self) -> bool {
        let is_answer = |probe: &Probe| matches!(probe.outcome(), Outcome::Ok | Outcome::Error);
        self.calls.iter().any(is_answer) || !self.costs.is_empty()
    }

    /// Whether the runtime as a whole may be unresponsive. If so, a call that hangs is no evidence
    /// against its container.
    pub fn may_be_unresponsive(&self) -> bool {
        let others = self.while_version_hangs();
        others.is_some_and(|others| others != OtherCalls::Answered)
    }

    /// Whether the runtime answers other calls, so that a call that hangs is evidence against its
    /// container.
    pub fn may_blame_one(&self) -> bool {
        let is_version_answered = self.outcome(Rpc::Version) == Some(Outcome::Ok);
        is_version_answered || self.while_version_hangs() == Some(OtherCalls::Answered)
    }

    /// A condition of the runtime that should be met, but is not.
    pub fn unmet(&self, kind: &str) -> Option<&Condition> {
        let all = self.conditions.as_ref()?.conditions.iter();
        let mut unmet = all.filter(|condition| !condition.met);
        unmet.find(|condition| condition.kind == kind)
    }

    /// Whether the runtime reports the name containerd.
    pub fn is_containerd(&self) -> bool {
        let runtime = self.runtime.as_ref();
        runtime.is_some_and(|runtime| &*runtime.name == "containerd")
    }

    /// Whether the runtime reports the name of CRI-O, or reports no name and has the socket of CRI-O.
    pub fn is_crio(&self) -> bool {
        match &self.runtime {
            Some(runtime) => &*runtime.name == "cri-o",
            None => self.endpoint.ends_with("/crio.sock"),
        }
    }

    /// Whether any call hangs.
    pub fn any_hung(&self) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|probe| probe.end == End::Hung)
    }

    /// How long calls of that kind took, if any was answered.
    pub fn cost(&self, call: Rpc) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.call == call)
    }

    /// The calls of that kind that hang, if that singles out their ids: other calls of the kind
    /// are answered, possibly to an agent, and took less time. Otherwise the runtime as a whole
    /// is at fault.
    pub fn singled_out(&self, call: Rpc) -> Vec<&Probe> {
        let others = self.cost(call);
        let is_answered = others.is_some_and(|cost| cost.count > 0) || self.agent.is_some();
        let slowest = others.map_or(0.0, |cost| cost.max);
        let mut hung: Vec<&Probe> = self.hung(call).collect();
        hung.retain(|probe| is_answered && probe.seconds > slowest);
        if hung.len() > MAX_SINGLED_OUT {
            hung.clear();
        }
        hung
    }

    /// Whether the runtime may be containerd: it is not known to be another runtime.
    pub fn may_be_containerd(&self) -> bool {
        let runtime = self.runtime.as_ref();
        let is_docker = |name: &str| matches!(name, "docker" | "cri-dockerd");
        !self.is_crio() && runtime.is_none_or(|runtime| !is_docker(&runtime.name))
    }
}
