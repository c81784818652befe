//! Finds overdue runcs (pure): reads the name of each new process, and the age of each runc.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::host::{RUNC_OVERDUE_AFTER, RuncCommand, is_runc, is_shim};

/// The time between two scans. A runc is found while it is young, and judged when its limit has passed.
pub(super) const PERIOD: Duration = Duration::from_secs(15);

/// A command of runc that is overdue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Runc {
    /// Its start, as time since boot. It distinguishes processes that reuse a PID.
    started: Duration,
    pub(crate) id: RuncId,
}

/// What identifies an overdue command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RuncId {
    /// A process.
    Process(u32),
    /// The deletion of a container: containerd ends such a runc after ten seconds and, after growing
    /// pauses of up to five minutes, starts another one.
    Deletion(String),
}

/// The parent and the start of a process that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveProcess {
    pub(super) parent: u32,
    /// As time since boot.
    pub(super) started: Duration,
}

/// The command line of a runc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) command: RuncCommand,
    /// Where runc keeps its records of containers.
    pub(super) root: PathBuf,
}

/// What is read of processes.
pub(super) trait Processes {
    /// The PID that was assigned last. After the largest PID, the kernel continues with small ones.
    fn newest(&self) -> Option<u32>;

    /// The PIDs in this range; none if they cannot be read.
    fn pids(&mut self, range: RangeInclusive<u32>) -> Vec<u32>;

    /// The name of a process.
    fn name(&self, pid: u32) -> Option<String>;

    /// The parent and the start of a process; `None` if it has ended, even if it is a zombie.
    fn live_process(&self, pid: u32) -> Option<LiveProcess>;

    /// The command line of a runc.
    fn command_line(&self, pid: u32) -> Option<CommandLine>;

    /// Whether a directory exists; true if that is unknown.
    fn may_exist(&self, directory: &Path) -> bool;

    /// How long the machine has been up.
    fn uptime(&self) -> Duration;
}

#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The newest PIDs at the last two scans, the older one first. Each process is examined twice,
    /// because at first it may have the name of its parent.
    newest: [Option<u32>; 2],
    runcs: Vec<KnownRunc>,
    /// By container.
    deletions: BTreeMap<String, Deletion>,
}

#[derive(Debug)]
struct KnownRunc {
    pid: u32,
    started: Duration,
    /// The container that it deletes.
    deletes: Option<String>,
    /// Whether it is overdue, was started by a runtime, and is not a session. `None` before its limit;
    /// then decided once.
    is_overdue: Option<bool>,
}

/// The deletion of a container, by one or more runcs in turn.
#[derive(Debug)]
struct Deletion {
    /// When the first runc was started.
    started: Duration,
    /// runc's records of the container, which a deletion removes.
    records: PathBuf,
    is_overdue: bool,
}

#[cfg(test)]
impl Runc {
    pub(crate) fn of_test(pid: u32) -> Self {
        Self {
            started: Duration::ZERO,
            id: RuncId::Process(pid),
        }
    }
}

impl Scan {
    /// Examines all new processes and the known runcs. Returns the time until the next scan.
    pub(super) fn scan(&mut self, processes: &mut impl Processes) -> Duration {
        self.runcs.retain_mut(|runc| runc.is_alive(processes));
        self.deletions
            .retain(|_, deletion| processes.may_exist(&deletion.records));
        self.add_new(processes);
        if self.runcs.is_empty() {
            return PERIOD;
        }
        let now = processes.uptime();
        let mut next = PERIOD;
        for runc in &mut self.runcs {
            let of = runc.deletes.as_ref();
            let deletion = of.and_then(|id| self.deletions.get_mut(id));
            let since = deletion.as_ref().map_or(runc.started, |it| it.started);
            let left = runc.judge(now, since, processes);
            next = next.min(left.unwrap_or(PERIOD));
            if let Some(deletion) = deletion {
                deletion.is_overdue |= runc.is_overdue == Some(true);
            }
        }
        next
    }

    fn add_new(&mut self, processes: &mut impl Processes) {
        // Read the newest PID first: a process that starts during this scan belongs to the next one.
        let newest = processes.newest();
        let ranges = match (self.newest[0], newest) {
            (Some(last), Some(newest)) if last <= newest => vec![last + 1..=newest],
            (Some(last), Some(newest)) => vec![last + 1..=u32::MAX, 1..=newest],
            (None, _) | (_, None) => vec![1..=u32::MAX],
        };
        self.newest = [self.newest[1], newest];
        let new = ranges.into_iter().flat_map(|range| processes.pids(range));
        let new: Vec<u32> = new.collect();
        for pid in new {
            let is_known = self.runcs.iter().any(|runc| runc.pid == pid);
            let is_runc = || processes.name(pid).is_some_and(|name| is_runc(&name));
            if is_known || !is_runc() {
                continue;
            }
            if let Some(LiveProcess { started, .. }) = processes.live_process(pid) {
                let deletes = self.deletion_by(pid, started, processes);
                self.runcs.push(KnownRunc {
                    pid,
                    started,
                    deletes,
                    is_overdue: None,
                });
            }
        }
    }

    /// The container that this runc deletes, if it deletes one.
    fn deletion_by(
        &mut self,
        pid: u32,
        started: Duration,
        processes: &impl Processes,
    ) -> Option<String> {
        let CommandLine { command, root } = processes.command_line(pid)?;
        let container = command.container.filter(|_| command.verb == "delete")?;
        let deletion = self.deletions.entry(container.clone());
        deletion.or_insert_with(|| Deletion {
            started,
            records: root.join(&container),
            is_overdue: false,
        });
        Some(container)
    }

    /// The overdue commands.
    pub(super) fn overdue(&self) -> BTreeSet<Runc> {
        let is_of_deletion = |runc: &&KnownRunc| {
            let deletes = runc.deletes.as_ref();
            deletes.is_some_and(|id| self.deletions.contains_key(id))
        };
        let runcs = self.runcs.iter().filter(|runc| !is_of_deletion(runc));
        let runcs = runcs.filter(|runc| runc.is_overdue == Some(true));
        let runcs = runcs.map(|runc| Runc {
            started: runc.started,
            id: RuncId::Process(runc.pid),
        });
        let deletions = self.deletions.iter().filter(|(_, it)| it.is_overdue);
        let deletions = deletions.map(|(container, deletion)| Runc {
            started: deletion.started,
            id: RuncId::Deletion(container.clone()),
        });
        runcs.chain(deletions).collect()
    }
}

impl KnownRunc {
    fn is_alive(&self, processes: &impl Processes) -> bool {
        let live = processes.live_process(self.pid);
        live.is_some_and(|live| live.started == self.started)
    }

    /// Decides whether a command that began at `since` is overdue. Before its limit, returns the
    /// remaining time.
    fn judge(
        &mut self,
        now: Duration,
        since: Duration,
        processes: &impl Processes,
    ) -> Option<Duration> {
        if self.is_overdue.is_some() {
            return None;
        }
        let left = RUNC_OVERDUE_AFTER.saturating_sub(now.saturating_sub(since));
        if !left.is_zero() {
            return Some(left);
        }
        let parent = processes.live_process(self.pid).map(|live| live.parent);
        let parent = parent.and_then(|parent| processes.name(parent));
        let is_ours = parent.is_some_and(|name| starts_runcs(&name));
        let line = processes.command_line(self.pid);
        let is_session = line.is_some_and(|line| line.command.is_session());
        self.is_overdue = Some(is_ours && !is_session);
        None
    }
}

/// Daemons and shims that start runcs for the containers of a runtime.
fn starts_runcs(name: &str) -> bool {
    is_shim(name) || matches!(name, "crio" | "containerd")
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    use super::*;

    struct Process {
        name: &'static str,
        live: LiveProcess,
        command: &'static str,
    }

    #[derive(Default)]
    struct World {
        now: Cell<Duration>,
        newest: Cell<u32>,
        all: RefCell<BTreeMap<u32, Process>>,
        names_read: Cell<usize>,
        is_deleted: Cell<bool>,
    }

    impl World {
        fn add(&self, pid: u32, name: &'static str, parent: u32) {
            let started = self.now.get();
            let process = Process {
                name,
                live: LiveProcess { parent, started },
                command: "start",
            };
            self.all.borrow_mut().insert(pid, process);
            self.newest.set(pid);
        }
    }

    impl Processes for &World {
        fn newest(&self) -> Option<u32> {
            Some(self.newest.get())
        }

        fn pids(&mut self, range: RangeInclusive<u32>) -> Vec<u32> {
            let all = self.all.borrow();
            all.keys()
                .copied()
                .filter(|pid| range.contains(pid))
                .collect()
        }

        fn name(&self, pid: u32) -> Option<String> {
            self.names_read.set(self.names_read.get() + 1);
            Some(self.all.borrow().get(&pid)?.name.to_owned())
        }

        fn live_process(&self, pid: u32) -> Option<LiveProcess> {
            Some(self.all.borrow().get(&pid)?.live)
        }

        fn command_line(&self, pid: u32) -> Option<CommandLine> {
            let all = self.all.borrow();
            let command = RuncCommand {
                verb: all.get(&pid)?.command.to_owned(),
                container: Some("c1".to_owned()),
            };
            let root = "/run/runc".into();
            Some(CommandLine { command, root })
        }

        fn may_exist(&self, directory: &Path) -> bool {
            directory == Path::new("/run/runc/c1") && !self.is_deleted.get()
        }

        fn uptime(&self) -> Duration {
            self.now.get()
        }
    }

    /// Stands for the deletion, which has no PID.
    const DELETION: u32 = 0;

    fn node() -> World {
        let world = World::default();
        for (pid, name) in [(1, "systemd"), (20, "containerd-shim"), (30, "crio")] {
            world.add(pid, name, 1);
        }
        world
    }

    /// Scans whenever a scan is due, in virtual time. `happen` changes the world before each second.
    /// Returns each change of the result: the second, and the PIDs.
    fn changes(
        mut world: &World,
        seconds: u32,
        happen: impl Fn(&World, u32),
    ) -> Vec<(u32, Vec<u32>)> {
        let (mut scan, mut due) = (Scan::default(), Duration::ZERO);
        let (mut known, mut changes) = (Vec::new(), Vec::new());
        for second in 0..seconds {
            world.now.set(Duration::from_secs(second.into()));
            happen(world, second);
            if world.now.get() < due {
                continue;
            }
            due = world.now.get() + scan.scan(&mut world);
            let overdue = scan.overdue().into_iter();
            let found: Vec<u32> = overdue
                .map(|runc| match runc.id {
                    RuncId::Process(pid) => pid,
                    RuncId::Deletion(_) => DELETION,
                })
                .collect();
            if found != known {
                known.clone_from(&found);
                changes.push((second, found));
            }
        }
        changes
    }

    #[test]
    fn a_runc_is_overdue_from_its_thirtieth_second_until_it_ends() {
        for start in 1..=PERIOD.as_secs() as u32 {
            let seen = changes(&node(), 200, |world, second| {
                if second == start {
                    world.add(200, "runc", 20);
                }
                if second == 150 {
                    world.all.borrow_mut().remove(&200);
                }
            });
            let [(found, pids), (ended, none)] = &seen[..] else {
                panic!("{seen:?}");
            };
            assert_eq!(pids, &[200]);
            assert!((30..=31).contains(&(found - start)), "{start}: {found}");
            assert!(none.is_empty() && (150..=165).contains(ended), "{ended}");
        }
    }

    #[test]
    fn sessions_and_runcs_that_no_runtime_started_are_not_overdue() {
        let seen = changes(&node(), 120, |world, second| {
            if second == 3 {
                for (pid, name, parent) in [
                    (200, "runc", 30),
                    (201, "bash", 20),
                    // Started by hand.
                    (202, "runc", 1),
                    (203, "crun", 30),
                ] {
                    world.add(pid, name, parent);
                }
                let mut all = world.all.borrow_mut();
                all.get_mut(&200).unwrap().command = "exec";
            }
        });
        assert_eq!(seen, [(33, vec![203])]);
    }

    /// As containerd does: it ends each runc after ten seconds, and starts another one after a growing
    /// pause.
    #[test]
    fn a_deletion_that_is_retried_is_overdue_as_one_command_until_it_is_done() {
        let starts = [3, 15, 28, 43, 61, 87, 129];
        let seen = changes(&node(), 400, |world, second| {
            for (pid, start) in (200..).zip(starts) {
                if second == start {
                    world.add(pid, "runc", 20);
                    world.all.borrow_mut().get_mut(&pid).unwrap().command = "delete";
                }
                if second == start + 10 {
                    world.all.borrow_mut().remove(&pid);
                }
            }
            world.is_deleted.set(second >= 350);
        });
        let [(found, named), (done, none)] = &seen[..] else {
            panic!("{seen:?}");
        };
        assert_eq!(named, &[DELETION]);
        assert!((33..=48).contains(found), "{found}");
        assert!(none.is_empty() && (350..=365).contains(done), "{done}");
        let quick = changes(&node(), 100, |world, second| match second {
            14 => {
                world.add(200, "runc", 20);
                world.all.borrow_mut().get_mut(&200).unwrap().command = "delete";
            }
            16 => {
                world.all.borrow_mut().remove(&200);
                world.is_deleted.set(true);
            }
            _ => {}
        });
        assert_eq!(quick, []);
    }

    #[test]
    fn a_runc_that_is_overdue_at_the_first_scan_is_found_at_once() {
        let world = node();
        world.add(200, "runc", 20);
        world.now.set(Duration::from_secs(600));
        let mut scan = Scan::default();
        scan.scan(&mut &world);
        assert_eq!(scan.overdue().len(), 1);
    }

    #[test]
    fn a_runc_is_found_after_pids_have_wrapped_around_and_under_a_reused_pid() {
        let seen = changes(&node(), 120, |world, second| match second {
            1 => world.add(200, "runc", 20),
            20 => world.newest.set(32_000),
            41 => world.add(100, "runc", 20),
            // The process that had this PID has ended.
            42 => world.add(200, "runc", 20),
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
        let seen = changes(&node(), 60, |world, second| match second {
            15 => world.add(200, "containerd-shim", 20),
            16 => {
                let mut all = world.all.borrow_mut();
                all.get_mut(&200).unwrap().name = "runc";
            }
            _ => {}
        });
        assert_eq!(seen, [(45, vec![200])]);
    }

    #[test]
    fn on_a_quiet_node_no_name_is_read_more_than_twice() {
        let world = node();
        let seen = changes(&world, 300, |_, _| {});
        assert_eq!(seen, []);
        assert_eq!(world.names_read.get(), 6);
    }
}
