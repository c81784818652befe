//! The sentence that goes with a verdict.
//!
//! ```text
//!   what is so: the first three calls that are stuck or fail; and 2 more; 1 pod has yet to be inspected
//! ```
//!
//! What is only counted stands at the end, and is never cut.

use std::time::Duration;

use pleg_text::GoDuration;
use tokio::time::Instant;

use super::{Blind, FailingCall, HealthState, Reason, StuckCall, kubelet_healthy};
use crate::engine::LATE;
use crate::out::coverage::{Coverage, ListState, Lists, Statuses};
use crate::runtime::Rpc;

/// The sentence that goes with a verdict. While Unhealthy it begins with the kubelet's own.
pub fn message(
    coverage: &Coverage,
    state: HealthState,
    reason: Reason,
    now: Instant,
    threshold: Duration,
) -> String {
    let seen = coverage.as_of().map(|seen| seen.instant);
    let what = match (state, kubelet_healthy(now, seen, threshold)) {
        (HealthState::Healthy, _) if coverage.failing.is_empty() && coverage.uninspected == 0 => {
            return "all pods are up to date".to_owned();
        }
        (HealthState::Starting | HealthState::Unhealthy, Err(sentence)) => {
            format!("PLEG is not healthy: {sentence}")
        }
        _ => degraded(coverage, reason).to_owned(),
    };
    let mut details: Vec<String> = coverage
        .stuck
        .iter()
        .map(|call| StuckCall::new(call, now).to_string())
        .collect();
    match &coverage.lists {
        // How long they took when they came is of no use while nothing comes.
        Lists::Late(_) | Lists::Slow(_) if reason == Reason::RuntimeSilent => {}
        Lists::Failed(error) | Lists::Unserved(error) => details.push(error.to_string()),
        Lists::Late(took) => details.push(format!("the last list took {}", tenths(*took))),
        Lists::Slow(took) => details.push(format!("lists take {}", tenths(*took))),
        Lists::Good | Lists::Stuck => {}
    }
    match (reason, coverage.statuses) {
        (Reason::StatusSlow, Statuses::Late) => {
            let longer = GoDuration(LATE);
            details.push(format!("status calls take more than {longer}"));
        }
        (Reason::StatusSlow, Statuses::InTime | Statuses::TooSlow) => {
            details.push("inspections do not finish".to_owned());
        }
        _ => {}
    }
    let failing = coverage.failing.iter();
    details.extend(failing.map(|failing| FailingCall::new(failing, now).to_string()));
    let mut told = named(&details);
    match coverage.unasked {
        0 => {}
        1 => told.push("1 pod waits, because too many calls have not been answered".to_owned()),
        pods => told.push(format!(
            "{pods} pods wait, because too many calls have not been answered"
        )),
    }
    match coverage.lost {
        0 => {}
        1 => told.push("the connection was lost during 1 status call".to_owned()),
        calls => told.push(format!(
            "the connection was lost during {calls} status calls"
        )),
    }
    match coverage.uninspected {
        0 => {}
        1 => told.push("1 pod has yet to be inspected".to_owned()),
        pods => told.push(format!("{pods} pods have yet to be inspected")),
    }
    match told.is_empty() {
        true => what,
        false => format!("{what}: {}", told.join("; ")),
    }
}

/// A time that changes with each list, in tenths of a second.
fn tenths(took: Duration) -> GoDuration {
    GoDuration(Duration::from_millis(took.as_millis() as u64 / 100 * 100))
}

/// What a degraded node's pods are known by.
fn degraded(coverage: &Coverage, reason: Reason) -> &'static str {
    match reason {
        Reason::RuntimeUnreachable => "pods cannot be listed",
        // Nobody is polled there.
        _ if matches!(coverage.lists, Lists::Unserved(_)) => "pods cannot be listed",
        Reason::RuntimeSilent => "the runtime does not answer any call",
        _ => unavailable_list(coverage).unwrap_or_else(|| until_next_list(coverage, reason)),
    }
}

/// Which list is unavailable, and what that keeps from being seen.
fn unavailable_list(coverage: &Coverage) -> Option<&'static str> {
    use ListState::{Comes, Slow, Unavailable};
    let is_blind = |what| coverage.blind.contains(&what);
    match (coverage.sandboxes, coverage.containers) {
        (Unavailable, Unavailable) => Some(
            "both lists are unavailable; polling known pods one by one, new pods may be missed",
        ),
        (Unavailable, Slow) => Some(
            "ListPodSandbox is unavailable, and ListContainers is slow; polling known pods one by \
             one, new containers may be missed until it is answered",
        ),
        (Slow, Unavailable) => Some(
            "ListContainers is unavailable, and ListPodSandbox is slow; polling known pods one by \
             one, new pods may be missed until it is answered",
        ),
        (Unavailable, Comes) => Some(
            "ListPodSandbox is unavailable; polling sandboxes one by one, new pods may be missed",
        ),
        (Comes, Unavailable) if is_blind(Blind::NewPods) => Some(
            "ListContainers is unavailable; polling known pods one by one, \
             new pods may be missed until the next ListPodSandbox",
        ),
        (Comes, Unavailable) if is_blind(Blind::NewContainers) => Some(
            "ListContainers is unavailable; polling containers one by one, \
             new containers may be missed",
        ),
        // New containers are seen without it.
        (Comes, Unavailable) => {
            Some("ListContainers is unavailable; polling containers one by one")
        }
        (Comes | Slow, Comes | Slow) => None,
    }
}

/// What is not seen where no list is unavailable.
fn until_next_list(coverage: &Coverage, reason: Reason) -> &'static str {
    let is_blind = |what| coverage.blind.contains(&what);
    let mut stuck = coverage.stuck.iter();
    match reason {
        // Nothing is listed before it is answered.
        _ if stuck.any(|call| call.about.call == Rpc::Version) => {
            "the runtime does not answer Version"
        }
        _ if is_blind(Blind::NewPods) => {
            "new pods and containers may be missed until the next list"
        }
        _ if is_blind(Blind::NewContainers) => "new containers may be missed until the next list",
        Reason::ListSlow | Reason::StatusSlow => "the runtime is slow",
        _ => "all pods are up to date except",
    }
}

/// How many details a sentence can carry before it becomes a list.
const NAMED: usize = 3;

/// The first of them, and how many others there are.
fn named(details: &[String]) -> Vec<String> {
    let (named, others) = details.split_at(details.len().min(NAMED));
    let others = (!others.is_empty()).then(|| format!("and {} more", others.len()));
    named.iter().cloned().chain(others).collect()
}
