//! All processes, looked at twice: what did not move between the looks stands still.

use std::collections::HashMap;

use super::Host;
use super::file::{line, text, word};
use crate::facts::Fact;
use crate::facts::host::{CgroupPath, Process};

mod fds;
mod stat;
mod threads;

use stat::Stat;

/// No node has more that could be shown.
const MOST: usize = 20_000;
/// Hierarchies that a cause asks about, and the one by which systemd keeps its units; the
/// empty name is that of version 2.
const CONTROLLERS: [&str; 5] = ["freezer", "pids", "memory", "cpu", "name=systemd"];
/// As `clone(2)` has it: a thread of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Everything that runs, at the first look.
pub(super) struct Census {
    processes: Vec<Process>,
    /// Processor ticks by pid.
    ticks: HashMap<u32, u64>,
    /// Nanoseconds on the run queue by pid, of daemons.
    delays: HashMap<u32, u64>,
    /// How often a thread in uninterruptible sleep has run, by pid and tid.
    switches: HashMap<(u32, u32), u64>,
}

pub(super) fn census(host: &Host) -> Fact<Census> {
    let source = host.proc.display().to_string();
    let entries = match std::fs::read_dir(&host.proc) {
        Ok(entries) => entries,
        Err(error) => return Fact::missing(error, source),
    };
    let uptime = word::<f64>(&host.proc.join("uptime"), 0);
    let uptime = uptime.value().copied().unwrap_or(0.0);
    let mut census = Census {
        processes: Vec::new(),
        ticks: HashMap::new(),
        delays: HashMap::new(),
        switches: HashMap::new(),
    };
    let pids = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    for pid in pids.take(MOST) {
        // One that ended since is none.
        census.add(host, pid, uptime);
    }
    census.processes.sort_by_key(|process| process.pid);
    census.name_what_serves(host);
    Fact::known(census, source)
}

impl Census {
    pub(super) fn processes(&self) -> &[Process] {
        &self.processes
    }

    fn add(&mut self, host: &Host, pid: u32, uptime: f64) -> Option<()> {
        let folder = host.proc.join(pid.to_string());
        let stat = Stat::read(&folder)?;
        let kernel = stat.flags & KERNEL_THREAD != 0 || pid == 2;
        let status = text(&folder.join("status")).unwrap_or_default();
        let started = stat.start as f64 / rustix::param::clock_ticks_per_second() as f64;
        let mut process = Process {
            pid,
            ppid: stat.ppid,
            uid: stat::uid(&status).unwrap_or(0),
            comm: stat.comm,
            state: stat.state,
            wchan: threads::wchan(&folder),
            age_seconds: (uptime - started).max(0.0),
            kernel,
            thread_count: stat.threads,
            cgroups: cgroups(&folder),
            ..Process::default()
        };
        process.threads = threads::of(&folder, process.serves_containers());
        if !kernel {
            process.fds = fds::count(&folder);
        }
        for thread in process.threads.iter().filter(|thread| thread.state == 'D') {
            if let Some(switches) = threads::switches(&folder, thread.tid) {
                self.switches.insert((pid, thread.tid), switches);
            }
        }
        if process.serves_containers() {
            self.delays
                .extend(threads::delay(&folder).map(|delay| (pid, delay)));
        }
        self.ticks.insert(pid, stat.ticks);
        self.processes.push(process);
        Some(())
    }

    /// Children of what runs containers are shown with their threads as well: plug-ins of
    /// CNI, and what runc starts.
    fn name_what_serves(&mut self, host: &Host) {
        let serving: Vec<u32> = self
            .processes
            .iter()
            .filter(|process| process.is_daemon() || process.is_runc())
            .map(|process| process.pid)
            .collect();
        for process in &mut self.processes {
            if process.threads.is_empty() && serving.contains(&process.ppid) {
                process.threads = threads::of(&host.proc.join(process.pid.to_string()), true);
            }
        }
    }

    /// The second look, `seconds` later.
    pub(super) fn look_again(mut self, host: &Host, seconds: f64) -> Vec<Process> {
        let hertz = rustix::param::clock_ticks_per_second() as f64;
        for process in &mut self.processes {
            let folder = host.proc.join(process.pid.to_string());
            let Some(stat) = Stat::read(&folder) else {
                continue;
            };
            if let Some(before) = self.ticks.get(&process.pid) {
                let ticks = stat.ticks.saturating_sub(*before);
                process.cpu_share = Some(ticks as f64 / hertz / seconds);
            }
            if let Some(before) = self.delays.get(&process.pid)
                && let Some(after) = threads::delay(&folder)
            {
                let waited = after.saturating_sub(*before) as f64 / 1e9;
                process.run_delay = Some(waited / seconds);
            }
            for thread in &mut process.threads {
                let before = self.switches.get(&(process.pid, thread.tid));
                thread.still = thread.state == 'D'
                    && before.is_some_and(|before| threads::is_still(&folder, thread, *before));
            }
        }
        self.processes
    }
}

/// `4:memory:/kubepods/burstable/pod…`
fn cgroups(folder: &std::path::Path) -> Vec<CgroupPath> {
    let text = text(&folder.join("cgroup")).unwrap_or_default();
    let paths = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let wanted = controllers.is_empty()
            || controllers
                .split(',')
                .any(|name| CONTROLLERS.contains(&name));
        wanted.then(|| CgroupPath {
            controllers: controllers.to_owned(),
            path: super::file::printable(path),
        })
    });
    paths.collect()
}

fn comm(folder: &std::path::Path) -> Option<String> {
    line(&folder.join("comm")).ok()
}
