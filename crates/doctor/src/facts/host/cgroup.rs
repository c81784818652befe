//! Control groups of both versions.

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// What the control groups show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CgroupFacts {
    /// Control groups that are frozen themselves, not only through a parent.
    pub frozen: Fact<Vec<FrozenCgroup>>,
    /// Control groups near their limit on tasks.
    pub pids: Fact<Vec<PidsUse>>,
    /// How many memory cgroups there are, and how many of them leaked.
    pub memory: Fact<MemoryCgroups>,
    /// The memory limits of the daemons' control groups and of their ancestors.
    pub memory_limits: Fact<Vec<MemoryLimit>>,
    /// Control groups of daemons that were throttled between the samples.
    pub throttled: Fact<Vec<Throttling>>,
}

/// A frozen control group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrozenCgroup {
    /// Its path in the hierarchy.
    pub path: String,
    /// The file that freezes and thaws the control group.
    pub file: String,
    /// The content of the file.
    pub state: String,
    /// What to write to the file to thaw the control group.
    pub thaw: String,
}

/// The number of tasks in a control group, and its limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PidsUse {
    /// Its path in the hierarchy.
    pub path: String,
    /// How many tasks there are.
    pub current: u64,
    /// How many tasks there may be.
    pub max: u64,
    /// How often a fork was refused.
    pub refused: Option<u64>,
}

/// The number of memory cgroups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryCgroups {
    /// How many memory cgroups there are, as the kernel counts them.
    pub counted: u64,
    /// The number of directories, each of which is a control group in use.
    pub folders: u64,
    /// How many control groups were removed but still exist in the kernel: `counted` less `folders` on
    /// version 1.
    pub left_over: u64,
    /// The version of the hierarchy.
    pub version: u8,
}

/// A control group with a memory limit.
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
    /// The name of one of its processes.
    pub process: String,
    /// The id of the process that `process` names.
    pub pid: u32,
    /// How many periods passed.
    pub periods: u64,
    /// In how many periods the control group was throttled.
    pub throttled: u64,
}
