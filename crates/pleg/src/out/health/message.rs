//! The sentence for a state and its reason. It begins with the culprit, if there is one.
//!
//! ```text
//!   container app of default/web is stuck and blocks ListContainers (10s); sweeping containers
//!   \_______________________ problems, at most three _________________/  \______ consequence _______/
//! ```
//!
//! Counts stand at the end, and are never cut.

use std::time::Duration;

use pleg_text::GoDuration;
use tokio::time::Instant;

use super::{Blind, FailingCall, HealthState, Reason, StuckCall, kubelet_healthy, short};
use crate::engine::OVERDUE_AT_LATEST;
use crate::out::coverage::{Coverage, ListState, Lists, Statuses};
use crate::out::words::counted;
use crate::runtime::Rpc;

/// The sentence for a state and its reason. While Unhealthy, it begins with the kubelet's sentence.
pub fn message(
    coverage: &Coverage,
    state: HealthState,
    reason: Reason,
    now: Instant,
    threshold: Duration,
) -> String {
    let seen = coverage.as_of().map(|seen| seen.instant);
    let shared = topic(coverage, reason);
    let (topic, consequence) = match (state, kubelet_healthy(now, seen, threshold)) {
        (HealthState::Healthy, _) if coverage.failing.is_empty() && coverage.uninspected == 0 => {
            return "all pods are up to date".to_owned();
        }
        (HealthState::Starting | HealthState::Unhealthy, Err(sentence)) => {
            (Some(format!("PLEG is not healthy: {sentence}")), None)
        }
        _ => {
            let consequence = consequence(coverage).filter(|_| shared.is_none());
            (shared.map(str::to_owned), consequence)
        }
    };
    let mut clauses = first(problems(coverage, reason, shared.is_some(), now));
    clauses.extend(consequence.map(str::to_owned));
    clauses.extend(counts(coverage));
    match (topic, clauses.is_empty()) {
        (Some(topic), true) => topic,
        (None, true) => "all pods are up to date".to_owned(),
        (Some(topic), false) => format!("{topic}: {}", clauses.join("; ")),
        (None, false) => clauses.join("; "),
    }
}

/// What the problems have in common, if this says more than the first problem.
fn topic(coverage: &Coverage, reason: Reason) -> Option<&'static str> {
    let mut stuck = coverage.stuck.iter();
    match reason {
        Reason::RuntimeUnreachable => Some("pods cannot be listed"),
        // Without CRI, there are no pods to sweep.
        _ if matches!(coverage.lists, Lists::Unserved(_)) => Some("pods cannot be listed"),
        Reason::RuntimeSilent => Some("the runtime does not answer any call"),
        _ if is_any_unavailable(coverage) => None,
        // Lists are requested only after `Version` was answered.
        _ if stuck.any(|call| call.about.call == Rpc::Version) => {
            Some("the runtime does not answer Version")
        }
        Reason::ListSlow | Reason::StatusSlow if coverage.blind.is_empty() => {
            Some("the runtime is slow")
        }
        _ => None,
    }
}

fn is_any_unavailable(coverage: &Coverage) -> bool {
    let lists = [coverage.sandboxes, coverage.containers];
    lists.contains(&ListState::Unavailable)
}

/// How pods are observed meanwhile, and what is unobserved.
fn consequence(coverage: &Coverage) -> Option<&'static str> {
    use ListState::{Comes, Slow, Unavailable};
    let is_blind = |what| coverage.blind.contains(&what);
    Some(match (coverage.sandboxes, coverage.containers) {
        (Unavailable, Unavailable) => "sweeping known pods, new pods may be missed",
        (Unavailable, Slow) => {
            "sweeping known pods, new containers may be missed until ListContainers is \
             answered"
        }
        (Slow, Unavailable) => {
            "sweeping known pods, new pods may be missed until ListPodSandbox is answered"
        }
        (Unavailable, Comes) => "sweeping sandboxes, new pods may be missed",
        (Comes, Unavailable) if is_blind(Blind::NewPods) => {
            "sweeping known pods, new pods may be missed until the next ListPodSandbox"
        }
        (Comes, Unavailable) if is_blind(Blind::NewContainers) => {
            "sweeping containers, new containers may be missed"
        }
        // The sweep observes new containers too.
        (Comes, Unavailable) => "sweeping containers",
        _ if is_blind(Blind::NewPods) => {
            "new pods and containers may be missed until the next list"
        }
        _ if is_blind(Blind::NewContainers) => "new containers may be missed until the next list",
        _ if coverage.stuck.is_empty() && coverage.failing.is_empty() => return None,
        _ if counts(coverage).next().is_some() => return None,
        _ => "all other pods are up to date",
    })
}

/// Every problem, the culprits first. If the problems have a topic, it covers unavailable lists.
fn problems(coverage: &Coverage, reason: Reason, has_topic: bool, now: Instant) -> Vec<String> {
    let stuck = coverage.stuck.iter().map(|call| StuckCall::new(call, now));
    let (culprits, node): (Vec<_>, Vec<_>) = stuck.partition(|call| call.id.is_some());
    let (lists, other): (Vec<_>, Vec<_>) = node.into_iter().partition(|call| call.call.is_list());
    let mut problems: Vec<String> = blocked(&culprits, &lists).into_iter().collect();
    let lists = lists.iter().filter(|_| culprits.is_empty());
    problems.extend(lists.chain(&other).map(StuckCall::to_string));
    let error = match &coverage.lists {
        Lists::Failed(error) | Lists::Unserved(error) => Some(error.to_string()),
        _ => None,
    };
    let unavailable = match lists_that_are(ListState::Unavailable, coverage)[..] {
        _ if has_topic => None,
        [] => None,
        [list] => Some(format!("{list} is unavailable")),
        _ => Some("both lists are unavailable".to_owned()),
    };
    problems.extend(match (unavailable, error) {
        (Some(lists), Some(error)) => Some(format!("{lists}: {error}")),
        (lists, error) => lists.or(error),
    });
    if is_any_unavailable(coverage) {
        let slow = lists_that_are(ListState::Slow, coverage);
        problems.extend(slow.iter().map(|list| format!("{list} is slow")));
    }
    match &coverage.lists {
        // How long lists took is of no use while none is answered.
        Lists::Late(_) | Lists::Slow(_) if reason == Reason::RuntimeSilent => {}
        Lists::Late(took) => problems.push(format!("the last list took {}", tenths(*took))),
        Lists::Slow(took) => problems.push(format!("lists take {}", tenths(*took))),
        _ => {}
    }
    match (reason, coverage.statuses) {
        (Reason::StatusSlow, Statuses::Late) => {
            let longer = GoDuration(OVERDUE_AT_LATEST);
            problems.push(format!("status calls take more than {longer}"));
        }
        (Reason::StatusSlow, Statuses::InTime | Statuses::TooSlow) => {
            problems.push("inspections do not finish".to_owned());
        }
        _ => {}
    }
    let failing = coverage.failing.iter();
    problems.extend(failing.map(|failing| FailingCall::new(failing, now).to_string()));
    problems
}

/// The culprits, and the stuck lists that they block.
fn blocked(culprits: &[StuckCall], lists: &[StuckCall]) -> Option<String> {
    let mut names: Vec<String> = culprits.iter().map(name).collect();
    names.dedup();
    let longest = culprits.iter().map(|call| call.since_seconds);
    let longest = GoDuration(Duration::from_secs(longest.fold(0.0, f64::max) as u64));
    let (is, blocks) = match names.len() {
        0 => return None,
        1 => ("is", "blocks"),
        _ => ("are", "block"),
    };
    let blocked: Vec<String> = lists.iter().map(|list| list.call.to_string()).collect();
    let blocks = match blocked.is_empty() {
        true => String::new(),
        false => format!(" and {blocks} {}", blocked.join(" and ")),
    };
    let names = enumerated(names);
    Some(format!("{names} {is} stuck{blocks} ({longest})"))
}

/// The container or sandbox of a call: `container app of default/web`.
fn name(call: &StuckCall) -> String {
    let kind = match call.call {
        Rpc::PodSandboxStatus => "sandbox",
        _ => "container",
    };
    let id = || call.id.as_ref().map(short).unwrap_or_default();
    match (&call.container, &call.pod) {
        (Some(container), Some(pod)) => format!("{kind} {container} of {pod}"),
        (Some(container), None) => format!("{kind} {container}"),
        (None, Some(pod)) if kind == "sandbox" => format!("{kind} of {pod}"),
        (None, Some(pod)) => format!("{kind} {} of {pod}", id()),
        (None, None) => format!("{kind} {}", id()),
    }
}

/// The lists in this state, without those that are stuck now.
fn lists_that_are(state: ListState, coverage: &Coverage) -> Vec<Rpc> {
    let lists = [
        (Rpc::ListPodSandbox, coverage.sandboxes),
        (Rpc::ListContainers, coverage.containers),
    ];
    let is_stuck = |list| coverage.stuck.iter().any(|call| call.about.call == list);
    let lists = lists.into_iter().filter(|(_, is)| *is == state);
    let lists = lists.map(|(list, _)| list);
    lists.filter(|list| !is_stuck(*list)).collect()
}

/// How many pods are unobserved for other reasons.
fn counts(coverage: &Coverage) -> impl Iterator<Item = String> {
    let pods = |count, one, more| {
        let verb = if count == 1 { one } else { more };
        (count > 0).then(|| format!("{} {verb}", counted(count, "pod")))
    };
    let waiting = pods(coverage.waiting_for_room, "waits", "wait");
    let waiting =
        waiting.map(|pods| format!("{pods}, because too many calls have not been answered"));
    let lost = (coverage.lost > 0).then(|| counted(coverage.lost, "status call"));
    let lost = lost.map(|calls| format!("the connection was lost during {calls}"));
    let uninspected = pods(coverage.uninspected, "has", "have");
    let uninspected = uninspected.map(|pods| format!("{pods} yet to be inspected"));
    [waiting, lost, uninspected].into_iter().flatten()
}

/// How many culprits, and how many problems, a sentence names.
const MAX_NAMED: usize = 3;

/// The first problems, and how many others there are.
fn first(mut problems: Vec<String>) -> Vec<String> {
    let others = problems.len().saturating_sub(MAX_NAMED);
    problems.truncate(MAX_NAMED);
    problems.extend((others > 0).then(|| format!("and {others} more")));
    problems
}

/// `a, b and c`, or the first three and how many others there are.
fn enumerated(mut names: Vec<String>) -> String {
    let others = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    names.extend((others > 0).then(|| format!("{others} more")));
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}

/// A duration that changes with each list, in tenths of a second.
fn tenths(took: Duration) -> GoDuration {
    GoDuration(Duration::from_millis(took.as_millis() as u64 / 100 * 100))
}
