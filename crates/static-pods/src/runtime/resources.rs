//! Requests and limits, in the units of the kernel's cgroups.

use std::collections::HashMap;

use cri::v1;

use super::{CgroupVersion, Host, oom};
use crate::spec::{ContainerSpec, PodSpec, Resources, Role};

/// The period of CPU quotas, in microseconds.
const CPU_PERIOD: u64 = 100_000;

/// The smallest quota that the kernel accepts, in microseconds.
const MIN_CPU_QUOTA: u64 = 1000;

/// The shares for a request of one CPU.
const SHARES_PER_CPU: u64 = 1024;

/// The smallest and the largest shares that the kernel accepts.
const CPU_SHARES: (u64, u64) = (2, 262_144);

/// The resources of a container.
pub(super) fn of_container(
    pod: &PodSpec,
    container: &ContainerSpec,
    host: &Host,
) -> v1::LinuxContainerResources {
    let unified = match host.cgroups.version {
        // If the kernel kills one process of a container, it kills the others too.
        CgroupVersion::V2 => HashMap::from([("memory.oom.group".to_owned(), "1".to_owned())]),
        CgroupVersion::V1 => HashMap::new(),
    };
    v1::LinuxContainerResources {
        oom_score_adj: oom::score(pod, container, host.memory),
        unified,
        ..linux(container.resources)
    }
}

/// The total of a pod's containers. Runtimes that start a virtual machine use it as the machine's
/// size.
pub(super) fn of_pod(pod: &PodSpec) -> v1::LinuxContainerResources {
    linux(Resources {
        cpu_request: total(pod, |it| it.cpu_request),
        cpu_limit: total(pod, |it| it.cpu_limit),
        memory_request: total(pod, |it| it.memory_request),
        memory_limit: total(pod, |it| it.memory_limit),
    })
}

fn linux(resources: Resources) -> v1::LinuxContainerResources {
    let millicpus = resources.cpu_request.or(resources.cpu_limit).unwrap_or(0);
    v1::LinuxContainerResources {
        cpu_period: whole(CPU_PERIOD),
        cpu_quota: whole(resources.cpu_limit.map_or(0, quota)),
        cpu_shares: whole(shares(millicpus)),
        memory_limit_in_bytes: whole(resources.memory_limit.unwrap_or(0)),
        ..Default::default()
    }
}

fn quota(millicpus: u64) -> u64 {
    match millicpus {
        0 => 0,
        _ => (millicpus.saturating_mul(CPU_PERIOD) / 1000).max(MIN_CPU_QUOTA),
    }
}

fn shares(millicpus: u64) -> u64 {
    let shares = millicpus.saturating_mul(SHARES_PER_CPU) / 1000;
    shares.clamp(CPU_SHARES.0, CPU_SHARES.1)
}

fn whole(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// The largest amount that a pod's containers need at one time: the main containers with all sidecars,
/// or an init container with the sidecars before it. `None` if no container has an amount.
fn total(pod: &PodSpec, of: impl Fn(&Resources) -> Option<u64>) -> Option<u64> {
    let amount = |container: &ContainerSpec| of(&container.resources).unwrap_or(0);
    let mut sidecars = 0_u64;
    let mut during_init = 0;
    for container in pod.init_containers() {
        match container.role {
            Role::Sidecar => sidecars = sidecars.saturating_add(amount(container)),
            _ => during_init = during_init.max(sidecars.saturating_add(amount(container))),
        }
    }
    let main_containers = pod.main_containers().map(amount);
    let running = main_containers.fold(sidecars, u64::saturating_add);
    let is_given = pod.containers.iter().any(|it| of(&it.resources).is_some());
    is_given.then(|| running.max(during_init))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_shares_and_quota_are_the_kubelets() {
        let cases = [
            (0, 2, 0),
            (1, 2, 1000),
            (10, 10, 1000),
            (100, 102, 10_000),
            (500, 512, 50_000),
            (1000, 1024, 100_000),
            (2500, 2560, 250_000),
            (1_000_000, 262_144, 100_000_000),
        ];
        for (millicpus, of_shares, of_quota) in cases {
            assert_eq!(shares(millicpus), of_shares, "shares of {millicpus}m");
            assert_eq!(quota(millicpus), of_quota, "quota of {millicpus}m");
        }
    }
}
