//! Processor, memory, and who waits for them.

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// Pressure stall information.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PressureFacts {
    /// Waits for a processor.
    pub cpu: Fact<Pressure>,
    /// Waits for the disk.
    pub io: Fact<Pressure>,
    /// Waits for memory.
    pub memory: Fact<Pressure>,
}

/// The waits for one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pressure {
    /// Of the time, in which at least one task waited.
    pub some: Stalls,
    /// In which all tasks that could run did.
    pub full: Option<Stalls>,
}

/// Per cent of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the kernel's own names, in seconds")]
pub struct Stalls {
    pub avg10: f64,
    pub avg60: f64,
    pub avg300: f64,
}

/// Shares of all processors' time between the looks, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CpuTimes {
    /// Spent on something.
    pub busy: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Idle while a disk was waited for.
    pub io_wait: f64,
}

/// Memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// All of it, in KiB.
    pub total_kib: u64,
    /// What could still be had, in KiB.
    pub available_kib: u64,
    /// What waits for the disk, in KiB.
    pub dirty_kib: u64,
    /// Pages a second that were thrown away and needed again.
    pub refaults_per_second: f64,
    /// Page faults a second that had to read from a disk.
    pub major_faults_per_second: f64,
}
