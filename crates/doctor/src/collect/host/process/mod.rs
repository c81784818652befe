//! All processes, in two samples: the difference shows which threads did not run in between. Helpers
//! read them file by file, so that a read that never returns costs only that file of that process.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Host;
use super::sockets::Holders;
use crate::collect::helper::{Helpers, Outcome, Request};
use crate::facts::Fact;
use crate::facts::host::process::is_stopped;
use crate::facts::host::{Gap, Gaps, Process};

mod budget;
mod cgroups;
mod fds;
mod first;
mod plugin;
mod second;
mod stat;
mod threads;

pub(in crate::collect) use first::first_sample;
use second::{Again, Now, Waiter};
pub(in crate::collect) use second::{LookAt, second_sample, threads_of};
pub(super) use stat::capabilities;
pub(in crate::collect) use stat::read_stat;

/// How many threads of one process are kept.
const MAX_THREADS: usize = 64;
/// The maximum number of processes whose threads `add_threads` reads.
const MAX_OTHER_PROCESSES: usize = 64;
/// How long a helper that used all of its time takes to return its results.
const GRACE: Duration = Duration::from_secs(1);

/// All processes in the first sample.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) struct Census {
    pub(super) processes: Vec<Process>,
    before: HashMap<u32, Before>,
    /// Which process has which socket open.
    pub(super) holders: Holders,
    pub(super) gaps: Gaps,
}

/// The values of a process in the first sample that are compared with the second.
#[derive(Debug, Serialize, Deserialize)]
struct Before {
    /// When the process was started, in ticks since boot.
    start: u64,
    /// The CPU time that the process has used, in ticks.
    ticks: u64,
    /// How long all its threads together have waited for a CPU, in nanoseconds; only of processes that
    /// serve containers.
    delay: Option<u64>,
    /// How often each thread in uninterruptible sleep has run.
    switches: HashMap<u32, u64>,
}

pub(super) fn census(host: &Host, helpers: &mut Helpers) -> Fact<Census> {
    let source = host.proc.display().to_string();
    let request = Request::Census {
        proc: host.proc.clone(),
        limit: host.step,
    };
    Fact::of(helpers.ask(&request, host.step + GRACE), source)
}

impl Census {
    /// Adds the changes until the second sample, `seconds` later. A process that has ended since is
    /// removed. A process that could not be read again stays as in the first sample.
    pub(super) fn add_second_sample(&mut self, host: &Host, helpers: &mut Helpers, seconds: f64) {
        let request = Request::SecondSample {
            proc: host.proc.clone(),
            at: self.processes.iter().map(|one| self.look_at(one)).collect(),
            limit: host.step / 2,
        };
        let Outcome { done, gaps } = match helpers.ask(&request, host.step / 2 + GRACE) {
            Ok(outcome) => outcome,
            Err(why) => {
                let file = host.proc.display().to_string();
                return self.gaps.add(Gap { file, why });
            }
        };
        self.gaps.extend(gaps);
        let found: HashMap<u32, Now> = done.into_iter().collect();
        let before = &self.before;
        self.processes.retain_mut(|process| {
            match (found.get(&process.pid), before.get(&process.pid)) {
                (Some(Now::Gone), _) => false,
                (Some(Now::There(now)), Some(before)) => before.compare(process, now, seconds),
                _ => true,
            }
        });
    }

    fn look_at(&self, process: &Process) -> LookAt {
        let before = self.before.get(&process.pid);
        LookAt {
            pid: process.pid,
            delay: before.is_some_and(|before| before.delay.is_some()),
            threads: before
                .map_or_else(Vec::new, |before| before.switches.keys().copied().collect()),
        }
    }
}

impl Before {
    /// Adds the changes between the samples; false if the PID was reused.
    fn compare(&self, process: &mut Process, now: &Again, seconds: f64) -> bool {
        if now.start != self.start {
            return false;
        }
        if process.is_stopped() != is_stopped(now.state) {
            process.was_resumed = process.is_stopped();
            process.state = now.state;
            process.wchan.take_if(|_| is_stopped(now.state));
        }
        let hertz = rustix::param::clock_ticks_per_second() as f64;
        let ticks = now.ticks.saturating_sub(self.ticks);
        process.cpu_share = Some(ticks as f64 / hertz / seconds);
        if let (Some(before), Some(after)) = (self.delay, now.delay) {
            let waited = after.saturating_sub(before) as f64 / 1e9;
            process.run_delay = Some(waited / seconds);
        }
        for thread in &mut process.threads {
            let before = self.switches.get(&thread.tid);
            thread.still = before.is_some() && before == now.switches.get(&thread.tid);
        }
        true
    }
}

/// Adds the threads of those `processes` whose PIDs are in `of`, and the pods for which CNI plugins among
/// them run. Returns which files could not be read.
pub(super) fn add_threads(
    host: &Host,
    helpers: &mut Helpers,
    processes: &mut [Process],
    of: &HashSet<u32>,
) -> Gaps {
    let wanted = processes
        .iter_mut()
        .filter(|process| of.contains(&process.pid) && process.threads.is_empty());
    let wanted: Vec<&mut Process> = wanted.take(MAX_OTHER_PROCESSES).collect();
    if wanted.is_empty() {
        return Gaps::default();
    }
    let request = Request::Threads {
        proc: host.proc.clone(),
        of: wanted.iter().map(|process| process.pid).collect(),
        limit: host.step / 2,
    };
    let Ok(Outcome { done, gaps }) = helpers.ask(&request, host.step / 2 + GRACE) else {
        return Gaps::default();
    };
    let mut found: HashMap<u32, Waiter> = done.into_iter().collect();
    for process in wanted {
        if let Some(Waiter { threads, pod }) = found.remove(&process.pid) {
            process.threads = threads;
            process.plugin_of = pod;
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_stopped_if_it_is_stopped_in_the_second_sample() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = Host::at(folder.path());
        let task = host.proc.join("42");
        let stand = |state: &str| {
            let rest = "1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 9 0 1000 1 2 3";
            let stat = format!("42 (containerd) {state} {rest}");
            std::fs::create_dir_all(&task).expect("a folder");
            std::fs::write(task.join("stat"), stat).expect("to write");
        };
        for (first, second, stopped) in [
            ("T", Some("T"), Some(true)),
            ("T", Some("S"), Some(false)),
            ("S", Some("T"), Some(true)),
            ("S", Some("R"), Some(false)),
            // A process that has ended since is removed.
            ("T", None, None),
        ] {
            stand(first);
            let mut helpers = Helpers::threads(1).expect("a thread");
            let Fact::Known {
                value: mut census, ..
            } = census(&host, &mut helpers)
            else {
                panic!("processes");
            };
            match second {
                Some(state) => stand(state),
                None => std::fs::remove_dir_all(&task).expect("to remove"),
            }
            census.add_second_sample(&host, &mut helpers, 1.0);
            let is_stopped = census.processes.first().map(Process::is_stopped);
            assert_eq!(is_stopped, stopped, "{first} {second:?}");
        }
    }
}
