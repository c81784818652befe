//! Health: a problem of one pod makes the node Degraded, never Unhealthy.
//!
//! ```text
//!   Starting --first pass--> Healthy <--> Degraded (a call is stuck or fails, a list is slow)
//!       \                        \            /
//!        \--- threshold ----------> Unhealthy --- a pass observes a pod --> back
//! ```
//!
//! The kubelet's PLEG is healthy or not, and one stuck container can make it unhealthy. Here a stuck call
//! makes the node Degraded: all other pods are observed as before. Unhealthy means that no pod was
//! observed within the threshold.
//!
//! ```
//! use std::time::Duration;
//!
//! use pleg::out::health::{HealthState, Reason};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), pleg::out::cache::Stopped> {
//! let sim = sim::Sim::new();
//! sim.run("web-0", &["app"]);
//! sim.run("db-0", &["postgres"]);
//! # let environment = pleg::Environment::new("sim", sim.clock());
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), Default::default(), environment);
//! tokio::time::sleep(Duration::from_secs(5)).await;
//!
//! sim.status_lock("db-0", "postgres");
//! tokio::time::sleep(Duration::from_secs(5)).await;
//! let status = pleg.status().await?;
//! assert_eq!(status.health.state, HealthState::Degraded);
//! assert_eq!(status.health.reason, Reason::ContainerStuck);
//! let mut stuck = status.stuck.iter();
//! assert!(stuck.any(|call| call.container.as_deref() == Some("postgres")));
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::model::id::{Id, PodRef};
use crate::model::wall_time::WallTime;
use crate::out::coverage::{Coverage, Failing, Lists, Statuses};
use crate::out::failure::InspectError;
use crate::runtime::{CallError, OutstandingCall, Rpc};
use pleg_text::GoDuration;

mod message;

pub use message::message;

/// The kubelet's `genericPlegRelistThreshold`.
pub const RELIST_THRESHOLD: Duration = Duration::from_secs(180);

/// The health of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HealthState {
    /// No pod was observed yet, and the threshold has not passed.
    Starting,
    /// Every known pod is observed.
    Healthy,
    /// Pods are observed; those that are not are reported.
    Degraded,
    /// No pod was observed within the threshold.
    Unhealthy,
}

impl HealthState {
    /// All states.
    pub const ALL: [Self; 4] = [
        Self::Starting,
        Self::Healthy,
        Self::Degraded,
        Self::Unhealthy,
    ];

    /// The state's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Healthy => "Healthy",
            Self::Degraded => "Degraded",
            Self::Unhealthy => "Unhealthy",
        }
    }
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The reason for a health state, in the spelling of condition reasons. Of several reasons, the most severe
/// one is reported. The variants are in the order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// Every pod is observed.
    AllSeen,
    /// Nothing was observed and nothing failed yet.
    Starting,
    /// A guard answers in place of the runtime.
    Guarding,
    /// Status calls are answered, but slowly.
    StatusSlow,
    /// Lists are answered, but slowly each time.
    ListSlow,
    /// Pods cannot be inspected: their status calls fail.
    InspectionsFail,
    /// A list is stuck.
    ListStuck,
    /// A list fails although the runtime answers.
    ListFails,
    /// A list exceeds the receive limit.
    ListTooLarge,
    /// A status call is stuck.
    ContainerStuck,
    /// The runtime is unresponsive: no call is answered.
    RuntimeSilent,
    /// There is no connection to the runtime.
    RuntimeUnreachable,
}

impl Reason {
    /// The reason's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllSeen => "AllSeen",
            Self::Starting => "Starting",
            Self::ContainerStuck => "ContainerStuck",
            Self::InspectionsFail => "InspectionsFail",
            Self::ListStuck => "ListStuck",
            Self::ListSlow => "ListSlow",
            Self::StatusSlow => "StatusSlow",
            Self::ListFails => "ListFails",
            Self::ListTooLarge => "ListTooLarge",
            Self::RuntimeUnreachable => "RuntimeUnreachable",
            Self::RuntimeSilent => "RuntimeSilent",
            Self::Guarding => "Guarding",
        }
    }

    /// Whether the reason blames a container, or the runtime as a whole: then its end is held back for at
    /// most 3 s.
    pub fn blames(self) -> bool {
        matches!(self, Self::ContainerStuck | Self::RuntimeSilent)
    }

    /// Whether it means that the runtime answers no call at all.
    pub const fn answers_no_call(self) -> bool {
        matches!(self, Self::RuntimeUnreachable | Self::RuntimeSilent)
    }

    /// How severe the reason is, compared with the others.
    pub fn severity(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An unseen part: what cannot be observed at all now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Blind {
    /// Pods that were created since the sandboxes could last be listed.
    NewPods,
    /// Containers that were created since the containers could last be listed.
    NewContainers,
}

/// A call about one pod that fails each time it is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingCall {
    /// CRI's method name.
    pub call: Rpc,
    /// The container or sandbox.
    pub id: Id,
    /// The container's name.
    pub container: Option<Arc<str>>,
    /// The pod.
    pub pod: Option<PodRef>,
    /// Why, in the runtime's words.
    pub error: String,
    /// How the call failed, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<CallError>,
    /// How long it has been failing.
    pub since_seconds: f64,
    /// Whether the call is withheld, because the connection was lost each time it was sent alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withheld: bool,
    /// Whether no call fails, but no inspection of the pod ends: then `call` and `id` only name its newest
    /// sandbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_pod: bool,
    /// Whether no call fails, but the process of the container runs and the runtime does not list
    /// it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlisted: bool,
    /// Whether no call fails, but the process of the container has ended, and the runtime's answer to a
    /// later call shows the container as running.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contradicted: bool,
}

impl FailingCall {
    /// Describes a failing call.
    pub fn new(failing: &Failing, now: Instant) -> Self {
        let (error, cause) = match &failing.error {
            InspectError::Failed { error, .. } => (error.to_string(), Some(error.clone())),
            InspectError::Disagrees { .. } => {
                ("it contradicts the runtime's list".to_owned(), None)
            }
            error => (error.to_string(), None),
        };
        Self {
            call: failing.call,
            id: failing.id.clone(),
            container: failing.container.clone(),
            pod: failing.pod.clone(),
            error,
            cause,
            since_seconds: now.duration_since(failing.since).as_secs_f64(),
            withheld: failing.error.is_withheld(),
            whole_pod: failing.error.is_slowness(),
            unlisted: failing.error.is_unlisted(),
            contradicted: matches!(failing.error, InspectError::Contradicted { .. }),
        }
    }
}

impl fmt::Display for FailingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.whole_pod
            && let Some(pod) = &self.pod
        {
            return write!(f, "{pod} is not up to date: {}", self.error);
        }
        let (container, pod) = (self.container.as_deref(), self.pod.as_ref());
        let call = named(self.call, container, pod, Some(&self.id));
        write!(f, "{call} fails: {}", self.error)
    }
}

/// A call with its container and pod, where they are known, and its id.
fn named(call: Rpc, container: Option<&str>, pod: Option<&PodRef>, id: Option<&Id>) -> String {
    let subject = match (container, pod) {
        (Some(container), Some(pod)) => format!(" of {container} in {pod}"),
        (None, Some(pod)) => format!(" of {pod}"),
        (_, None) => String::new(),
    };
    let id = id.map(|id| format!(" ({})", short(id)));
    format!("{call}{subject}{}", id.unwrap_or_default())
}

/// A stuck or overdue call, for reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckCall {
    /// CRI's method name.
    pub call: Rpc,
    /// The container or sandbox; `None` for a list.
    pub id: Option<Id>,
    /// The container's name.
    pub container: Option<Arc<str>>,
    /// The pod.
    pub pod: Option<PodRef>,
    /// How long it has been outstanding.
    pub since_seconds: f64,
}

impl StuckCall {
    /// Describes an outstanding call.
    pub fn new(call: &OutstandingCall, now: Instant) -> Self {
        let about = call.about.clone();
        Self {
            call: about.call,
            id: about.id,
            container: about.container,
            pod: about.pod,
            since_seconds: now.duration_since(call.since).as_secs_f64(),
        }
    }

    /// The call with its container and pod: `ContainerStatus of app in default/web-0 (61ac7eca54e99)`.
    pub fn named(&self) -> String {
        let (container, pod) = (self.container.as_deref(), self.pod.as_ref());
        named(self.call, container, pod, self.id.as_ref())
    }
}

impl fmt::Display for StuckCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = GoDuration(Duration::from_secs(self.since_seconds as u64));
        write!(f, "{} has not answered for {seconds}", self.named())
    }
}

/// The first 13 characters of an id, as crictl shows it.
pub fn short(id: &Id) -> &str {
    let text = id.as_str();
    let end = text.char_indices().nth(13);
    end.map_or(text, |(end, _)| &text[..end])
}

/// The health at a moment, as it is reported when it changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    /// The time of the report.
    pub time: WallTime,
    /// The state.
    pub state: HealthState,
    /// The reason for the state.
    pub reason: Reason,
    /// One sentence. While Unhealthy it begins with the kubelet's sentence.
    pub message: String,
    /// The stuck calls.
    pub stuck: Vec<StuckCall>,
    /// The failing calls.
    pub failing: Vec<FailingCall>,
    /// The unseen parts.
    pub blind: Vec<Blind>,
}

/// The kubelet's own sentence (`GenericPLEG.Healthy`), to the letter.
pub fn kubelet_healthy(
    now: Instant,
    last_seen: Option<Instant>,
    threshold: Duration,
) -> Result<(), String> {
    let Some(last_seen) = last_seen else {
        return Err("pleg has yet to be successful".to_owned());
    };
    let elapsed = now.saturating_duration_since(last_seen);
    if elapsed > threshold {
        return Err(format!(
            "pleg was last seen active {} ago; threshold is {}",
            GoDuration(elapsed),
            GoDuration(threshold)
        ));
    }
    Ok(())
}

/// How long an inspection may fail before the node is Degraded because of it.
pub const INSPECTIONS_FAIL: Duration = Duration::from_secs(10);

/// The health that the coverage shows, and its reason.
pub fn assess(coverage: &Coverage, now: Instant, threshold: Duration) -> (HealthState, Reason) {
    let reason = reason(coverage, now);
    let seen = coverage.as_of().map(|seen| seen.instant);
    let state = match kubelet_healthy(now, seen, threshold) {
        Err(_) if seen.is_none() && now <= coverage.started + threshold => HealthState::Starting,
        Err(_) => HealthState::Unhealthy,
        Ok(()) if reason == Reason::AllSeen => HealthState::Healthy,
        Ok(()) => HealthState::Degraded,
    };
    let reason = match (state, reason) {
        (HealthState::Starting, Reason::AllSeen) => Reason::Starting,
        // No call is stuck, and no pass has ended within the threshold.
        (HealthState::Unhealthy, Reason::AllSeen) => Reason::StatusSlow,
        (_, reason) => reason,
    };
    (state, reason)
}

/// The most severe problem.
fn reason(coverage: &Coverage, now: Instant) -> Reason {
    match &coverage.lists {
        Lists::Failed(CallError::Unavailable(_)) => return Reason::RuntimeUnreachable,
        _ if coverage.unresponsive_since.is_some() => return Reason::RuntimeSilent,
        _ if coverage.stuck.iter().any(|stuck| stuck.about.id.is_some()) => {
            return Reason::ContainerStuck;
        }
        Lists::Failed(CallError::TooLarge(_)) => return Reason::ListTooLarge,
        Lists::Failed(_) | Lists::Unserved(_) => return Reason::ListFails,
        _ if !coverage.stuck.is_empty() || coverage.lists == Lists::Stuck => {
            return Reason::ListStuck;
        }
        Lists::Good | Lists::Stuck | Lists::Late(_) | Lists::Slow(_) => {}
    }
    let any_fails = |slowness: bool| {
        let mut failing = coverage.failing.iter();
        failing.any(|failing| now >= failing.counts_at() && failing.error.is_slowness() == slowness)
    };
    match (&coverage.lists, coverage.statuses) {
        _ if any_fails(false) => Reason::InspectionsFail,
        (Lists::Late(_) | Lists::Slow(_), _) => Reason::ListSlow,
        (_, Statuses::Late | Statuses::TooSlow) => Reason::StatusSlow,
        // A pod that is not inspected is not observed.
        _ if any_fails(true) || coverage.waiting_for_room + coverage.lost > 0 => {
            Reason::InspectionsFail
        }
        (_, Statuses::InTime) => Reason::AllSeen,
    }
}
