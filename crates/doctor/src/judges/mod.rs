//! From facts to findings: pure functions, one file for each cause that needs code. The other causes are
//! judged by their rules.

use analyze::rules::Rules;
use causes::Cause;
use causes::finding::Finding;

use crate::facts::NodeFacts;

mod api_server_unreachable;
mod bus_unavailable;
mod by_rules;
mod cni_not_ready;
mod cni_plugin_hang;
mod container_lock;
mod container_not_dying;
mod container_not_listed;
mod container_status_lock;
mod cpu_starved;
mod disk_full;
mod disk_saturated;
mod fanotify_blocked;
mod fd_or_inotify_exhausted;
mod kernel_regression;
mod kubelet_credentials;
mod kubelet_internal;
pub(crate) mod kubelet_not_running;
mod list_exceeds_grpc_limit;
mod memory_thrash;
mod opinion;
mod pids_exhausted;
mod repair_loop;
mod restarts;
mod runc_hung;
mod runc_init_frozen;
mod runtime_leak;
mod runtime_restart_loop;
mod runtime_unresponsive;
mod shim_unresponsive;
mod statistics_hang;
mod storage_unresponsive;
pub(crate) mod systemd_cookie_overflow;
mod systemd_overloaded;
mod too_many_containers;

/// What the judge of a cause says about a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Opinion {
    /// The cause applies, or is suspected; one finding for each culprit.
    Found(Vec<Finding>),
    /// The cause does not apply.
    Clear,
    /// Facts that the judge needs are missing: which, and why.
    Unknown(String),
}

type Judge = fn(&NodeFacts) -> Opinion;

/// The causes that are judged by the state of the node, root causes first: if several are found, an earlier
/// one explains the later ones.
const JUDGES: &[(Cause, Judge)] = &[
    (Cause::DiskFull, disk_full::judge),
    (Cause::PidsExhausted, pids_exhausted::judge),
    (Cause::FdOrInotifyExhausted, fd_or_inotify_exhausted::judge),
    (Cause::KernelRegression, kernel_regression::judge),
    (Cause::MemoryCgroupLeak, |facts| {
        by_rules::judge(facts, Cause::MemoryCgroupLeak)
    }),
    (Cause::FanotifyBlocked, fanotify_blocked::judge),
    (Cause::StorageUnresponsive, storage_unresponsive::judge),
    (Cause::DiskSaturated, disk_saturated::judge),
    (Cause::MemoryThrash, memory_thrash::judge),
    (Cause::CpuStarved, cpu_starved::judge),
    (Cause::RtnlStuck, |facts| {
        by_rules::judge(facts, Cause::RtnlStuck)
    }),
    (Cause::SystemdCookieOverflow, systemd_cookie_overflow::judge),
    (Cause::BusUnavailable, bus_unavailable::judge),
    (Cause::SystemdOverloaded, systemd_overloaded::judge),
    (Cause::KubeletNotRunning, kubelet_not_running::judge),
    (Cause::KubeletCredentials, kubelet_credentials::judge),
    (Cause::ApiServerUnreachable, api_server_unreachable::judge),
    (Cause::RuncInitFrozen, runc_init_frozen::judge),
    (Cause::RuncSeccompPipe, |facts| {
        by_rules::judge(facts, Cause::RuncSeccompPipe)
    }),
    (Cause::RuncShortExecStuck, |facts| {
        by_rules::judge(facts, Cause::RuncShortExecStuck)
    }),
    (Cause::RuntimeRestartLoop, runtime_restart_loop::judge),
    (Cause::RuntimeUnresponsive, runtime_unresponsive::judge),
    (Cause::ListExceedsGrpcLimit, list_exceeds_grpc_limit::judge),
    (Cause::CniPluginHang, cni_plugin_hang::judge),
    (Cause::CniNotReady, cni_not_ready::judge),
    (Cause::ContainerNotListed, container_not_listed::judge),
    (Cause::ContainerStatusLock, container_status_lock::judge),
    (Cause::ShimUnresponsive, shim_unresponsive::judge),
    (Cause::ContainerLock, container_lock::judge),
    // If a call waits for a runc, the runc is reported with that call, so the judges of calls are first.
    (Cause::RuncHung, runc_hung::judge),
    (Cause::ContainerNotDying, container_not_dying::judge),
    (Cause::StatisticsHang, statistics_hang::judge),
    (Cause::RuntimeLeak, runtime_leak::judge),
    (Cause::KubeletInternal, kubelet_internal::judge),
    (Cause::TooManyContainers, too_many_containers::judge),
    // Whatever causes the restarts is the root cause.
    (Cause::RepairLoop, repair_loop::judge),
];

/// Whether a cause is judged by the state of the node, and not only by its logs.
pub(crate) fn has_judge(cause: Cause) -> bool {
    JUDGES.iter().any(|(judged, _)| *judged == cause)
}

/// All causes that are judged, root causes first. The causes that a site has added are specific, so they
/// explain others.
pub(crate) fn judged() -> impl Iterator<Item = Cause> {
    let sites = Rules::active().sites().iter().copied();
    let by_rules = Cause::ALL.into_iter().filter(|cause| !has_judge(*cause));
    let by_judges = JUDGES.iter().map(|(cause, _)| *cause);
    sites.chain(by_rules).chain(by_judges)
}

/// What the judge of this cause says about a node, or what its rules say if it has none.
pub(crate) fn opinion(facts: &NodeFacts, cause: Cause) -> Opinion {
    match JUDGES.iter().find(|(judged, _)| *judged == cause) {
        Some((_, judge)) => judge(facts),
        None => by_rules::judge(facts, cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_judged_once() {
        for cause in Cause::ALL {
            let times = judged().filter(|judged| *judged == cause);
            assert_eq!(times.count(), 1, "{cause}");
        }
    }
}
