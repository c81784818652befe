//! One scan (pure): which processes are new, and what they are.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::host::{RuncCommand, is_runc, is_shim};

use super::Symptom;
use super::commands::Commands;
use super::containers::{Containers, Extent};

/// The time between two scans. A process is found while it is young, and judged when its limit has passed.
pub(super) const PERIOD: Duration = Duration::from_secs(15);

/// The longest time from one reading of a container's process to the next. If its keeper shows that the
/// container may have been stopped, the process is read within two scans.
const ALL_WITHIN: Duration = Duration::from_secs(120);

/// The age from which a process is examined. A younger process may still have the name or the parent of
/// the process that started it.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// Where runtimes and runc keep their state, and where containers write.
const DIRECTORIES: [&str; 5] = [
    "/run",
    "/",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
];

/// A process that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LiveProcess {
    pub(super) name: String,
    pub(super) parent: u32,
    /// When the process started, as time since boot.
    pub(super) started: Duration,
    /// Whether the process is stopped by a signal or a tracer.
    pub(super) is_stopped: bool,
    /// Whether the process was killed, or its first thread is ending or has ended.
    pub(super) is_ending: bool,
    /// The page faults of the children for which the process has waited; they grow with each child.
    pub(super) child_faults: u64,
}

/// The command line of a runc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) command: RuncCommand,
    /// Where runc keeps its records of containers.
    pub(super) root: PathBuf,
}

/// What is read of this machine.
pub(super) trait Processes {
    /// The PID that was assigned last. After the largest PID, the kernel continues with small ones.
    fn newest(&self) -> Option<u32>;

    /// The PIDs in this range; none if they cannot be read.
    fn pids(&mut self, range: RangeInclusive<u32>) -> Vec<u32>;

    /// A process; `None` if it has ended, even if it is a zombie.
    fn live_process(&self, pid: u32) -> Option<LiveProcess>;

    /// The command line of a runc.
    fn command_line(&self, pid: u32) -> Option<CommandLine>;

    /// Whether a directory exists; true if that is unknown.
    fn may_exist(&self, directory: &Path) -> bool;

    /// Whether the file system of a directory has no space or no inodes.
    fn is_full(&self, directory: &Path) -> bool;

    /// How long the machine has been up.
    fn uptime(&self) -> Duration;
}

#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The newest PIDs at the last two scans, the older one first. Each process is examined twice: a
    /// young runc at once, and the others once they are settled.
    newest: [Option<u32>; 2],
    daemons: BTreeSet<u32>,
    commands: Commands,
    containers: Containers,
    /// When all processes of containers were last read.
    all_read: Option<Duration>,
    /// Which processes of containers the last scan read.
    extent: Extent,
    full: Vec<&'static str>,
}

impl Scan {
    /// Examines all new processes and the known ones. Returns the time until the next scan.
    pub(super) fn scan(&mut self, processes: &mut impl Processes) -> Duration {
        let now = processes.uptime();
        let had_commands = self.commands.forget_ended(processes);
        self.add_new(now, processes);
        let all_are_due = self.all_read.is_none_or(|at| now >= at + ALL_WITHIN);
        let keepers_are_due = had_commands || self.extent == Extent::Symptoms;
        self.extent = match (all_are_due, keepers_are_due) {
            (true, _) => Extent::All,
            (false, true) => Extent::Keepers,
            (false, false) => Extent::Symptoms,
        };
        if all_are_due {
            self.all_read = Some(now);
        }
        self.containers.judge(self.extent, now, processes);
        let full = DIRECTORIES.into_iter();
        let full = full.filter(|directory| processes.is_full(Path::new(directory)));
        self.full = full.collect();
        self.commands.judge(now, processes).min(PERIOD)
    }

    pub(super) fn symptoms(&self) -> BTreeSet<Symptom> {
        let full = self.full.iter().copied().map(Symptom::Full);
        let of_processes = self.commands.overdue().chain(self.containers.symptoms());
        of_processes.chain(full).collect()
    }

    fn add_new(&mut self, now: Duration, processes: &mut impl Processes) {
        // Read the newest PID first: a process that starts during this scan belongs to the next one.
        let newest = processes.newest();
        let ranges = match (self.newest[0], newest) {
            (Some(last), Some(newest)) if last <= newest => vec![last + 1..=newest],
            (Some(last), Some(newest)) => vec![last + 1..=u32::MAX, 1..=newest],
            (None, _) | (_, None) => vec![1..=u32::MAX],
        };
        self.newest = [self.newest[1], newest];
        let pids = ranges.into_iter().flat_map(|range| processes.pids(range));
        let pids: Vec<u32> = pids.collect();
        let new = pids.into_iter();
        let new = new.filter_map(|pid| Some((pid, processes.live_process(pid)?)));
        let new: Vec<(u32, LiveProcess)> = new.collect();
        for (pid, process) in new.iter().filter(|(_, process)| is_runc(&process.name)) {
            self.commands.add_runc(*pid, process.started, processes);
        }
        let is_settled = |process: &LiveProcess| now >= process.started + SETTLED_AFTER;
        let settled = new.iter();
        let settled = settled.filter(|(_, process)| is_settled(process) && !is_runc(&process.name));
        let settled: Vec<_> = settled.collect();
        // What a process is depends on its parent, which may have a larger PID.
        for (pid, process) in &settled {
            if is_shim(&process.name) {
                self.containers.add_keeper(*pid, process, now);
            } else if is_daemon(process) {
                self.daemons.insert(*pid);
            }
        }
        let is_daemon = |pid: &u32| processes.live_process(*pid).as_ref().is_some_and(is_daemon);
        self.daemons.retain(is_daemon);
        let others = settled.iter();
        for (pid, process) in others.filter(|(_, process)| !is_shim(&process.name)) {
            match self.daemons.contains(&process.parent) {
                true => self.commands.add_helper(*pid, process),
                false => self.containers.add_kept(*pid, process, now),
            }
        }
    }
}

/// Whether the process starts shims, conmons, runcs and CNI plugins.
pub(super) fn is_daemon(process: &LiveProcess) -> bool {
    matches!(&*process.name, "containerd" | "crio")
}

#[cfg(test)]
mod tests {
    use super::super::world::{FULL, World};
    use super::*;

    #[test]
    fn a_runc_that_is_overdue_at_the_first_scan_is_found_at_once() {
        let world = World::node();
        world.start(200, "runc", 20);
        world.change(200, |runc| runc.started = Duration::from_secs(400));
        let mut scan = Scan::default();
        scan.scan(&mut &world);
        assert_eq!(scan.symptoms().len(), 1);
    }

    #[test]
    fn a_runc_is_found_after_pids_have_wrapped_around_and_under_a_reused_pid() {
        let seen = World::node().changes(120, |world, second| match second {
            1 => world.start(200, "runc", 20),
            20 => world.newest.set(32_000),
            41 => world.start(100, "runc", 20),
            // The process that had this PID has ended.
            42 => world.start(200, "runc", 20),
            _ => {}
        });
        let [(first, one), (ended, none), second, third] = &seen[..] else {
            panic!("{seen:?}");
        };
        assert_eq!((*first, &one[..]), (31, &[200][..]));
        assert!((42..=57).contains(ended) && none.is_empty());
        assert_eq!(*second, (71, vec![100]));
        assert_eq!(*third, (72, vec![100, 200]));
    }

    #[test]
    fn a_process_that_had_the_name_of_its_parent_at_first_is_examined_again() {
        let seen = World::node().changes(60, |world, second| match second {
            15 => world.start(200, "containerd-shim", 20),
            16 => world.change(200, |runc| runc.name = "runc".to_owned()),
            _ => {}
        });
        assert_eq!(seen, [(45, vec![200])]);
    }

    #[test]
    fn a_file_system_without_space_is_a_symptom_until_it_has_some() {
        let seen = World::node().changes(100, |world, second| {
            world.full.set((20..50).contains(&second).then_some("/run"));
        });
        assert_eq!(seen, [(30, vec![FULL]), (60, vec![])]);
    }

    #[test]
    fn on_a_quiet_node_keepers_are_read_at_each_second_scan_and_containers_each_two_minutes() {
        // 101 processes of shims, and other processes that start and end all the time.
        let world = World::node();
        (100..200).for_each(|pid| world.start(pid, "app", 20));
        assert_eq!(world.changes(15, |_, _| {}), []);
        world.read.take();
        let seen = world.changes(15 + 600, |world, second| world.newest.set(1000 + second));
        assert_eq!(seen, []);
        // Two daemons at each scan, the keeper at every second one. At first, all processes twice.
        let (count, scans) = (world.all.borrow().len(), 41);
        let expected = 2 * scans + scans / 2 + 2 * count + 6 * 101;
        assert!(world.read.get() <= expected, "{}", world.read.get());
    }
}
