//! From facts to findings: pure functions, one file for each cause that needs code. The others are
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
pub enum Opinion {
    /// The cause applies, or is suspected; one finding for each culprit.
    Found(Vec<Finding>),
    /// The cause does not apply.
    Clear,
    /// Facts that the judge needs are missing: which, and why.
    CannotTell(String),
}

/// Judges a node for one cause.
pub type Judge = fn(&NodeFacts) -> Opinion;

const BY_RULES: Option<Judge> = None;

/// The causes that are judged by what they show now, root causes first: if several are found, an earlier
/// one explains the later ones. Those without a judge of their own are judged by their rules.
pub const JUDGES: &[(Cause, Option<Judge>)] = &[
    (Cause::DiskFull, Some(disk_full::judge)),
    (Cause::PidsExhausted, Some(pids_exhausted::judge)),
    (
        Cause::FdOrInotifyExhausted,
        Some(fd_or_inotify_exhausted::judge),
    ),
    (Cause::KernelRegression, Some(kernel_regression::judge)),
    (Cause::MemoryCgroupLeak, BY_RULES),
    (Cause::FanotifyBlocked, Some(fanotify_blocked::judge)),
    (
        Cause::StorageUnresponsive,
        Some(storage_unresponsive::judge),
    ),
    (Cause::DiskSaturated, Some(disk_saturated::judge)),
    (Cause::MemoryThrash, Some(memory_thrash::judge)),
    (Cause::CpuStarved, Some(cpu_starved::judge)),
    (Cause::RtnlStuck, BY_RULES),
    (
        Cause::SystemdCookieOverflow,
        Some(systemd_cookie_overflow::judge),
    ),
    (Cause::BusUnavailable, Some(bus_unavailable::judge)),
    (Cause::SystemdOverloaded, Some(systemd_overloaded::judge)),
    (Cause::KubeletNotRunning, Some(kubelet_not_running::judge)),
    (Cause::KubeletCredentials, Some(kubelet_credentials::judge)),
    (
        Cause::ApiServerUnreachable,
        Some(api_server_unreachable::judge),
    ),
    (Cause::RuncInitFrozen, Some(runc_init_frozen::judge)),
    (Cause::RuncSeccompPipe, BY_RULES),
    (Cause::RuncShortExecStuck, BY_RULES),
    (Cause::RuntimeRestartLoop, Some(runtime_restart_loop::judge)),
    (
        Cause::RuntimeUnresponsive,
        Some(runtime_unresponsive::judge),
    ),
    (
        Cause::ListExceedsGrpcLimit,
        Some(list_exceeds_grpc_limit::judge),
    ),
    (Cause::CniPluginHang, Some(cni_plugin_hang::judge)),
    (Cause::CniNotReady, Some(cni_not_ready::judge)),
    (Cause::ContainerNotListed, Some(container_not_listed::judge)),
    (
        Cause::ContainerStatusLock,
        Some(container_status_lock::judge),
    ),
    (Cause::ShimUnresponsive, Some(shim_unresponsive::judge)),
    (Cause::ContainerLock, Some(container_lock::judge)),
    // A call that waits for it says more.
    (Cause::RuncHung, Some(runc_hung::judge)),
    (Cause::ContainerNotDying, Some(container_not_dying::judge)),
    (Cause::StatisticsHang, Some(statistics_hang::judge)),
    (Cause::RuntimeLeak, Some(runtime_leak::judge)),
    (Cause::KubeletInternal, Some(kubelet_internal::judge)),
    (Cause::TooManyContainers, Some(too_many_containers::judge)),
    // Whatever causes the restarts is the root cause.
    (Cause::RepairLoop, Some(repair_loop::judge)),
];

/// All causes that are judged, root causes first. Those of a site are specific, so they explain others.
pub fn judged() -> impl Iterator<Item = Cause> {
    let sites = Rules::active().sites().iter().copied();
    let has_judge = |cause: &Cause| JUDGES.iter().any(|(judged, _)| judged == cause);
    let by_rules = Cause::ALL
        .into_iter()
        .filter(move |cause| !has_judge(cause));
    let by_judges = JUDGES.iter().map(|(cause, _)| *cause);
    sites.chain(by_rules).chain(by_judges)
}

/// What the judge of this cause says about a node, or what its rules say if it has none.
pub fn opinion(facts: &NodeFacts, cause: Cause) -> Opinion {
    match JUDGES.iter().find(|(judged, _)| *judged == cause) {
        Some((_, Some(judge))) => judge(facts),
        _ => by_rules::judge(facts, cause),
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
