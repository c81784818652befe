//! The calls to the runtime, and their outcomes.

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

/// The outcomes of calls to the runtime, and the processes behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeFacts {
    /// The runtime's socket; empty if none was found.
    pub endpoint: String,
    /// Whether the doctor ran as root: much is hidden from other users.
    pub as_root: bool,
    /// The runtime's name and version.
    pub runtime: Option<RuntimeVersion>,
    /// The calls for the whole node, those that failed or hang, and the slowest of each kind.
    pub calls: Vec<Probe>,
    /// How long calls took, including those that are not kept.
    pub costs: Vec<Cost>,
    /// How many status calls of each kind failed, including those that are not kept.
    pub failures: Vec<Failures>,
    /// The counts of what was listed, or of what an agent knows.
    pub rows: Option<Rows>,
    /// The conditions that the runtime reports.
    pub conditions: Option<Conditions>,
    /// Whether other calls are answered, if `Version` hangs.
    pub besides_version: OtherCalls,
    /// How many pods were not observed in time, and are not reported with a call that hangs or fails.
    pub unobserved: usize,
    /// How many status calls were not made or not answered in time; only in bundles of a doctor that
    /// made its calls without an engine.
    pub unasked: usize,
    /// How many containers and sandboxes may be listed as running although they have exited: the lists
    /// were not answered again, or the processes could not be read in time.
    pub undecided: usize,
    /// Whether the runtime went away while it was asked.
    pub went_away: WentAway,
    /// The process that listens on the socket.
    pub listener: Fact<u32>,
    /// The running containers, according to the runtime's state directories.
    pub tasks: Fact<Vec<Task>>,
    /// The kubelet's own `/healthz`.
    pub kubelet: Fact<KubeletHealth>,
    /// What an agent on the node reports, if the runtime was observed by its engine.
    pub agent: Option<AgentsWord>,
    /// Why an agent cannot reach the runtime, which the doctor has reached; only in bundles of a doctor
    /// that made its calls without an engine.
    pub unreachable_to_agent: Option<String>,
    /// The guard on this node, between the kubelet and the runtime that was asked.
    #[serde(default)]
    pub guard: Option<GuardFacts>,
    /// The runtime's goroutines, if signals are allowed and a call hung.
    pub stacks: Fact<Stacks>,
}

/// Whether the runtime went away while it was asked, and during which status calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "calls")]
pub enum WentAway {
    /// It did not.
    #[default]
    Never,
    /// It did during each of these, and was asked for everything else since.
    During(Vec<Probe>),
    /// It did each time that it was asked, so that only its version is known, if it is back. These were
    /// outstanding the last time.
    EachTime(Vec<Probe>),
}

impl WentAway {
    /// The status calls during which it went away.
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
    /// It was not seen.
    #[default]
    Unknown,
    /// They are answered.
    Answered,
    /// They hang, too, even those that were answered before.
    Hang,
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
    /// Its mode.
    pub mode: GuardMode,
    /// How long it has been answering lists in place of the runtime, if it does now.
    pub since_seconds: Option<f64>,
    /// Whether it cannot answer lists, as the runtime answers no call at all.
    #[serde(default)]
    pub runtime_silent: bool,
    /// Whether lists are overdue, and it has answered or refused none yet.
    #[serde(default)]
    pub waiting: bool,
    /// Whether it refuses lists, as not everything in them can be confirmed.
    #[serde(default)]
    pub refusing: bool,
    /// Whether one fault was guarded for as long as the limit allows.
    pub limit_reached: bool,
    /// For how long no kubelet has used it, if none does.
    #[serde(default)]
    pub unused_seconds: Option<f64>,
    /// Whether the kubelet behind it is Ready, as far as that depends on lists.
    pub kubelet_ready: bool,
    /// Why.
    pub kubelet: String,
}

/// What an agent on the node reports about itself and the runtime.
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
    /// Why a list failed, if the runtime answers other calls; only in bundles of a doctor that made its
    /// calls without an engine.
    pub failure: Option<CallError>,
}

impl AgentsWord {
    /// Whether all pods are up to date.
    pub fn is_healthy(&self) -> bool {
        self.state == HealthState::Healthy
    }
}

/// How long calls of one kind took, in seconds.
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
    /// The mean of those that were made one after the other, as a kubelet makes them; if these are
    /// few, at most the mean of all.
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

/// How many containers and sandboxes are on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rows {
    /// All sandboxes.
    pub sandboxes: usize,
    /// Those of them that are not ready.
    pub dead_sandboxes: usize,
    /// All containers.
    pub containers: usize,
    /// Those of them that have exited.
    pub exited: usize,
    /// The namespace with the most dead containers and sandboxes, and their number.
    pub most_dead: Option<(String, usize)>,
}

impl Probe {
    /// A note for calls that an agent made, to follow a sentence.
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

    /// Why there was no connection, if it failed for that.
    pub fn no_connection(&self) -> Option<NoConnection> {
        match self.error()? {
            CallError::Unavailable(Unreachable { cause, .. }) => Some(*cause),
            _ => None,
        }
    }

    /// Whether the doctor lacks the rights, which says nothing about the runtime.
    pub fn is_forbidden(&self) -> bool {
        self.no_connection() == Some(NoConnection::Forbidden)
    }
}

/// The calls for the statistics of all containers, by which a kubelet decides what it evicts.
pub const STATISTICS: [Rpc; 3] = [
    Rpc::ListContainerStats,
    Rpc::ListPodSandboxStats,
    Rpc::ListPodSandboxMetrics,
];

/// If a call hangs for more ids at once, a daemon is the cause, not each of them.
pub const MAX_SINGLED_OUT: usize = 2;

impl ProbeFacts {
    /// The calls that are kept, and those during which the runtime went away.
    pub fn all(&self) -> impl Iterator<Item = &Probe> {
        self.calls.iter().chain(self.went_away.calls())
    }

    /// Whether the runtime has gone while it was asked, and is back: only its version is known.
    pub fn is_interrupted(&self) -> bool {
        let is_back = self.outcome(Rpc::Version) == Some(Outcome::Ok);
        is_back && matches!(self.went_away, WentAway::EachTime(_))
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

    /// How other calls end, if `Version` hangs.
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

    /// Whether the runtime answers other calls: then one that hangs is about its container.
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

    /// Whether it reports the name containerd.
    pub fn is_containerd(&self) -> bool {
        let runtime = self.runtime.as_ref();
        runtime.is_some_and(|runtime| &*runtime.name == "containerd")
    }

    /// Whether it reports the name of CRI-O. One that reports no name is known by its socket.
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
        let hung = self.hung(call);
        let out: Vec<&Probe> = hung
            .filter(|probe| is_answered && probe.seconds > slowest)
            .collect();
        match out.len() > MAX_SINGLED_OUT {
            true => Vec::new(),
            false => out,
        }
    }

    /// Whether the runtime may be containerd: it is no other known one.
    pub fn may_be_containerd(&self) -> bool {
        let runtime = self.runtime.as_ref();
        let is_docker = |name: &str| matches!(name, "docker" | "cri-dockerd");
        !self.is_crio() && runtime.is_none_or(|runtime| !is_docker(&runtime.name))
    }
}
