//! Everything about us at a moment: what `pleg status` shows and `/v1/status` serves.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sim = sim::Sim::new();
//! sim.run("web-0", &["app"]);
//! # let environment = pleg::Environment { endpoint: "sim".into(), clock: sim.clock(), observer: std::sync::Arc::new(pleg::NoObserver), ids: pleg::no_ids(), kernel: None };
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), pleg::Config::default(), environment);
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
use crate::out::coverage::LookKind;
use crate::out::health::{Blind, FailingCall, HealthReport, HealthState, Reason, StuckCall};
use crate::out::kubelet_view::KubeletView;
use crate::runtime::{CallError, Rpc, RuntimeVersion};

/// Everything about us at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// How we are.
    pub health: HealthStatus,
    /// What a kubelet here would say.
    pub kubelet_view: KubeletView,
    /// How relisting goes.
    pub relist: RelistStatus,
    /// The calls that are stuck.
    pub stuck: Vec<StuckCall>,
    /// The calls that fail.
    pub failing: Vec<FailingCall>,
    /// What cannot be seen.
    pub blind: Vec<Blind>,
    /// The calls that are outstanding, overdue or not.
    pub in_flight: Vec<InFlight>,
    /// The status calls during which the connection to the runtime was lost, as long as their answers
    /// are needed: whoever makes one may make the runtime go away again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<SuspectCall>,
    /// What calls have cost lately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CallCost>,
    /// The runtime's event stream.
    pub stream: StreamStatus,
    /// The kernel's hints.
    pub kernel: KernelStatus,
    /// The runtime.
    pub runtime: RuntimeStatus,
    /// What the guard in front of the runtime does.
    #[serde(default)]
    pub guard: GuardStatus,
    /// What a diagnosis of the trouble that goes on has found first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// What the last check-up has found that may become trouble.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Finding>,
    /// How many pods there are.
    pub pods: usize,
    /// How many containers there are in each state.
    pub containers: BTreeMap<String, usize>,
}

impl StatusReport {
    /// Our health as it is told when it changes.
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

    /// Takes over a change of our health that was told after this report was made.
    pub fn change_health(&mut self, told: HealthReport) {
        let health = &mut self.health;
        if (health.state, health.reason) != (told.state, told.reason) {
            health.since = told.time;
        }
        health.state = told.state;
        health.reason = told.reason;
        health.message = told.message;
        self.stuck = told.stuck;
        self.failing = told.failing;
        self.blind = told.blind;
    }
}

/// What a diagnosis of the node has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The cause, by its id: `pleg explain` has a page of it.
    pub cause: String,
    /// What it is, with names.
    pub sentence: String,
    /// How sure that is: `low`, `medium`, `high` or `certain`.
    pub confidence: String,
    /// When the node was looked at.
    pub time: WallTime,
    /// Where all that was seen is kept, if it is.
    #[serde(default)]
    pub bundle: Option<String>,
}

/// What a guard does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GuardMode {
    /// There is none.
    #[default]
    Off,
    /// It passes everything, and compares what it would have answered.
    Shadow,
    /// It passes everything.
    Pass,
    /// It answers what the runtime does not.
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
    /// What it does.
    pub mode: GuardMode,
    /// The endpoint that it serves: a kubelet's, in place of the runtime's.
    #[serde(default)]
    pub socket: Option<String>,
    /// Whether there is a guard that does not respond: the rest is what it did before.
    #[serde(default)]
    pub unresponsive: bool,
    /// Whether lists are answered in the runtime's place now.
    pub guarding: bool,
    /// Whether the runtime answers no call at all, so that there is nothing to answer lists from.
    #[serde(default)]
    pub runtime_silent: bool,
    /// Whether lists are overdue, and none has been answered or refused yet.
    #[serde(default)]
    pub waiting: bool,
    /// Whether the last list that was asked for was refused, as not everything in it could be
    /// confirmed.
    #[serde(default)]
    pub refusing: bool,
    /// Whether one fault was guarded for as long as the limit allows: everything passes.
    pub limit_reached: bool,
    /// For how long they are.
    pub since_seconds: Option<f64>,
    /// How long ago a client last asked the guard for both lists, or since the guard started.
    pub idle_seconds: Option<f64>,
    /// Whose calls are stuck meanwhile.
    pub culprits: Vec<StuckCall>,
    /// How many calls were answered in the runtime's place.
    pub answers: BTreeMap<Rpc, u64>,
    /// How many calls were ended with an error, because nothing better could be said.
    pub given_up: BTreeMap<Rpc, u64>,
    /// How many changes were proved to be done while their answers were held up.
    pub completed: BTreeMap<Rpc, u64>,
    /// How many changes were refused because an earlier one of the same id is overdue.
    pub refused: BTreeMap<Rpc, u64>,
    /// In the mode `shadow`: how many entries of lists would have been others than the runtime's.
    pub differences: u64,
    /// How many lists were compared.
    pub compared: u64,
    /// The newest differences.
    pub last_differences: Vec<Difference>,
}

impl GuardStatus {
    /// A kubelet lists every second, and every five minutes while it follows events
    /// (`EventedPLEG`): one that has not asked for ten is not connected to the guard.
    const IDLE_SECONDS: f64 = 600.0;

    /// Whether there is a guard that no kubelet uses.
    pub fn is_bypassed(&self) -> bool {
        self.idle_seconds
            .is_some_and(|idle| idle > Self::IDLE_SECONDS)
    }
}

/// An entry of a list that the guard would have given, which does not lie between two lists of
/// the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Of which list.
    pub list: Rpc,
    /// The id that it is about.
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
    /// Why.
    pub reason: Reason,
    /// Since when the state and the reason are as they are.
    pub since: WallTime,
    /// One sentence.
    pub message: String,
    /// The beginning of the last look in which somebody was seen.
    pub last_seen: Option<WallTime>,
    /// How long ago that was.
    pub age_seconds: Option<f64>,
    /// How long ago it may be.
    pub threshold_seconds: f64,
}

/// How relisting goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistStatus {
    /// `generic`, or `evented` while a stream of events gives hints.
    pub mode: String,
    /// How many relists and sweeps there were in which somebody was seen.
    pub count: u64,
    /// From the end of one to the next.
    pub period_seconds: f64,
    /// How long the last one took, inspections included.
    pub last_duration_seconds: Option<f64>,
    /// `list`, or `sweep` for one by id.
    pub last_kind: Option<LookKind>,
    /// Why the last attempt to list failed, if it did.
    pub last_failure: Option<CallError>,
    /// Whether sweeps by id are made in place of a list that does not come.
    pub sweeping: bool,
    /// How far the look under way has come, if one is.
    #[serde(default)]
    pub progress: Option<Progress>,
}

/// How far a look has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// How many pods were inspected, or are named.
    pub seen: usize,
    /// How many are to be.
    pub of: usize,
}

/// A call that has not been answered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// CRI's method name.
    pub call: Rpc,
    /// The container or sandbox; `None` for a list.
    pub id: Option<Id>,
    /// How long ago it was made.
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
    /// How many events it brought.
    pub events: u64,
    /// How many changes a relist found that it had not announced.
    pub missed: u64,
    /// How often it was opened again.
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
    /// Why there are no hints, where there are none.
    pub why: Option<String>,
    /// Whether the kernel reports what the runtime is about to start.
    #[serde(default)]
    pub births: BirthsStatus,
}

/// Whether the runtime's directories of tasks are watched, where it makes one for each container and
/// sandbox before it starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BirthsStatus {
    /// Whether they are.
    pub watched: bool,
    /// Why not, if they are not.
    pub why: Option<String>,
}

/// The runtime: its version is null until it has answered once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStatus {
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its version.
    pub version: Option<Arc<str>>,
    /// `v1` or `v1alpha2`.
    pub api_version: Option<Arc<str>>,
    /// Where it listens.
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
