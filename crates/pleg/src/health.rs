//! Health, which tells the node from one pod.
//!
//! ```text
//!   Starting --first sweep--> Healthy <--> Degraded (a call is stuck: somebody is named)
//!       \                        \            /
//!        \--- threshold ----------> Unhealthy --- a sweep completes --> back
//! ```
//!
//! The kubelet knows two states, and one stuck container can make it say the second.
//! Here a stuck call makes the node Degraded: every other pod is seen as before.
//! Unhealthy means that no sweep completed within the threshold, whoever is to blame.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::calls::OutstandingCall;
use crate::go_duration::GoDuration;
use crate::id::{Id, PodRef};
use crate::runtime::Call;
use crate::wall_time::WallTime;

/// The kubelet's `genericPlegRelistThreshold`.
pub const RELIST_THRESHOLD: Duration = Duration::from_secs(180);

/// How we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HealthState {
    /// Never swept, and the threshold has not passed yet.
    Starting,
    /// Every known pod is seen.
    Healthy,
    /// Sweeps complete, and what does not answer is named.
    Degraded,
    /// No sweep completed within the threshold.
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

/// A call that is overdue, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckCall {
    /// CRI's method name.
    pub call: Call,
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
    /// Names an outstanding call.
    pub fn new(call: &OutstandingCall) -> Self {
        let about = call.about.clone();
        Self {
            call: about.call,
            id: about.id,
            container: about.container,
            pod: about.pod,
            since_seconds: call.since.elapsed().as_secs_f64(),
        }
    }

    /// Whether it is the same call, older or younger.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.call, &self.id, &self.pod) == (other.call, &other.id, &other.pod)
    }
}

impl fmt::Display for StuckCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.call)?;
        match (&self.container, &self.pod) {
            (Some(container), Some(pod)) => write!(f, " of {container} in {pod}")?,
            (None, Some(pod)) => write!(f, " of {pod}")?,
            _ => {}
        }
        if let Some(id) = &self.id {
            write!(f, " ({})", short(id))?;
        }
        let seconds = Duration::from_secs(self.since_seconds as u64);
        write!(f, " has not answered for {}", GoDuration(seconds))
    }
}

/// The first 13 characters of an id, as crictl shows it.
pub fn short(id: &Id) -> &str {
    let text = id.as_str();
    text.char_indices()
        .nth(13)
        .map_or(text, |(end, _)| &text[..end])
}

/// Our health at a moment, as it is told when it changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    /// When.
    pub time: WallTime,
    /// The state.
    pub state: HealthState,
    /// One sentence. While Unhealthy it begins with the kubelet's own.
    pub message: String,
    /// What does not answer.
    pub stuck: Vec<StuckCall>,
}

/// What health is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Vitals<'a> {
    /// Now.
    pub now: Instant,
    /// When we began.
    pub started: Instant,
    /// The beginning of the last sweep that completed: the kubelet's `relistTime`.
    pub last_seen: Option<Instant>,
    /// For how long no sweep may complete.
    pub threshold: Duration,
    /// The overdue calls.
    pub stuck: &'a [StuckCall],
    /// Why the last attempt to list failed, if it did.
    pub failure: Option<&'a str>,
    /// What is seen and what is not, while sweeps are made in place of lists.
    pub sweeping: Option<&'a str>,
}

/// The kubelet's verdict on itself (`GenericPLEG.Healthy`), to the letter.
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

/// Judges.
pub fn assess(vitals: Vitals<'_>) -> (HealthState, String) {
    let verdict = kubelet_healthy(vitals.now, vitals.last_seen, vitals.threshold);
    let never = vitals.last_seen.is_none();
    let waited = vitals.now.saturating_duration_since(vitals.started);
    let mut reasons: Vec<String> = vitals.stuck.iter().map(ToString::to_string).collect();
    reasons.extend(vitals.failure.map(str::to_owned));
    match verdict {
        Err(sentence) => {
            let state = if never && waited <= vitals.threshold {
                HealthState::Starting
            } else {
                HealthState::Unhealthy
            };
            (
                state,
                because(&format!("PLEG is not healthy: {sentence}"), &reasons),
            )
        }
        Ok(()) if reasons.is_empty() => (HealthState::Healthy, "every pod is seen".to_owned()),
        Ok(()) => {
            let list = vitals.stuck.iter().any(|stuck| stuck.call.is_list());
            let what = match vitals.sweeping {
                Some(sweeping) => sweeping,
                None if list || vitals.failure.is_some() => "the node cannot be listed",
                None => "all pods but the named are seen",
            };
            (HealthState::Degraded, because(what, &reasons))
        }
    }
}

/// How many reasons a sentence can carry before it becomes a list.
const NAMED: usize = 3;

fn because(what: &str, reasons: &[String]) -> String {
    if reasons.is_empty() {
        return what.to_owned();
    }
    let mut named = reasons[..reasons.len().min(NAMED)].join("; ");
    if reasons.len() > NAMED {
        named.push_str(&format!("; and {} more", reasons.len() - NAMED));
    }
    format!("{what}: {named}")
}
