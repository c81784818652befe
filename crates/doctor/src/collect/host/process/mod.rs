//! All processes, looked at twice: what did not move between the looks stands still. Helpers
//! read them, file by file: a read that never returns costs that one file of that process.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Host;
use super::sockets::Holders;
use crate::collect::helper::{Helpers, Request};
use crate::facts::Fact;
use crate::facts::host::process::is_stopped;
use crate::facts::host::{Gap, Gaps, Process};

mod cgroups;
mod fds;
mod first;
mod plugin;
mod read_text;
mod room;
mod second;
mod stat;
mod threads;

pub(in crate::collect) use first::first_look;
use second::{Again, Now, SecondSample, Waiters};
pub(in crate::collect) use second::{LookAt, second_look, threads_of};
pub(super) use stat::capabilities;
pub(in crate::collect) use stat::read_stat;

/// How many threads of one process are kept.
const MAX_THREADS: usize = 64;
/// Of how many other processes the threads are kept.
const MAX_OTHER_PROCESSES: usize = 64;
/// How long a helper that used all of its time takes to return its results.
const GRACE: Duration = Duration::from_secs(1);

/// All processes in the first sample.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) struct Census {
    processes: Vec<Process>,
    before: HashMap<u32, Before>,
    /// Which process has which socket open.
    holders: Holders,
    gaps: Gaps,
}

/// The values of a process in the first sample that are compared with the second.
#[derive(Debug, Serialize, Deserialize)]
struct Before {
    /// When it began, in ticks.
    start: u64,
    /// How long it has run, in ticks.
    ticks: u64,
    /// Nanoseconds on the run queue, of daemons.
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
    match helpers.ask(&request, host.step + GRACE) {
        Ok(census) => Fact::known(census, source),
        Err(why) => Fact::missing(why, source),
    }
}

impl Census {
    pub(super) fn processes(&self) -> &[Process] {
        &self.processes
    }

    pub(super) fn take_holders(&mut self) -> Holders {
        std::mem::take(&mut self.holders)
    }

    /// The second sample, `seconds` later. A process that has ended since waits for nothing and is
    /// removed. A process that could not be read again stays as in the first sample.
    pub(super) fn look_again(
        mut self,
        host: &Host,
        helpers: &mut Helpers,
        seconds: f64,
    ) -> (Vec<Process>, Gaps) {
        let request = Request::LookAgain {
            proc: host.proc.clone(),
            at: self.processes.iter().map(|one| self.look_at(one)).collect(),
            limit: host.step / 2,
        };
        let look: SecondSample = match helpers.ask(&request, host.step / 2 + GRACE) {
            Ok(look) => look,
            Err(why) => {
                let file = host.proc.display().to_string();
                self.gaps.add(Gap { file, why });
                return (self.processes, self.gaps);
            }
        };
        self.gaps.extend(look.gaps);
        let mut found: HashMap<u32, Now> = look.found.into_iter().collect();
        let before = self.before;
        self.processes.retain_mut(|process| {
            let now = found.remove(&process.pid);
            match (now, before.get(&process.pid)) {
                (Some(Now::Gone), _) => false,
                (Some(Now::There(now)), Some(before)) => before.compare(process, &now, seconds),
                _ => true,
            }
        });
        (self.processes, self.gaps)
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
        // A process that runs again is not stopped any more, and one that was stopped since is.
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
            let mut later = now.threads.iter();
            let later = later.find(|later| later.tid == thread.tid);
            thread.still = thread.state == 'D'
                && later.is_some_and(|later| {
                    later.state == thread.state && Some(&later.switches) == before
                });
        }
        true
    }
}

/// Shows all threads of these, and the pods of CNI plugins, so that it is known what they wait for and
/// which pods wait for them; gives what of them could not be read.
pub(super) fn show_threads(
    host: &Host,
    helpers: &mut Helpers,
    processes: &mut [Process],
    of: &HashSet<u32>,
) -> Gaps {
    let shown = processes
        .iter_mut()
        .filter(|process| of.contains(&process.pid) && process.threads.is_empty());
    let mut shown: Vec<&mut Process> = shown.take(MAX_OTHER_PROCESSES).collect();
    if shown.is_empty() {
        return Gaps::default();
    }
    let request = Request::Threads {
        proc: host.proc.clone(),
        of: shown.iter().map(|process| process.pid).collect(),
        limit: host.step / 2,
    };
    let Ok(Waiters { found, gaps }) = helpers.ask(&request, host.step / 2 + GRACE) else {
        return Gaps::default();
    };
    for (pid, waiter) in found {
        if let Some(process) = shown.iter_mut().find(|process| process.pid == pid) {
            process.threads = waiter.threads;
            process.plugin_of = waiter.pod;
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_stopped_if_it_is_at_the_second_look() {
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
            let Fact::Known { value: census, .. } = census(&host, &mut helpers) else {
                panic!("processes");
            };
            match second {
                Some(state) => stand(state),
                None => std::fs::remove_dir_all(&task).expect("to remove"),
            }
            let (processes, _) = census.look_again(&host, &mut helpers, 1.0);
            let is_stopped = processes.first().map(Process::is_stopped);
            assert_eq!(is_stopped, stopped, "{first} {second:?}");
        }
    }
}
