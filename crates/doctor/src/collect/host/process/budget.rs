//! How much is kept of all processes together, so that the bundle of any machine is small enough to be
//! written.

use super::MAX_THREADS;
use crate::facts::host::CgroupPath;

/// The maximum number of threads of all processes that serve containers, or have the name of one that does.
const MAX_SERVING_THREADS: usize = 8_000;
/// The maximum number of threads of all other processes.
const MAX_OTHER_THREADS: usize = 4_000;
/// The maximum length of all cgroup paths together. A process usually has a few hundred bytes.
const MAX_PATH_BYTES: usize = 11 << 19;
/// The maximum number of root directories of runtimes. A node has one or two runtimes.
const MAX_ROOTS: usize = 8;

/// How much more may be kept.
pub(super) struct Budget {
    serving_threads: usize,
    other_threads: usize,
    /// Bytes of cgroup paths.
    paths: usize,
    /// Root directories of runtimes.
    roots: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            serving_threads: MAX_SERVING_THREADS,
            other_threads: MAX_OTHER_THREADS,
            paths: MAX_PATH_BYTES,
            roots: MAX_ROOTS,
        }
    }
}

impl Budget {
    /// How many threads of a process may be kept.
    pub(super) fn threads_left(&mut self, serving: bool) -> usize {
        MAX_THREADS.min(*self.threads(serving))
    }

    /// Deducts this many threads, which are kept.
    pub(super) fn charge_threads(&mut self, serving: bool, count: usize) {
        let left = self.threads(serving);
        *left = left.saturating_sub(count);
    }

    fn threads(&mut self, serving: bool) -> &mut usize {
        match serving {
            true => &mut self.serving_threads,
            false => &mut self.other_threads,
        }
    }

    /// The root directory of a runtime, unless the budget is exhausted.
    pub(super) fn take_root(&mut self, root: Option<String>) -> Option<String> {
        let root = root.filter(|_| self.roots > 0)?;
        self.roots -= 1;
        Some(root)
    }

    /// The control groups of a process, or none if they exceed the budget.
    pub(super) fn take_cgroups(&mut self, cgroups: Vec<CgroupPath>) -> Vec<CgroupPath> {
        let bytes: usize = cgroups.iter().map(|cgroup| cgroup.path.len()).sum();
        match self.paths.checked_sub(bytes) {
            Some(left) => {
                self.paths = left;
                cgroups
            }
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::process::{MAX_PROCESSES, RuncCommand};
    use crate::facts::host::{EndSignal, FdUse, Process, Thread};

    /// The longest values that processes can have.
    fn fullest() -> Vec<Process> {
        let name = "\u{fffd}".repeat(15);
        let thread = |tid| Thread {
            tid,
            comm: name.clone(),
            state: 'D',
            wchan: Some("f".repeat(60)),
            still: true,
            stack: Vec::new(),
            no_stack: None,
        };
        let threads = MAX_SERVING_THREADS + MAX_OTHER_THREADS;
        let process = |number: usize| Process {
            pid: 4_000_000 + number as u32,
            ppid: 4_000_000,
            uid: 4_000_000_000,
            comm: name.clone(),
            state: 'D',
            was_resumed: false,
            wchan: Some("f".repeat(60)),
            age_seconds: 123_456_789.123_456_78,
            kernel: false,
            cpu_share: Some(0.123_456_789_012_345_67),
            run_delay: Some(0.123_456_789_012_345_67),
            // Only processes with the name of a daemon have it, and those names are short.
            resident_kib: None,
            network: None,
            thread_count: 1_000_000,
            threads: (number < threads)
                .then(|| thread(4_000_000))
                .into_iter()
                .collect(),
            pending: Some(EndSignal::Term),
            tracer: Some(4_000_000),
            // Few processes are plugins.
            plugin_of: None,
            runc: Some(RuncCommand {
                verb: "checkpoint".to_owned(),
                container: Some("f".repeat(64)),
            }),
            cgroups: vec![CgroupPath {
                controllers: "freezer,pids,memory,cpu,cpuacct".to_owned(),
                path: "\"".repeat(MAX_PATH_BYTES / MAX_PROCESSES),
            }],
            fds: Fact::known(
                FdUse {
                    open: 1_000_000,
                    limit: Some(1_000_000),
                    hard_limit: Some(1_000_000),
                    inotify: 1_000_000,
                    pipes: 1_000_000,
                    fanotify: Vec::new(),
                    root: None,
                    hidden: 1_000_000,
                },
                "/proc/4000000/fd",
            ),
        };
        (0..MAX_PROCESSES).map(process).collect()
    }

    #[test]
    fn the_longest_values_of_all_processes_fit_into_a_bundle() {
        let text = serde_json::to_vec(&fullest()).expect("JSON");
        let max = crate::bundle::MAX_BYTES as usize * 7 / 8;
        assert!(text.len() < max, "{} of {max}", text.len());
    }
}
