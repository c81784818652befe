//! The simulated node's kernel, which reports the end of a process before the runtime does.

use std::collections::{BTreeMap, BTreeSet};

use pleg::kernel::{Births, Death, Kernel, Unwatched, Watching};
use pleg::model::id::Id;
use pleg::model::listed::ContainerState;

use crate::Sim;

/// The PID of the first process.
const FIRST_PID: u32 = 1000;

/// The processes of containers.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    pids: BTreeMap<Id, u32>,
    count: u32,
    /// The PIDs of processes that were killed, which the runtime has not noticed.
    dead: BTreeSet<u32>,
    /// The PIDs of containers that the runtime has lost.
    lost: BTreeSet<u32>,
    /// Whether a process was found by its PID. Before that, the PIDs may be those of a guest's
    /// kernel.
    has_found_pid: bool,
}

impl Processes {
    /// The PID of a container. A container without a process receives one.
    fn pid(&mut self, id: &Id) -> u32 {
        let known = self.pids.get(id).copied();
        known.unwrap_or_else(|| self.start_again(id))
    }

    /// Starts a new process in a container.
    pub(crate) fn start_again(&mut self, id: &Id) -> u32 {
        let pid = FIRST_PID + self.count;
        self.count += 1;
        self.pids.insert(id.clone(), pid);
        pid
    }

    /// Lets the process of a container continue although the runtime no longer knows the container.
    pub(crate) fn lose(&mut self, id: &Id) {
        let pid = self.pid(id);
        self.lost.insert(pid);
    }

    pub(crate) fn kill(&mut self, id: &Id) {
        let pid = self.pid(id);
        self.dead.insert(pid);
    }
}

impl Sim {
    /// The PID that the runtime reports for a container; `None` unless its state is running.
    pub(crate) fn pid(&self, id: &Id) -> Option<u32> {
        self.is_running(id).then(|| self.processes().pid(id))
    }

    fn is_running(&self, id: &Id) -> bool {
        let world = self.world();
        let found = world.container_by_id(id.as_str());
        found.is_some_and(|(_, it)| it.state == ContainerState::Running)
    }

    fn is_alive(&self, pid: u32, id: &Id) -> bool {
        let is_running = self.is_running(id);
        let mut processes = self.processes();
        let runs = is_running || processes.lost.contains(&pid);
        runs && processes.pid(id) == pid && !processes.dead.contains(&pid)
    }
}

impl Kernel for Sim {
    fn watch(&self, pid: u32, id: &Id) -> Watching {
        let (sim, id) = (self.clone(), id.clone());
        Box::pin(async move {
            if !sim.is_alive(pid, &id) {
                let processes = sim.processes();
                let has_ended = processes.has_found_pid && processes.dead.contains(&pid);
                return Err(match has_ended {
                    true => Unwatched::Ended(pid),
                    false => Unwatched::NotSeen(pid),
                });
            }
            sim.processes().has_found_pid = true;
            let death: Death = Box::pin(async move {
                loop {
                    let changed = sim.processes_changed.notified();
                    if !sim.is_alive(pid, &id) {
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
