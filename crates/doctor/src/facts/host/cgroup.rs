//! Control groups of both versions.

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// What the control groups show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CgroupFacts {
    /// Those that are frozen by themselves, not by one above them.
    pub frozen: Fact<Vec<FrozenCgroup>>,
    /// Those near their limit of tasks.
    pub pids: Fact<Vec<PidsUse>>,
    /// How many there are for memory, and how many are only left over.
    pub memory: Fact<MemoryCgroups>,
    /// Those of daemons that were kept from running.
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
    /// What stands in it.
    pub state: String,
    /// What thaws it when written there.
    pub thaw: String,
}

/// How many tasks a control group has of those it may have.
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
    /// As folders show them.
    pub folders: u64,
    /// Those that are gone and still held: what the kernel says, or the difference.
    pub left_over: u64,
    /// The version of the hierarchy.
    pub version: u8,
}

/// A control group with a quota of processor time, over the time between the looks.
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
    /// Periods in which it was stopped.
    pub throttled: u64,
}
