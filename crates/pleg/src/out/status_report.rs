//! The status report: what `pleg status` shows and `/v1/status` serves.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sim = sim::Sim::new();
//! sim.run("web-0", &["app"]);
//! # let environment = pleg::Environment::new("sim", sim.clock());
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), Default::default(), environment);
//! tokio::time::sleep(Duration::from_secs(1)).await;
//!
//! let report = serde_json::to_value(pleg.status().await?)?;
//! assert_eq!(report["health"]["state"], "Healthy");
//! assert_eq!(report["containers"]["running"], 1);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::id::Id;
use crate::model::wall_time::WallTime;
use crate::out::call_costs::CallCost;
use crate::out::coverage::PassKind;
use crate::out::health::{Blind, FailingCall, HealthReport, HealthState, Reason, StuckCall};
use crate::out::kubelet_view::KubeletView;
use crate::runtime::{CallError, Rpc, RuntimeVersion};

/// The state of the node and of this process at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// The health of the node.
    pub health: HealthStatus,
    /// What a kubelet here would report.
    pub kubelet_view: KubeletView,
    /// Relists and sweeps.
    pub relist: RelistStatus,
    /// The stuck calls.
    pub stuck: Vec<StuckCall>,
    /// The failing calls.
    pub failing: Vec<FailingCall>,
    /// The unseen parts.
    pub blind: Vec<Blind>,
    /// All outstanding calls.
    pub in_flight: Vec<InFlight>,
    /// The status calls during which the connection was lost, for as long as their answers are needed. One
    /// of them may crash the runtime again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<SuspectCall>,
    /// What recent calls cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CallCost>,
    /// The runtime's event stream.
    pub stream: StreamStatus,
    /// The kernel's hints.
    pub kernel: KernelStatus,
    /// The runtime.
    pub runtime: RuntimeStatus,
    /// The guard in front of the runtime.
    #[serde(default)]
    pub guard: GuardStatus,
    /// The leading finding of the present problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// Findings of the last check-up that may become a problem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Finding>,
    /// How many pods there are.
    pub pods: usize,
    /// How many containers there are in each state.
    pub containers: BTreeMap<String, usize>,
}

impl StatusReport {
    /// The health, as it is reported when it changes.
    pub fn into_health(self, time: WallTime) -> HealthReport {
        let HealthStatus {
            state,
            reason,
            message,
            ..
        } = self.health;
        HealthReport {
            time,
            state,
            reason,
            message,
            stuck: self.stuck,
            failing: self.failing,
            blind: self.blind,
        }
    }

    /// Applies a health report that is newer than this status.
    pub fn change_health(&mut self, report: HealthReport) {
        let health = &mut self.health;
        if (health.state, health.reason) != (report.state, report.reason) {
            health.since = report.time;
        }
        health.state = report.state;
        health.reason = report.reason;
        health.message = report.message;
        self.stuck = report.stuck;
        self.failing = report.failing;
        self.blind = report.blind;
    }
}

/// A finding of the doctor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The id of the cause, for `pleg explain`.
    pub cause: String,
    /// One sentence that names the culprit, if there is one.
    pub sentence: String,
    /// The confidence: `low`, `medium`, `high` or `certain`.
    pub confidence: String,
    /// When the node was examined.
    pub time: WallTime,
    /// The path of the saved bundle, if there is one.
    #[serde(default)]
    pub bundle: Option<String>,
}

/// What a guard does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GuardMode {
    /// There is no guard.
    #[default]
    Off,
    /// The guard passes everything, and compares what it would have answered.
    Shadow,
    /// The guard passes everything.
    Pass,
    /// The guard answers in place of the runtime while lists or statuses are stuck.
    Guard,
}

impl GuardMode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Off, Self::Shadow, Self::Pass, Self::Guard];

    /// The mode's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::Pass => "pass",
            Self::Guard => "guard",
        }
    }
}

/// A guard between a kubelet and the runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GuardStatus {
    /// The guard's mode.
    pub mode: GuardMode,
    /// The endpoint that the guard serves: a kubelet's, in place of the runtime's.
    pub socket: Option<String>,
    /// Whether there is a guard that does not respond: then the other fields are from its last response.
    pub unresponsive: bool,
    /// Whether the guard is guarding: answering lists in place of the runtime now.
    pub guarding: bool,
    /// Whether the runtime is unresponsive, so that no id can be confirmed.
    pub runtime_silent: bool,
    /// Whether lists are overdue, and the guard has neither answered nor refused one yet.
    pub waiting: bool,
    /// Whether the last requested list was refused, because not every id in it is confirmed.
    pub refusing: bool,
    /// Whether a fault lasted longer than the limit: then everything passes.
    pub limit_reached: bool,
    /// How long the guard has been guarding.
    pub since_seconds: Option<f64>,
    /// How long ago a client last requested both lists from the guard, or how long ago the guard
    /// started.
    pub idle_seconds: Option<f64>,
    /// The stuck calls of the culprits.
    pub culprits: Vec<StuckCall>,
    /// How many calls were answered in place of the runtime.
    pub answers: BTreeMap<Rpc, u64>,
    /// How many calls were ended with an error because they could not be answered.
    pub given_up: BTreeMap<Rpc, u64>,
    /// How many calls were completed: the runtime itself showed that the change is done.
    pub completed: BTreeMap<Rpc, u64>,
    /// How many changes were refused because an earlier one of the same id is overdue.
    pub refused: BTreeMap<Rpc, u64>,
    /// In the mode `shadow`: how many entries of lists would have differed from the runtime's.
    pub differences: u64,
    /// How many lists were compared.
    pub compared: u64,
    /// The newest differences.
    pub last_differences: Vec<Difference>,
}

impl GuardStatus {
    /// After this long without lists, no kubelet is connected to the guard: a kubelet lists every second,
    /// or every five minutes while it follows events (`EventedPLEG`).
    const IDLE_SECONDS: f64 = 600.0;

    /// Whether there is a guard that no kubelet uses.
    pub fn is_bypassed(&self) -> bool {
        self.idle_seconds
            .is_some_and(|idle| idle > Self::IDLE_SECONDS)
    }
}

/// An entry of a list that the guard would have returned, in a state that the runtime showed neither before
/// nor afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The method of the list.
    pub list: Rpc,
    /// The id of the entry.
    pub id: Id,
    /// The state that the guard would have shown; `None` if it would have left it out.
    pub shown: Option<String>,
    /// What the runtime listed before, and afterwards.
    pub listed: [Option<String>; 2],
}

/// Health with its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthStatus {
    /// The state.
    pub state: HealthState,
    /// The reason for the state.
    pub reason: Reason,
    /// When the state or the reason last changed.
    pub since: WallTime,
    /// One sentence.
    pub message: String,
    /// The beginning of the last pass that observed a pod.
    pub last_seen: Option<WallTime>,
    /// How long ago that pass began.
    pub age_seconds: Option<f64>,
    /// The age at which the node becomes Unhealthy.
    pub threshold_seconds: f64,
}

/// Relists and sweeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistStatus {
    /// `generic`, or `evented` while a stream of events gives hints.
    pub mode: String,
    /// How many relists and sweeps have observed pods.
    pub count: u64,
    /// The time from the end of one relist to the next.
    pub period_seconds: f64,
    /// How long the last relist or sweep took, inspections included.
    pub last_duration_seconds: Option<f64>,
    /// Whether the last pass was a relist or a sweep.
    pub last_kind: Option<PassKind>,
    /// Why the last attempt to list failed, if it did.
    pub last_failure: Option<CallError>,
    /// Whether sweeps replace a list that is unavailable.
    pub sweeping: bool,
    /// The progress of the current pass, if there is one.
    #[serde(default)]
    pub progress: Option<Progress>,
}

/// The progress of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// How many pods are inspected, or reported as failing or stuck.
    pub seen: usize,
    /// How many pods the pass covers.
    pub of: usize,
}

/// An outstanding call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// CRI's method name.
    pub call: Rpc,
    /// The container or sandbox; `None` for a list.
    pub id: Option<Id>,
    /// How long ago it was sent.
    pub age_seconds: f64,
}

/// A status call during which the connection to the runtime was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuspectCall {
    /// CRI's method name.
    pub call: Rpc,
    /// The container or sandbox.
    pub id: Id,
}

/// The runtime's event stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamStatus {
    /// `live`, `retrying`, `unsupported` or `off`.
    pub state: String,
    /// How many events arrived.
    pub events: u64,
    /// How many changes a relist found without an event that announced them.
    pub missed: u64,
    /// How often the stream was reopened.
    pub reconnects: u64,
}

/// The kernel's hints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KernelStatus {
    /// `live`, `unavailable` or `off`.
    pub state: String,
    /// How many processes are watched.
    pub watched: usize,
    /// Why there are no hints, if there are none.
    pub why: Option<String>,
    /// Whether births are watched.
    #[serde(default)]
    pub births: BirthsStatus,
}

/// Whether the runtime's task directories are watched: the runtime creates one for each container and
/// sandbox before it starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BirthsStatus {
    /// Whether the directories are watched.
    pub watched: bool,
    /// Why the directories are not watched, if they are not.
    pub why: Option<String>,
}

/// The runtime. Its version is null until it has answered once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStatus {
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its version.
    pub version: Option<Arc<str>>,
    /// `v1` or `v1alpha2`.
    pub api_version: Option<Arc<str>>,
    /// The endpoint at which the runtime listens.
    pub endpoint: Arc<str>,
}

impl RuntimeStatus {
    /// What is known of the runtime at `endpoint`.
    pub fn new(endpoint: Arc<str>, version: Option<&RuntimeVersion>) -> Self {
        Self {
            name: version.map(|version| version.name.clone()),
            version: version.map(|version| version.version.clone()),
            api_version: version.map(|version| version.api_version.clone()),
            endpoint,
        }
    }
}
