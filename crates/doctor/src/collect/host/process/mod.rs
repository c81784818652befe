//! All processes, looked at twice: what did not move between the looks stands still.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::Host;
use super::file::{line, printable_path, text, word};
use super::sockets::Holders;
use crate::facts::Fact;
use crate::facts::host::process::{MOST_PROCESSES, is_stopped};
use crate::facts::host::{CgroupPath, Process, Thread};

mod fds;
mod stat;
mod threads;

pub(in crate::collect) use stat::Stat;

/// Of one process so many threads are shown.
const MOST_THREADS: usize = 64;
/// The threads of so many others are shown.
const MOST_SHOWN: usize = 64;
/// Of what runs containers, or says so by its name, so many in all.
const MOST_SERVING_THREADS: usize = 8_000;
/// Of all others.
const MOST_OTHER_THREADS: usize = 4_000;
/// Bytes of paths of control groups; on a usual node a process has some hundred.
const MOST_PATHS: usize = 6 << 20;
/// Hierarchies that a cause asks about, and the one by which systemd keeps its units; the
/// empty name is that of version 2.
const CONTROLLERS: [&str; 5] = ["freezer", "pids", "memory", "cpu", "name=systemd"];
/// As `clone(2)` has it: a thread of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Everything that runs, at the first look.
pub(super) struct Census {
    processes: Vec<Process>,
    /// When it began and how long it has run, in ticks, by pid.
    ticks: HashMap<u32, (u64, u64)>,
    /// Nanoseconds on the run queue by pid, of daemons.
    delays: HashMap<u32, u64>,
    /// How often a thread in uninterruptible sleep has run, by pid and tid.
    switches: HashMap<(u32, u32), u64>,
    /// Who has which socket open.
    holders: Holders,
    left: Room,
}

/// What may still be kept, so that no machine makes a bundle too large to be written.
struct Room {
    serving_threads: usize,
    other_threads: usize,
    /// Bytes of paths.
    paths: usize,
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
        holders: Holders::default(),
        left: Room {
            serving_threads: MOST_SERVING_THREADS,
            other_threads: MOST_OTHER_THREADS,
            paths: MOST_PATHS,
        },
    };
    let pids = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    for pid in pids.take(MOST_PROCESSES) {
        // One that ended since is none.
        census.add(host, pid, uptime);
    }
    census.processes.sort_by_key(|process| process.pid);
    name_groups_as_init(&mut census.processes);
    Fact::known(census, source)
}

impl Census {
    pub(super) fn processes(&self) -> &[Process] {
        &self.processes
    }

    pub(super) fn take_holders(&mut self) -> Holders {
        std::mem::take(&mut self.holders)
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
            cgroups: self.left.cgroups(cgroups(&folder)),
            ..Process::default()
        };
        process.threads = self.left.threads(&folder, process.serves_containers());
        if !kernel {
            process.fds = fds::count(&folder, |inode| {
                self.holders.add(inode, pid);
            });
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
        self.ticks.insert(pid, (stat.start, stat.ticks));
        self.processes.push(process);
        Some(())
    }

    /// The second look, `seconds` later. Who has ended since waits for nobody.
    pub(super) fn look_again(mut self, host: &Host, seconds: f64) -> Vec<Process> {
        let hertz = rustix::param::clock_ticks_per_second() as f64;
        self.processes.retain_mut(|process| {
            let folder = host.proc.join(process.pid.to_string());
            let before = self.ticks.get(&process.pid);
            let (Some(stat), Some((start, ticks))) = (Stat::read(&folder), before) else {
                return false;
            };
            if stat.start != *start {
                return false;
            }
            // One that goes on again is not held by anybody.
            if process.is_stopped() && !is_stopped(stat.state) {
                process.state = stat.state;
            }
            let ticks = stat.ticks.saturating_sub(*ticks);
            process.cpu_share = Some(ticks as f64 / hertz / seconds);
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
            true
        });
        self.processes
    }
}

/// Shows all threads of these, so that it is known what they wait for.
pub(super) fn show_threads(host: &Host, processes: &mut [Process], of: &HashSet<u32>) {
    let shown = processes
        .iter_mut()
        .filter(|process| of.contains(&process.pid) && process.threads.is_empty());
    for process in shown.take(MOST_SHOWN) {
        let folder = host.proc.join(process.pid.to_string());
        process.threads = threads::of(&folder, true, MOST_THREADS);
    }
}

impl Room {
    fn threads(&mut self, folder: &Path, serving: bool) -> Vec<Thread> {
        let left = match serving {
            true => &mut self.serving_threads,
            false => &mut self.other_threads,
        };
        let threads = threads::of(folder, serving, MOST_THREADS.min(*left));
        *left -= threads.len();
        threads
    }

    fn cgroups(&mut self, cgroups: Vec<CgroupPath>) -> Vec<CgroupPath> {
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

/// Systemd's own groups begin where it stands itself: of one in a container, and for whoever
/// looks out of one, something else comes before that.
fn name_groups_as_init(processes: &mut [Process]) {
    let init = processes.first().filter(|process| process.pid == 1);
    let groups = init.into_iter().flat_map(|init| &init.cgroups);
    let mut roots = groups.filter_map(|group| group.path.strip_suffix("/init.scope"));
    let Some(root) = roots.find(|root| !root.is_empty()).map(str::to_owned) else {
        return;
    };
    for group in processes
        .iter_mut()
        .flat_map(|process| &mut process.cgroups)
    {
        if let Some(path) = group.path.strip_prefix(&root)
            && path.starts_with('/')
        {
            group.path = path.to_owned();
        }
    }
}

/// `4:memory:/kubepods/burstable/pod…`: one entry for hierarchies in which it is in the same
/// place.
fn cgroups(folder: &Path) -> Vec<CgroupPath> {
    let text = text(&folder.join("cgroup")).unwrap_or_default();
    let mut found: Vec<CgroupPath> = Vec::new();
    for line in text.lines() {
        let fields = line.split_once(':').map(|(_, rest)| rest);
        let Some((controllers, path)) = fields.and_then(|rest| rest.split_once(':')) else {
            continue;
        };
        let mut names = controllers.split(',');
        if !controllers.is_empty() && !names.any(|name| CONTROLLERS.contains(&name)) {
            continue;
        }
        let path = printable_path(path);
        let same = found.iter_mut().find(|cgroup| {
            !cgroup.controllers.is_empty() && !controllers.is_empty() && cgroup.path == path
        });
        match same {
            Some(same) => same.controllers.extend([",", controllers]),
            None => found.push(CgroupPath {
                controllers: controllers.to_owned(),
                path,
            }),
        }
    }
    found
}

fn comm(folder: &Path) -> Option<String> {
    line(&folder.join("comm")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::host::FdUse;

    /// As long as anything gets that the kernel lets others choose.
    fn fullest() -> Vec<Process> {
        let name = "\u{fffd}".repeat(15);
        let thread = |tid| Thread {
            tid,
            comm: name.clone(),
            state: 'D',
            wchan: Some("f".repeat(60)),
            still: true,
            stack: Vec::new(),
        };
        let threads = MOST_SERVING_THREADS + MOST_OTHER_THREADS;
        let process = |number: usize| Process {
            pid: 4_000_000 + number as u32,
            ppid: 4_000_000,
            uid: 4_000_000_000,
            comm: name.clone(),
            state: 'D',
            wchan: Some("f".repeat(60)),
            age_seconds: 123_456_789.123_456_78,
            kernel: false,
            cpu_share: Some(0.123_456_789_012_345_67),
            run_delay: Some(0.123_456_789_012_345_67),
            thread_count: 1_000_000,
            threads: (number < threads)
                .then(|| thread(4_000_000))
                .into_iter()
                .collect(),
            cgroups: vec![CgroupPath {
                controllers: "freezer,pids,memory,cpu,cpuacct".to_owned(),
                path: "\"".repeat(MOST_PATHS / MOST_PROCESSES),
            }],
            fds: Fact::known(
                FdUse {
                    open: 1_000_000,
                    limit: Some(1_000_000),
                    hard_limit: Some(1_000_000),
                    inotify: 1_000_000,
                    pipes: 1_000_000,
                    fanotify: Vec::new(),
                },
                "/proc/4000000/fd",
            ),
        };
        (0..MOST_PROCESSES).map(process).collect()
    }

    #[test]
    fn a_process_is_stopped_only_if_it_is_at_both_looks() {
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
            ("S", Some("T"), Some(false)),
            ("S", Some("R"), Some(false)),
            // One that has gone since is nobody.
            ("T", None, None),
        ] {
            stand(first);
            let Fact::Known { value: census, .. } = census(&host) else {
                panic!("processes");
            };
            match second {
                Some(state) => stand(state),
                None => std::fs::remove_dir_all(&task).expect("to remove"),
            }
            let processes = census.look_again(&host, 1.0);
            let is_stopped = processes.first().map(Process::is_stopped);
            assert_eq!(is_stopped, stopped, "{first} {second:?}");
        }
    }

    #[test]
    fn the_fullest_machine_fits_a_bundle_with_room_to_spare() {
        let text = serde_json::to_vec(&fullest()).expect("JSON");
        let most = crate::bundle::LONGEST as usize * 7 / 8;
        assert!(text.len() < most, "{} of {most}", text.len());
    }

    #[test]
    fn a_systemd_that_is_seen_from_elsewhere_names_its_own_services() {
        for before in ["", "/../..", "/docker/abc"] {
            let process = |pid: u32, path: &str| Process {
                pid,
                cgroups: vec![CgroupPath {
                    controllers: String::new(),
                    path: format!("{before}{path}"),
                }],
                ..Process::default()
            };
            let mut processes = [
                process(1, "/init.scope"),
                process(700, "/system.slice/containerd.service"),
            ];
            name_groups_as_init(&mut processes);
            assert_eq!(
                processes[1].service(),
                Some("containerd.service"),
                "{before}"
            );
        }
    }

    #[test]
    fn one_place_in_several_hierarchies_is_kept_once_and_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = format!("/{}", "x".repeat(500));
        let lines = format!(
            "9:freezer:{path}\n8:pids:{path}\n4:memory:/\n3:devices:/\n2:cpu,cpuacct:{path}\n0::{path}\n"
        );
        std::fs::write(folder.path().join("cgroup"), lines).expect("to write");
        let process = Process {
            cgroups: cgroups(folder.path()),
            ..Process::default()
        };
        assert_eq!(process.cgroups.len(), 3);
        for controller in ["freezer", "pids", "cpu"] {
            assert_eq!(process.cgroup(controller), Some(&*path), "{controller}");
        }
        assert_eq!(process.cgroup("memory"), Some("/"));
        assert_eq!(process.cgroup("hugetlb"), Some(&*path));
    }
}
