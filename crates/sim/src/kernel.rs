//! The simulated node's kernel: it knows of a death before the runtime does.

use pleg::kernel::{Death, Kernel, Unwatched, Watching};
use pleg::model::id::Id;
use pleg::model::listed::ContainerState;

use crate::Sim;

/// The pid of the first container of the world.
const FIRST: u32 = 1000;

impl Sim {
    /// The pid that the runtime tells: one for each container that it says runs.
    pub(crate) fn pid(&self, id: &Id) -> Option<u32> {
        let world = self.world();
        let mut containers = world.containers().zip(FIRST..);
        let ((_, container), pid) = containers.find(|((_, it), _)| it.id == *id)?;
        (container.state == ContainerState::Running).then_some(pid)
    }

    fn lives(&self, id: &Id) -> bool {
        let world = self.world();
        let found = world.container_by_id(id.as_str());
        let runs = found.is_some_and(|(_, it)| it.state == ContainerState::Running);
        runs && !self.dead().contains(id)
    }
}

impl Kernel for Sim {
    fn watch(&self, pid: u32, id: &Id) -> Watching {
        let (sim, id) = (self.clone(), id.clone());
        Box::pin(async move {
            if !sim.lives(&id) {
                return Err(Unwatched::NotSeen(pid));
            }
            let death: Death = Box::pin(async move {
                loop {
                    let changed = sim.processes_changed.notified();
                    if !sim.lives(&id) {
                        return;
                    }
                    changed.await;
                }
            });
            Ok(death)
        })
    }
}
