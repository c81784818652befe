//! Limits of the whole machine, and how much of them is used.

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// Limits of the whole machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KernelLimits {
    /// How many files all processes together have open.
    pub files_open: Fact<u64>,
    /// The maximum number of open files.
    pub files_max: Fact<u64>,
    /// The maximum limit of a single process.
    pub files_of_process_max: Fact<u64>,
    /// How many processes and threads there are.
    pub tasks: Fact<u64>,
    /// The largest PID, which limits the number of tasks.
    pub pid_max: Fact<u64>,
    /// The maximum number of threads.
    pub threads_max: Fact<u64>,
    /// The maximum number of inotify instances per user.
    pub inotify_instances_max: Fact<u64>,
    /// How many pages a user's pipes may use before new pipes get a single page.
    pub pipe_pages_soft: Fact<u64>,
}
