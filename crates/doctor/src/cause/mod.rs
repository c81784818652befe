//! Why nodes fall: the stable ids, and what is known of each cause ([`About`]).

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

mod host;
mod runtime;
mod systemd;

/// A cause of a node that is NotReady, by the id that reports, metrics and pages use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is its id; `about` says what it is")]
pub enum Cause {
    SystemdCookieOverflow,
    SystemdOverloaded,
    BusUnavailable,
    RuncInitFrozen,
    RuncSeccompPipe,
    RuncShortExecStuck,
    ShimUnresponsive,
    ContainerStatusLock,
    ContainerLock,
    RuntimeUnresponsive,
    ListExceedsGrpcLimit,
    TooManyContainers,
    FdOrInotifyExhausted,
    KubeletInternal,
    CniPluginHang,
    RtnlStuck,
    KernelRegression,
    MemoryCgroupLeak,
    StorageUnresponsive,
    FanotifyBlocked,
    DiskSaturated,
    CpuStarved,
    MemoryThrash,
    DiskFull,
    PidsExhausted,
    RepairLoop,
}

/// What is known of a cause, whatever showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// A short sentence without a full stop.
    pub title: &'static str,
    /// What to do, the first thing first.
    pub advice: &'static [&'static str],
    /// The versions in which it is fixed; empty where none is.
    pub fixed_in: &'static [&'static str],
    /// Where it is discussed.
    pub references: &'static [&'static str],
}

use Cause::*;

impl Cause {
    /// All of them, in the order of the way from systemd to the disk.
    pub const ALL: [Self; 26] = [
        SystemdCookieOverflow,
        SystemdOverloaded,
        BusUnavailable,
        RuncInitFrozen,
        RuncSeccompPipe,
        RuncShortExecStuck,
        ShimUnresponsive,
        ContainerStatusLock,
        ContainerLock,
        RuntimeUnresponsive,
        ListExceedsGrpcLimit,
        TooManyContainers,
        FdOrInotifyExhausted,
        KubeletInternal,
        CniPluginHang,
        RtnlStuck,
        KernelRegression,
        MemoryCgroupLeak,
        StorageUnresponsive,
        FanotifyBlocked,
        DiskSaturated,
        CpuStarved,
        MemoryThrash,
        DiskFull,
        PidsExhausted,
        RepairLoop,
    ];

    /// The stable id.
    pub fn id(self) -> &'static str {
        match self {
            SystemdCookieOverflow => "systemd-cookie-overflow",
            SystemdOverloaded => "systemd-overloaded",
            BusUnavailable => "bus-unavailable",
            RuncInitFrozen => "runc-init-frozen",
            RuncSeccompPipe => "runc-seccomp-pipe",
            RuncShortExecStuck => "runc-short-exec-stuck",
            ShimUnresponsive => "shim-unresponsive",
            ContainerStatusLock => "container-status-lock",
            ContainerLock => "container-lock",
            RuntimeUnresponsive => "runtime-unresponsive",
            ListExceedsGrpcLimit => "list-exceeds-grpc-limit",
            TooManyContainers => "too-many-containers",
            FdOrInotifyExhausted => "fd-or-inotify-exhausted",
            KubeletInternal => "kubelet-internal",
            CniPluginHang => "cni-plugin-hang",
            RtnlStuck => "rtnl-stuck",
            KernelRegression => "kernel-regression",
            MemoryCgroupLeak => "memory-cgroup-leak",
            StorageUnresponsive => "storage-unresponsive",
            FanotifyBlocked => "fanotify-blocked",
            DiskSaturated => "disk-saturated",
            CpuStarved => "cpu-starved",
            MemoryThrash => "memory-thrash",
            DiskFull => "disk-full",
            PidsExhausted => "pids-exhausted",
            RepairLoop => "repair-loop",
        }
    }

    /// What is known of it.
    pub fn about(self) -> About {
        match self {
            SystemdCookieOverflow => systemd::COOKIE_OVERFLOW,
            SystemdOverloaded => systemd::OVERLOADED,
            BusUnavailable => systemd::BUS_UNAVAILABLE,
            RuncInitFrozen => runtime::INIT_FROZEN,
            RuncSeccompPipe => runtime::SECCOMP_PIPE,
            RuncShortExecStuck => runtime::SHORT_EXEC_STUCK,
            ShimUnresponsive => runtime::SHIM_UNRESPONSIVE,
            ContainerStatusLock => runtime::STATUS_LOCK,
            ContainerLock => runtime::CONTAINER_LOCK,
            RuntimeUnresponsive => runtime::UNRESPONSIVE,
            ListExceedsGrpcLimit => runtime::LIST_EXCEEDS_LIMIT,
            TooManyContainers => runtime::TOO_MANY_CONTAINERS,
            FdOrInotifyExhausted => host::FD_OR_INOTIFY,
            KubeletInternal => runtime::KUBELET_INTERNAL,
            CniPluginHang => runtime::CNI_PLUGIN_HANG,
            RtnlStuck => host::RTNL_STUCK,
            KernelRegression => host::KERNEL_REGRESSION,
            MemoryCgroupLeak => host::MEMORY_CGROUP_LEAK,
            StorageUnresponsive => host::STORAGE_UNRESPONSIVE,
            FanotifyBlocked => host::FANOTIFY_BLOCKED,
            DiskSaturated => host::DISK_SATURATED,
            CpuStarved => host::CPU_STARVED,
            MemoryThrash => host::MEMORY_THRASH,
            DiskFull => host::DISK_FULL,
            PidsExhausted => host::PIDS_EXHAUSTED,
            RepairLoop => host::REPAIR_LOOP,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

/// An id that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a cause")]
pub struct UnknownCause(String);

impl FromStr for Cause {
    type Err = UnknownCause;

    fn from_str(text: &str) -> Result<Self, UnknownCause> {
        let found = Self::ALL.into_iter().find(|cause| cause.id() == text);
        found.ok_or_else(|| UnknownCause(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_leads_back_to_its_cause() {
        for cause in Cause::ALL {
            assert_eq!(cause.id().parse(), Ok(cause));
        }
        assert!("bad-luck".parse::<Cause>().is_err());
    }

    #[test]
    fn every_cause_has_a_title_and_something_to_do() {
        for cause in Cause::ALL {
            let about = cause.about();
            assert!(
                !about.title.ends_with('.') && about.title.len() < 100,
                "{cause}"
            );
            assert!(!about.advice.is_empty(), "{cause}");
        }
    }
}
