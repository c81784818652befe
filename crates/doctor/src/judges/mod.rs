//! From facts to findings: pure functions, one file for each cause, by the ids of
//! [`Cause`].

use causes::Cause;
use causes::finding::Finding;

use crate::facts::NodeFacts;

mod bus_unavailable;
mod cni_plugin_hang;
mod container_lock;
mod container_status_lock;
mod cpu_starved;
mod disk_full;
mod disk_saturated;
mod fanotify_blocked;
mod fd_or_inotify_exhausted;
mod kernel_regression;
mod kubelet_internal;
mod list_exceeds_grpc_limit;
mod memory_cgroup_leak;
mod memory_thrash;
mod opinion;
mod pids_exhausted;
mod repair_loop;
mod rtnl_stuck;
mod runc_init_frozen;
mod runc_seccomp_pipe;
mod runc_short_exec_stuck;
mod runtime_unresponsive;
mod shim_unresponsive;
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

/// The judge of each cause, root causes first: if several are found, an earlier one explains
/// the later ones.
pub const JUDGES: &[(Cause, Judge)] = &[
    (Cause::DiskFull, disk_full::judge),
    (Cause::PidsExhausted, pids_exhausted::judge),
    (Cause::FdOrInotifyExhausted, fd_or_inotify_exhausted::judge),
    (Cause::KernelRegression, kernel_regression::judge),
    (Cause::MemoryCgroupLeak, memory_cgroup_leak::judge),
    (Cause::FanotifyBlocked, fanotify_blocked::judge),
    (Cause::StorageUnresponsive, storage_unresponsive::judge),
    (Cause::DiskSaturated, disk_saturated::judge),
    (Cause::MemoryThrash, memory_thrash::judge),
    (Cause::CpuStarved, cpu_starved::judge),
    (Cause::RtnlStuck, rtnl_stuck::judge),
    (Cause::SystemdCookieOverflow, systemd_cookie_overflow::judge),
    (Cause::BusUnavailable, bus_unavailable::judge),
    (Cause::SystemdOverloaded, systemd_overloaded::judge),
    (Cause::RuncInitFrozen, runc_init_frozen::judge),
    (Cause::RuncSeccompPipe, runc_seccomp_pipe::judge),
    (Cause::RuncShortExecStuck, runc_short_exec_stuck::judge),
    (Cause::RuntimeUnresponsive, runtime_unresponsive::judge),
    (Cause::ListExceedsGrpcLimit, list_exceeds_grpc_limit::judge),
    (Cause::CniPluginHang, cni_plugin_hang::judge),
    (Cause::ContainerStatusLock, container_status_lock::judge),
    (Cause::ShimUnresponsive, shim_unresponsive::judge),
    (Cause::ContainerLock, container_lock::judge),
    (Cause::KubeletInternal, kubelet_internal::judge),
    (Cause::TooManyContainers, too_many_containers::judge),
    // Whatever causes the restarts is the root cause.
    (Cause::RepairLoop, repair_loop::judge),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_one_judge() {
        for cause in Cause::ALL {
            let judges = JUDGES.iter().filter(|(judged, _)| *judged == cause);
            assert_eq!(judges.count(), 1, "{cause}");
        }
    }
}
