//! Which runcs do not return (pure): the names of processes that are new, and the ages of those that are
//! runcs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::host::{RUNC_HANGS_AFTER, RuncCommand, is_runc, is_shim};

/// From one scan to the next. A runc is seen while it is young, and looked at again when it is not.
pub(super) const PERIOD: Duration = Duration::from_secs(15);

/// A command of runc that does not return.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Runc {
    /// When it was started, since the machine was: a PID may be used again.
    started: Duration,
    pub(crate) what: Hung,
}

/// What identifies it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hung {
    /// A process.
    Process(u32),
    /// The deletion of a container: containerd ends such a runc after ten seconds and, after growing
    /// pauses of up to five minutes, starts another one.
    Deletion(String),
}

/// A process that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) parent: u32,
    /// Since the machine was started.
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
    /// The id that was given last. After the largest one, the kernel begins again.
    fn newest(&self) -> Option<u32>;

    /// The ids of those in this range; none if they cannot be read.
    fn pids(&mut self, range: RangeInclusive<u32>) -> Vec<u32>;

    /// The name of one.
    fn name(&self, pid: u32) -> Option<String>;

    /// One that lives: not of one that has ended and was not waited for.
    fn life(&self, pid: u32) -> Option<Life>;

    /// What a runc is to do.
    fn command_line(&self, pid: u32) -> Option<CommandLine>;

    /// Whether a directory may be there.
    fn may_exist(&self, directory: &Path) -> bool;

    /// How long the machine has been up.
    fn uptime(&self) -> Duration;
}

#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The newest ids of the scan before the last one, and of the last one: each process is examined
    /// twice, as it may have had the name of its parent the first time.
    newest: [Option<u32>; 2],
    runcs: Vec<Known>,
    /// By container.
    deletions: BTreeMap<String, Deletion>,
}

#[derive(Debug)]
struct Known {
    pid: u32,
    started: Duration,
    /// The container that it is to delete.
    deletes: Option<String>,
    /// Whether it is too old, and not a session or of something else than a runtime: decided once.
    is_hung: Option<bool>,
}

/// The deletion of a container, by one runc after the other.
#[derive(Debug)]
struct Deletion {
    /// When the first runc was started.
    started: Duration,
    /// runc's records of the container, which a deletion removes.
    records: PathBuf,
    is_hung: bool,
}

#[cfg(test)]
impl Runc {
    pub(crate) fn of_test(pid: u32) -> Self {
        Self {
            started: Duration::ZERO,
            what: Hung::Process(pid),
        }
    }
}

impl Scan {
    /// Examines all new processes and the known runcs. Returns the time until the next scan.
    pub(super) fn scan(&mut self, processes: &mut impl Processes) -> Duration {
        self.runcs.retain_mut(|runc| runc.lives(processes));
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
                deletion.is_hung |= runc.is_hung == Some(true);
            }
        }
        next
    }

    fn add_new(&mut self, processes: &mut impl Processes) {
        // Before the ids are read: those that are given meanwhile belong to the next scan.
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
            if let Some(Life { started, .. }) = processes.life(pid) {
                let deletes = self.deletion_by(pid, started, processes);
                self.runcs.push(Known {
                    pid,
                    started,
                    deletes,
                    is_hung: None,
                });
            }
        }
    }

    /// The container that this runc is to delete, if it is to delete one.
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
            is_hung: false,
        });
        Some(container)
    }

    /// Those that do not return.
    pub(super) fn hung(&self) -> BTreeSet<Runc> {
        let is_of_deletion = |runc: &&Known| {
            let deletes = runc.deletes.as_ref();
            deletes.is_some_and(|id| self.deletions.contains_key(id))
        };
        let runcs = self.runcs.iter().filter(|runc| !is_of_deletion(runc));
        let runcs = runcs.filter(|runc| runc.is_hung == Some(true));
        let runcs = runcs.map(|runc| Runc {
            started: runc.started,
            what: Hung::Process(runc.pid),
        });
        let deletions = self.deletions.iter().filter(|(_, it)| it.is_hung);
        let deletions = deletions.map(|(container, deletion)| Runc {
            started: deletion.started,
            what: Hung::Deletion(container.clone()),
        });
        runcs.chain(deletions).collect()
    }
}

impl Known {
    fn lives(&self, processes: &impl Processes) -> bool {
        let life = processes.life(self.pid);
        life.is_some_and(|life| life.started == self.started)
    }

    /// Decides whether what goes on `since` then is hung; before it is old enough for that, returns how
    /// long that takes.
    fn judge(
        &mut self,
        now: Duration,
        since: Duration,
        processes: &impl Processes,
    ) -> Option<Duration> {
        if self.is_hung.is_some() {
            return None;
        }
        let left = RUNC_HANGS_AFTER.saturating_sub(now.saturating_sub(since));
        if !left.is_zero() {
            return Some(left);
        }
        let parent = processes.life(self.pid).map(|life| life.parent);
        let parent = parent.and_then(|parent| processes.name(parent));
        let is_ours = parent.is_some_and(|name| starts_runcs(&name));
        let line = processes.command_line(self.pid);
        let is_session = line.is_some_and(|line| line.command.is_session());
        self.is_hung = Some(is_ours && !is_session);
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
        life: Life,
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
                life: Life { parent, started },
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

        fn life(&self, pid: u32) -> Option<Life> {
            Some(self.all.borrow().get(&pid)?.life)
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

    /// That of the container.
    const DELETION: u32 = 0;

    fn node() -> World {
        let world = World::default();
        for (pid, name) in [(1, "systemd"), (20, "containerd-shim"), (30, "crio")] {
            world.add(pid, name, 1);
        }
        world
    }

    /// Looks whenever it is due, in virtual time; `happen` changes the world before each second. Gives
    /// the second and the pids of each change of what is found.
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
            let hung = scan.hung().into_iter();
            let found: Vec<u32> = hung
                .map(|runc| match runc.what {
                    Hung::Process(pid) => pid,
                    Hung::Deletion(_) => DELETION,
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
    fn a_runc_that_does_not_return_is_found_when_it_is_thirty_seconds_old_and_until_it_ends() {
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
    fn sessions_and_runcs_of_others_are_not_waited_for() {
        let seen = changes(&node(), 120, |world, second| {
            if second == 3 {
                for (pid, name, parent) in [
                    (200, "runc", 30),
                    (201, "bash", 20),
                    // Of a person.
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

    /// As containerd does: it ends each after ten seconds, and starts another one after a growing pause.
    #[test]
    fn a_deletion_that_is_ended_and_begun_again_is_found_by_its_container_until_it_is_done() {
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
    fn one_that_was_old_before_the_first_look_is_found_at_once() {
        let world = node();
        world.add(200, "runc", 20);
        world.now.set(Duration::from_secs(600));
        let mut scan = Scan::default();
        scan.scan(&mut &world);
        assert_eq!(scan.hung().len(), 1);
    }

    #[test]
    fn a_runc_is_found_after_the_kernel_has_begun_again_with_small_ids_and_under_a_used_one() {
        let seen = changes(&node(), 120, |world, second| match second {
            1 => world.add(200, "runc", 20),
            20 => world.newest.set(32_000),
            41 => world.add(100, "runc", 20),
            // That of the same id has ended.
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
    fn a_process_that_had_the_name_of_its_parent_at_first_is_looked_at_again() {
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
