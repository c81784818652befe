//! The use of CPU and memory, and how long tasks wait for them.

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// The kernel's pressure stall information.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PressureFacts {
    /// Waits for a CPU.
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
    /// The time in which at least one task waited.
    pub some: Stalls,
    /// The time in which all runnable tasks waited.
    pub full: Option<Stalls>,
}

/// Percentages of the last 10, 60 and 300 seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the kernel's own names")]
pub struct Stalls {
    pub avg10: f64,
    pub avg60: f64,
    pub avg300: f64,
}

/// Shares of the time of all CPUs between the samples, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CpuTimes {
    /// The share that was neither idle nor waiting for I/O.
    pub busy: f64,
    /// The share that the hypervisor took.
    pub steal: f64,
    /// The share that was idle while waiting for I/O.
    pub io_wait: f64,
}

/// Memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Total memory, in KiB.
    pub total_kib: u64,
    /// Available memory, in KiB.
    pub available_kib: u64,
    /// Memory that has to be written to disk, in KiB.
    pub dirty_kib: u64,
    /// Pages per second that were evicted and had to be read again.
    pub refaults_per_second: f64,
    /// Page faults per second that read from a disk.
    pub major_faults_per_second: f64,
}
