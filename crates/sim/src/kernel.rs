//! The simulated node's kernel: it knows of a death before the runtime does.

use std::collections::{BTreeMap, BTreeSet};

use pleg::kernel::{Births, Death, Kernel, Unwatched, Watching};
use pleg::model::id::Id;
use pleg::model::listed::ContainerState;

use crate::Sim;

/// The pid of the first process.
const FIRST: u32 = 1000;

/// The processes of containers.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    pids: BTreeMap<Id, u32>,
    begun: u32,
    /// Those that died although the runtime does not know it yet.
    dead: BTreeSet<u32>,
    /// One was found by its pid: only then it is known that the pids are not those of a guest.
    are_seen: bool,
}

impl Processes {
    /// The process of a container that was started, if only now.
    fn pid(&mut self, id: &Id) -> u32 {
        if let Some(pid) = self.pids.get(id) {
            return *pid;
        }
        self.start_again(id)
    }

    /// Another process takes the place of a container's.
    pub(crate) fn start_again(&mut self, id: &Id) -> u32 {
        let pid = FIRST + self.begun;
        self.begun += 1;
        self.pids.insert(id.clone(), pid);
        pid
    }

    pub(crate) fn kill(&mut self, id: &Id) {
        let pid = self.pid(id);
        self.dead.insert(pid);
    }
}

impl Sim {
    /// The pid that the runtime tells: one for each container that it says runs.
    pub(crate) fn pid(&self, id: &Id) -> Option<u32> {
        self.runs(id).then(|| self.processes().pid(id))
    }

    fn runs(&self, id: &Id) -> bool {
        let world = self.world();
        let found = world.container_by_id(id.as_str());
        found.is_some_and(|(_, it)| it.state == ContainerState::Running)
    }

    fn lives(&self, pid: u32, id: &Id) -> bool {
        let runs = self.runs(id);
        let mut processes = self.processes();
        runs && processes.pid(id) == pid && !processes.dead.contains(&pid)
    }
}

impl Kernel for Sim {
    fn watch(&self, pid: u32, id: &Id) -> Watching {
        let (sim, id) = (self.clone(), id.clone());
        Box::pin(async move {
            if !sim.lives(pid, &id) {
                let processes = sim.processes();
                let has_ended = processes.are_seen && processes.dead.contains(&pid);
                return Err(match has_ended {
                    true => Unwatched::Ended(pid),
                    false => Unwatched::NotSeen(pid),
                });
            }
            sim.processes().are_seen = true;
            let death: Death = Box::pin(async move {
                loop {
                    let changed = sim.processes_changed.notified();
                    if !sim.lives(pid, &id) {
                        return;
                    }
                    changed.await;
                }
            });
            Ok(death)
        })
    }

    fn births(&self) -> Births {
        self.read_births()
    }
}
