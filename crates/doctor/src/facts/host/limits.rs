//! What the kernel allows in all, and how much of it is used.

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// Limits of the whole machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KernelLimits {
    /// Open files of all processes.
    pub files_open: Fact<u64>,
    /// How many there may be.
    pub files_max: Fact<u64>,
    /// How many a single process may be allowed.
    pub files_of_process_max: Fact<u64>,
    /// Processes and threads.
    pub tasks: Fact<u64>,
    /// The largest id of one, so how many there may be.
    pub pid_max: Fact<u64>,
    /// How many threads there may be.
    pub threads_max: Fact<u64>,
    /// Instances of inotify that a user may have.
    pub inotify_instances_max: Fact<u64>,
    /// Pages that a user's pipes may use before new ones get a single page.
    pub pipe_pages_soft: Fact<u64>,
}
