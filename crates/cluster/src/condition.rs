//! The node condition, from a status report: True is bad, as in node-problem-detector.
//!
//! ```text
//!   Unhealthy, or a guard at its limit --> True
//!   Healthy, Degraded, Guarding        --> False, with the reason
//!   Starting                           --> nothing is known yet, no condition
//! ```
//!
//! With one stuck container the condition is False: tools that repair nodes must not destroy a node
//! because of it.

use std::collections::BTreeSet;

use pleg::model::id::Id;
use pleg::out::health::HealthState;
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;

use crate::summary::{Summary, shortened};

/// The maximum length of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// A condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
}

impl Status {
    /// The value in Kubernetes' API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
        }
    }
}

/// The content of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether the condition holds.
    pub status: Status,
    /// The reason in CamelCase.
    pub reason: &'static str,
    /// One sentence. The ages in it change all the time.
    pub message: String,
    /// The content as typed fields, for an annotation.
    pub(crate) summary: Option<Summary>,
    /// The stuck calls.
    stuck_calls: BTreeSet<(Rpc, Option<Id>)>,
}

impl Condition {
    /// The condition `PLEGUnhealthy` for this report.
    pub fn of(report: &StatusReport) -> Option<Self> {
        let status = match report.health.state {
            HealthState::Starting => return None,
            HealthState::Unhealthy => Status::True,
            _ if report.guard.limit_reached => Status::True,
            HealthState::Healthy | HealthState::Degraded => Status::False,
        };
        let stuck = report.stuck.iter().chain(&report.guard.culprits);
        let summary = Summary::of(report);
        Some(Self {
            status,
            reason: summary.condition_reason(),
            message: message(report),
            summary: Some(summary),
            stuck_calls: stuck.map(|call| (call.call, call.id.clone())).collect(),
        })
    }

    /// The condition `ContainerRuntimeReady` for this report: False only if the whole runtime is
    /// down.
    pub fn of_runtime(report: &StatusReport) -> Option<Self> {
        let health = &report.health;
        let (status, reason) = match health.state {
            HealthState::Starting => return None,
            HealthState::Unhealthy if health.reason.answers_no_call() => {
                (Status::False, health.reason.as_str())
            }
            _ => (Status::True, "RuntimeAnswers"),
        };
        let message = match status {
            Status::False => sentence(&health.message),
            Status::True => "the container runtime answers".to_owned(),
        };
        Some(Self {
            status,
            reason,
            message,
            summary: None,
            stuck_calls: BTreeSet::new(),
        })
    }

    /// Whether this condition differs from the other one in more than ages.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        let cause = self.summary.as_ref().map(|summary| &summary.cause);
        (self.status, self.reason) != (other.status, other.reason)
            || self.stuck_calls != other.stuck_calls
            || cause != other.summary.as_ref().map(|summary| &summary.cause)
    }
}

/// What is wrong, and the cause if a diagnosis has found it.
fn message(report: &StatusReport) -> String {
    let message = sentence(&report.health.message);
    let Some(finding) = &report.finding else {
        return message;
    };
    let confidence = &finding.confidence;
    let cause = format!(
        "{}; diagnosis ({confidence}): {}: {}",
        shortened(&message, MAX_MESSAGE_BYTES / 2),
        finding.cause,
        finding.sentence
    );
    sentence(&cause)
}

/// A sentence from a runtime, made safe to show and shortened.
pub(crate) fn sentence(text: &str) -> String {
    shortened(&pleg_text::escape::sentence(text), MAX_MESSAGE_BYTES)
}
