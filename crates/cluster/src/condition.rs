//! The node condition, from a status report: True is bad, as node-problem-detector has it.
//!
//! ```text
//!   Unhealthy, or a guard at its limit --> True
//!   Healthy, Degraded, Guarding        --> False, with the reason
//!   Starting                           --> nothing is known yet, nothing is said
//! ```
//!
//! One stuck container is False: tools that repair nodes must not destroy one for it.

use std::collections::BTreeSet;

use pleg::model::id::Id;
use pleg::out::health::{HealthState, Reason};
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;

use crate::summary::{LIMIT_REACHED, Summary, shortened};

/// No message is longer, in bytes.
const LONGEST: usize = 1024;

/// A condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is so.
    True,
    /// It is not so.
    False,
}

impl Status {
    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
        }
    }
}

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether it is so.
    pub status: Status,
    /// Why, in CamelCase.
    pub reason: &'static str,
    /// One sentence; the ages in it change all the time.
    pub message: String,
    /// The same in types, if an annotation is to carry it.
    pub(crate) summary: Option<Summary>,
    /// Whose calls are stuck.
    about: BTreeSet<(Rpc, Option<Id>)>,
}

impl Condition {
    /// `PLEGUnhealthy` by this report.
    pub fn of(report: &StatusReport) -> Option<Self> {
        let health = &report.health;
        let (status, reason) = match health.state {
            HealthState::Starting => return None,
            HealthState::Unhealthy => (Status::True, health.reason.as_str()),
            _ if report.guard.limit_reached => (Status::True, LIMIT_REACHED),
            HealthState::Healthy | HealthState::Degraded => (Status::False, health.reason.as_str()),
        };
        let stuck = report.stuck.iter().chain(&report.guard.culprits);
        Some(Self {
            status,
            reason,
            message: message(report),
            summary: Some(Summary::of(report)),
            about: stuck.map(|call| (call.call, call.id.clone())).collect(),
        })
    }

    /// `ContainerRuntimeReady` by this report: not ready only when the whole runtime is down.
    pub fn of_runtime(report: &StatusReport) -> Option<Self> {
        let health = &report.health;
        let is_down = matches!(
            health.reason,
            Reason::RuntimeUnreachable | Reason::RuntimeSilent
        );
        let (status, reason) = match health.state {
            HealthState::Starting => return None,
            HealthState::Unhealthy if is_down => (Status::False, health.reason.as_str()),
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
            about: BTreeSet::new(),
        })
    }

    /// Whether it says anything else than that one, but for ages.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        let cause = |of: &Self| {
            of.summary
                .as_ref()
                .and_then(|summary| summary.cause.clone())
        };
        (self.status, self.reason) != (other.status, other.reason)
            || self.about != other.about
            || cause(self) != cause(other)
    }
}

/// What is wrong, and the cause if a diagnosis has found one.
fn message(report: &StatusReport) -> String {
    let message = sentence(&report.health.message);
    let Some(finding) = &report.finding else {
        return message;
    };
    let confidence = &finding.confidence;
    let cause = format!(
        "{}; diagnosis ({confidence}): {}: {}",
        shortened(&message, LONGEST / 2),
        finding.cause,
        finding.sentence
    );
    sentence(&cause)
}

/// A runtime's words, made safe to show and short.
pub(crate) fn sentence(text: &str) -> String {
    shortened(&escape::sentence(text), LONGEST)
}
