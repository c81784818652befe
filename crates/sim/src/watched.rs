//! What the node makes known of itself while its world changes: events, and the deaths of
//! processes.
//!
//! ```text
//!   world() --> WorldGuard --changed and dropped--> compare --> events --> each open stream
//!                                                         \--> processes: look again
//! ```

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use pleg::id::Id;
use pleg::listed::{ContainerState, SandboxState};
use pleg::runtime::{Announced, AnnouncedSandbox};

use crate::Sim;
use crate::world::World;

/// The world, to be changed at once. What changed is announced when it is dropped.
pub struct WorldGuard<'a> {
    sim: &'a Sim,
    /// `None` once it was given back.
    world: Option<MutexGuard<'a, World>>,
    changed: bool,
}

impl<'a> WorldGuard<'a> {
    pub(crate) fn new(sim: &'a Sim, world: MutexGuard<'a, World>) -> Self {
        Self {
            sim,
            world: Some(world),
            changed: false,
        }
    }
}

impl Deref for WorldGuard<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        self.world.as_deref().expect("it is held until dropped")
    }
}

impl DerefMut for WorldGuard<'_> {
    fn deref_mut(&mut self) -> &mut World {
        self.changed = true;
        self.world.as_deref_mut().expect("it is held until dropped")
    }
}

impl Drop for WorldGuard<'_> {
    fn drop(&mut self) {
        if self.changed {
            let known = Known::of(self);
            // The world is free before anybody is told to look at it.
            self.world = None;
            self.sim.announce(known);
        }
    }
}

/// The states that were announced last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    states: BTreeMap<Id, (State, AnnouncedSandbox)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Container(ContainerState),
    Sandbox(SandboxState),
}

impl Known {
    fn of(world: &World) -> Self {
        let sandboxes = world.sandboxes().map(|(pod, sandbox)| {
            let of = AnnouncedSandbox {
                id: sandbox.id.clone(),
                pod: pod.pod.clone(),
            };
            (sandbox.id.clone(), (State::Sandbox(sandbox.state), of))
        });
        let containers = world.containers().map(|(pod, container)| {
            let of = AnnouncedSandbox {
                id: container.sandbox_id.clone(),
                pod: pod.pod.clone(),
            };
            let state = State::Container(container.state);
            (container.id.clone(), (state, of))
        });
        Self {
            states: sandboxes.chain(containers).collect(),
        }
    }

    /// An event for each id that is not as it was, by id.
    pub(crate) fn since(&self, before: &Self) -> Vec<Announced> {
        let differs = |known: &BTreeMap<Id, (State, AnnouncedSandbox)>, id: &Id, state: State| {
            known.get(id).is_none_or(|(other, _)| *other != state)
        };
        let now = self.states.iter();
        let now = now.filter(|(id, (state, _))| differs(&before.states, id, *state));
        let gone = before.states.iter();
        let gone = gone.filter(|(id, _)| !self.states.contains_key(*id));
        now.chain(gone)
            .map(|(id, (_, sandbox))| Announced {
                id: id.clone(),
                created_at: None,
                sandbox: Some(sandbox.clone()),
            })
            .collect()
    }
}
