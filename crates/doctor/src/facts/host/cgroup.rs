//! Control groups of both versions.

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// What the control groups show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CgroupFacts {
    /// Those that are frozen themselves, not by a parent.
    pub frozen: Fact<Vec<FrozenCgroup>>,
    /// Those near their limit of tasks.
    pub pids: Fact<Vec<PidsUse>>,
    /// How many memory cgroups there are, and how many of them leaked.
    pub memory: Fact<MemoryCgroups>,
    /// The limits of memory of those of daemons, and of those above them.
    pub memory_limits: Fact<Vec<MemoryLimit>>,
    /// Those of daemons that were throttled.
    pub throttled: Fact<Vec<Throttling>>,
}

/// A frozen control group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrozenCgroup {
    /// Its path in the hierarchy.
    pub path: String,
    /// The file to write to.
    pub file: String,
    /// The content of the file.
    pub state: String,
    /// What to write to the file to thaw the cgroup.
    pub thaw: String,
}

/// The number of tasks in a control group, and its limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PidsUse {
    /// Its path in the hierarchy.
    pub path: String,
    /// How many there are.
    pub current: u64,
    /// How many there may be.
    pub max: u64,
    /// How often a fork was refused.
    pub refused: Option<u64>,
}

/// Control groups of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryCgroups {
    /// As the kernel counts them.
    pub counted: u64,
    /// The number of directories.
    pub folders: u64,
    /// Those that were removed but are still held: as the kernel reports, or the difference.
    pub left_over: u64,
    /// The version of the hierarchy.
    pub version: u8,
}

/// A control group with a limit of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryLimit {
    /// Its path in the hierarchy.
    pub path: String,
    /// The limit, in KiB.
    pub max_kib: u64,
}

/// A control group with a CPU quota, between the samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Throttling {
    /// Its path in the hierarchy.
    pub path: String,
    /// One of its processes.
    pub process: String,
    /// Its id.
    pub pid: u32,
    /// Periods that passed.
    pub periods: u64,
    /// Periods in which it was throttled.
    pub throttled: u64,
}
