//! Which of the node's processes the kernel kills first when memory is short, by the kubelet's
//! formula.

use crate::spec::{ContainerSpec, PodSpec, Resources, Role};

/// How firmly a pod's resources are promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// Every container has limits of both kinds, and requests them.
    Guaranteed,
    /// In between.
    Burstable,
    /// No container requests or limits anything.
    BestEffort,
}

/// The last to be killed.
const GUARANTEED: i64 = -997;

/// The first to be killed.
const BEST_EFFORT: i64 = 1000;

/// The class of a pod, by all its containers.
pub fn qos_class(pod: &PodSpec) -> QosClass {
    let all = || pod.containers.iter().map(|container| container.resources);
    if all().all(|resources| !asks_for_anything(resources)) {
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

fn asks_for_anything(it: Resources) -> bool {
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
        return GUARANTEED;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => return GUARANTEED,
        QosClass::BestEffort => return BEST_EFFORT,
        QosClass::Burstable => {}
    }
    let request = |container: &ContainerSpec| container.resources.memory_request.unwrap_or(0);
    let mut score = by_share(request(container), memory);
    // A sidecar is not killed before those it serves.
    if container.role == Role::Sidecar
        && let Some(least) = pod.side_by_side().map(request).min()
    {
        score = score.min(by_share(least, memory));
    }
    // Neither as safe as a guaranteed one nor as exposed as one without any request.
    score.clamp(BEST_EFFORT + GUARANTEED, BEST_EFFORT - 1)
}

fn by_share(request: u64, memory: u64) -> i64 {
    let share = u128::from(request) * 1000 / u128::from(memory.max(1));
    BEST_EFFORT.saturating_sub(i64::try_from(share).unwrap_or(i64::MAX))
}
