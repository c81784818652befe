//! A machine in virtual time, for tests.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use base::host::RuncCommand;

use super::Symptom;
use super::scan::{CommandLine, LiveProcess, Processes, Scan};

pub(super) struct Process {
    pub(super) live: LiveProcess,
    /// The verb of the command line, if the process is a runc.
    pub(super) verb: &'static str,
}

#[derive(Default)]
pub(super) struct World {
    now: Cell<Duration>,
    pub(super) newest: Cell<u32>,
    pub(super) all: RefCell<BTreeMap<u32, Process>>,
    pub(super) read: Cell<usize>,
    pub(super) is_deleted: Cell<bool>,
    pub(super) full: Cell<Option<&'static str>>,
}

/// Stands for a deletion, which has no PID.
pub(super) const DELETION: u32 = 0;

/// Stands for a file system that is full.
pub(super) const FULL: u32 = u32::MAX;

impl World {
    /// A node whose daemons and one shim have run for a long time.
    pub(super) fn node() -> Self {
        let world = Self::default();
        world.now.set(Duration::from_secs(1000));
        for (pid, name) in [
            (1, "systemd"),
            (10, "containerd"),
            (20, "containerd-shim"),
            (30, "crio"),
        ] {
            world.start(pid, name, 1);
            world.change(pid, |live| live.started = Duration::ZERO);
        }
        world
    }

    pub(super) fn start(&self, pid: u32, name: &str, parent: u32) {
        let live = LiveProcess {
            name: name.to_owned(),
            parent,
            started: self.now.get(),
            is_stopped: false,
            is_ending: false,
            child_faults: 0,
        };
        let process = Process {
            live,
            verb: "start",
        };
        self.all.borrow_mut().insert(pid, process);
        self.newest.set(pid);
    }

    pub(super) fn start_runc(&self, pid: u32, verb: &'static str, parent: u32) {
        self.start(pid, "runc", parent);
        if let Some(process) = self.all.borrow_mut().get_mut(&pid) {
            process.verb = verb;
        }
    }

    pub(super) fn change(&self, pid: u32, change: impl FnOnce(&mut LiveProcess)) {
        let mut all = self.all.borrow_mut();
        change(&mut all.get_mut(&pid).expect("it runs").live);
    }

    /// Ends a process, and its parent waits for it.
    pub(super) fn end(&self, pid: u32) {
        let mut all = self.all.borrow_mut();
        let parent = all.remove(&pid).map(|process| process.live.parent);
        if let Some(parent) = parent.and_then(|parent| all.get_mut(&parent)) {
            parent.live.child_faults += 100;
        }
    }

    /// Scans whenever a scan is due. `happen` changes the world before each second. Returns each change
    /// of the symptoms: the second, and the PIDs.
    pub(super) fn changes(
        mut self: &Self,
        seconds: u32,
        happen: impl Fn(&Self, u32),
    ) -> Vec<(u32, Vec<u32>)> {
        let began = self.now.get();
        let (mut scan, mut due) = (Scan::default(), Duration::ZERO);
        let (mut known, mut changes) = (BTreeSet::new(), Vec::new());
        for second in 0..seconds {
            self.now.set(began + Duration::from_secs(second.into()));
            happen(self, second);
            if self.now.get() < due {
                continue;
            }
            due = self.now.get() + scan.scan(&mut self);
            let found = scan.symptoms();
            if found != known {
                changes.push((second, found.iter().map(pid).collect()));
                known = found;
            }
        }
        changes
    }
}

fn pid(symptom: &Symptom) -> u32 {
    match symptom {
        Symptom::Process { pid, .. } => *pid,
        Symptom::Deletion { .. } => DELETION,
        Symptom::Full(_) => FULL,
        Symptom::Statistics => unreachable!("no scan shows it"),
    }
}

impl Processes for &World {
    fn newest(&self) -> Option<u32> {
        Some(self.newest.get())
    }

    fn pids(&mut self, range: RangeInclusive<u32>) -> Vec<u32> {
        let all = self.all.borrow();
        let pids = all.keys().copied();
        pids.filter(|pid| range.contains(pid)).collect()
    }

    fn live_process(&self, pid: u32) -> Option<LiveProcess> {
        self.read.set(self.read.get() + 1);
        Some(self.all.borrow().get(&pid)?.live.clone())
    }

    fn command_line(&self, pid: u32) -> Option<CommandLine> {
        let all = self.all.borrow();
        let command = RuncCommand {
            verb: all.get(&pid)?.verb.to_owned(),
            container: Some("c1".to_owned()),
        };
        let root = "/run/runc".into();
        Some(CommandLine { command, root })
    }

    fn may_exist(&self, directory: &Path) -> bool {
        directory == Path::new("/run/runc/c1") && !self.is_deleted.get()
    }

    fn is_full(&self, directory: &Path) -> bool {
        self.full.get().map(Path::new) == Some(directory)
    }

    fn uptime(&self) -> Duration {
        self.now.get()
    }
}
