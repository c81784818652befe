//! The stable ids of the built-in causes. Each cause is declared here and has a page with the same name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::SiteCause;

/// Declares the causes: a variant for each, and the id, which is also the name of its page.
macro_rules! causes {
    ($($variant:ident = $id:literal,)+) => {
        /// Why a node is NotReady. Reports, metrics and pages name a cause by its id.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each is its id; its page describes it")]
        pub enum Cause {
            $($variant,)+
            /// A cause that a site has added.
            Site(SiteCause),
        }

        impl Cause {
            /// All built-in causes, from systemd through the runtime to the disk.
            pub const ALL: [Self; [$($id),+].len()] = [$(Self::$variant),+];

            /// The stable id.
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$variant => $id,)+
                    Self::Site(cause) => cause.id(),
                }
            }

            /// The page of a built-in cause, with its front matter.
            pub(crate) fn source(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../causes/", $id, "/page.md")),)+
                    Self::Site(_) => "",
                }
            }
        }
    };
}

causes! {
    SystemdCookieOverflow = "systemd-cookie-overflow",
    SystemdOverloaded = "systemd-overloaded",
    BusUnavailable = "bus-unavailable",
    RuncInitFrozen = "runc-init-frozen",
    RuncSeccompPipe = "runc-seccomp-pipe",
    RuncShortExecStuck = "runc-short-exec-stuck",
    RuncHung = "runc-hung",
    ShimUnresponsive = "shim-unresponsive",
    ContainerNotDying = "container-not-dying",
    ContainerNotListed = "container-not-listed",
    ContainerCreationSlow = "container-creation-slow",
    ContainerStatusLock = "container-status-lock",
    ContainerLock = "container-lock",
    RuntimeUnresponsive = "runtime-unresponsive",
    RuntimeRestartLoop = "runtime-restart-loop",
    RuntimeLeak = "runtime-leak",
    NriPluginUnresponsive = "nri-plugin-unresponsive",
    SandboxImageMissing = "sandbox-image-missing",
    StatisticsHang = "statistics-hang",
    ListExceedsGrpcLimit = "list-exceeds-grpc-limit",
    TooManyContainers = "too-many-containers",
    FdOrInotifyExhausted = "fd-or-inotify-exhausted",
    KubeletInternal = "kubelet-internal",
    KubeletNotRunning = "kubelet-not-running",
    KubeletCredentials = "kubelet-credentials",
    ApiServerUnreachable = "api-server-unreachable",
    DevicePluginUnresponsive = "device-plugin-unresponsive",
    CniNotReady = "cni-not-ready",
    IpAddressesExhausted = "ip-addresses-exhausted",
    CniPluginHang = "cni-plugin-hang",
    RtnlStuck = "rtnl-stuck",
    KernelRegression = "kernel-regression",
    KernelStall = "kernel-stall",
    MemoryCgroupLeak = "memory-cgroup-leak",
    StorageUnresponsive = "storage-unresponsive",
    DiskErrors = "disk-errors",
    CsiDriverUnresponsive = "csi-driver-unresponsive",
    FanotifyBlocked = "fanotify-blocked",
    DiskSaturated = "disk-saturated",
    CpuStarved = "cpu-starved",
    MemoryThrash = "memory-thrash",
    DiskFull = "disk-full",
    PidsExhausted = "pids-exhausted",
    RepairLoop = "repair-loop",
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

impl<'de> Deserialize<'de> for Cause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        SiteCause::reported(&id).ok_or_else(|| serde::de::Error::custom(UnknownCause(id)))
    }
}

/// The error if a text is not the id of a cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a cause")]
pub struct UnknownCause(String);

impl FromStr for Cause {
    type Err = UnknownCause;

    fn from_str(text: &str) -> Result<Self, UnknownCause> {
        let found = Self::ALL.into_iter().find(|cause| cause.id() == text);
        let found = found.or_else(|| SiteCause::named(text));
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
}
