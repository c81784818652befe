//! The order in which the kernel kills processes when memory is short, by the kubelet's formula.

use crate::spec::{ContainerSpec, PodSpec, Resources, Role};

/// The QoS class of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QosClass {
    /// Every container has limits for CPU and memory, and requests that equal them.
    Guaranteed,
    /// Neither of the other classes.
    Burstable,
    /// No container has requests or limits.
    BestEffort,
}

/// The score of processes that are killed last.
const GUARANTEED_SCORE: i64 = -997;

/// The score of processes that are killed first.
const BEST_EFFORT_SCORE: i64 = 1000;

/// The class of a pod.
pub(super) fn qos_class(pod: &PodSpec) -> QosClass {
    let all = || pod.containers.iter().map(|container| container.resources);
    if all().all(|resources| !has_any_amount(resources)) {
        QosClass::BestEffort
    } else if all().all(is_guaranteed) {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

fn positive(amount: Option<u64>) -> Option<u64> {
    amount.filter(|amount| *amount > 0)
}

fn has_any_amount(it: Resources) -> bool {
    let amounts = [
        it.cpu_request,
        it.cpu_limit,
        it.memory_request,
        it.memory_limit,
    ];
    amounts.into_iter().any(|amount| positive(amount).is_some())
}

fn is_guaranteed(it: Resources) -> bool {
    let is_whole = |request: Option<u64>, limit: Option<u64>| {
        positive(limit).is_some_and(|limit| request.is_none_or(|request| request == limit))
    };
    is_whole(it.cpu_request, it.cpu_limit) && is_whole(it.memory_request, it.memory_limit)
}

/// `oom_score_adj` of a container on a node with `memory` bytes.
pub(super) fn score(pod: &PodSpec, container: &ContainerSpec, memory: u64) -> i64 {
    if pod.node_critical {
        return GUARANTEED_SCORE;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => return GUARANTEED_SCORE,
        QosClass::BestEffort => return BEST_EFFORT_SCORE,
        QosClass::Burstable => {}
    }
    let request = |container: &ContainerSpec| container.resources.memory_request.unwrap_or(0);
    let mut score = by_share(request(container), memory);
    // A sidecar is not killed before the containers that it serves.
    if container.role == Role::Sidecar
        && let Some(least) = pod.main_containers().map(request).min()
    {
        score = score.min(by_share(least, memory));
    }
    // Keep the score between those of the other classes.
    score.clamp(BEST_EFFORT_SCORE + GUARANTEED_SCORE, BEST_EFFORT_SCORE - 1)
}

fn by_share(request: u64, memory: u64) -> i64 {
    let share = u128::from(request) * 1000 / u128::from(memory.max(1));
    BEST_EFFORT_SCORE.saturating_sub(i64::try_from(share).unwrap_or(i64::MAX))
}
