//! What the node makes known of itself while its world changes: events, and the deaths of
//! processes.
//!
//! ```text
//!   world() --> WorldGuard --changed and dropped--> compare --> changes --> stream
//!                                                         \--> processes: look again
//! ```

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::runtime::AnnouncedSandbox;

use crate::Sim;
use crate::world::{Pod, World};

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
            // In the order of the changes, for the world is still held.
            self.sim.announce(self);
            self.sim.births.follow(self);
            self.world = None;
            self.sim.processes_changed.notify_waiters();
        }
    }
}

/// What was announced last, by the pod's name in the world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pods: BTreeMap<String, KnownPod>,
}

#[derive(Clone, Debug)]
struct KnownPod {
    pod: PodRef,
    states: Vec<KnownState>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownState {
    id: Id,
    state: State,
    sandbox_id: Id,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Container(ContainerState),
    Sandbox(SandboxState),
}

/// That something is not as it was announced last.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) id: Id,
    /// `None` for what is new.
    pub(crate) before: Option<State>,
    /// `None` for what is gone.
    pub(crate) after: Option<State>,
    pub(crate) sandbox: AnnouncedSandbox,
    /// The pod as it is after the change, unless it is gone.
    pub(crate) pod: Option<Arc<Pod>>,
}

impl Known {
    /// Takes in the world as it is now, and gives what has changed: what is there by id,
    /// then what is gone by id. Pods that are as they were cost a comparison and no more.
    pub(crate) fn learn(&mut self, world: &World) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, pod) in &world.pods {
            match self.pods.get_mut(name) {
                Some(known) if known.is_still(pod) => {}
                Some(known) => {
                    let now = KnownPod::of(pod);
                    changes.extend(now.since(&known.states, pod));
                    *known = now;
                }
                None => {
                    let now = KnownPod::of(pod);
                    changes.extend(now.since(&[], pod));
                    self.pods.insert(name.clone(), now);
                }
            }
        }
        if self.pods.len() > world.pods.len() {
            self.pods.retain(|name, known| {
                let gone = !world.pods.contains_key(name);
                if gone {
                    changes.extend(known.states.iter().map(|was| known.change(was, None)));
                }
                !gone
            });
        }
        changes.sort_by(|a, b| (a.after.is_none(), &a.id).cmp(&(b.after.is_none(), &b.id)));
        changes
    }
}

/// The states in a pod, as they are compared.
fn states(pod: &Pod) -> impl Iterator<Item = (&Id, State, &Id)> {
    let sandboxes = pod.sandboxes.iter();
    let sandboxes = sandboxes.map(|it| (&it.id, State::Sandbox(it.state), &it.id));
    let containers = pod.containers.iter();
    let containers = containers.map(|it| (&it.id, State::Container(it.state), &it.sandbox_id));
    sandboxes.chain(containers)
}

impl KnownPod {
    fn of(pod: &Pod) -> Self {
        let states = states(pod).map(|(id, state, sandbox_id)| KnownState {
            id: id.clone(),
            state,
            sandbox_id: sandbox_id.clone(),
        });
        Self {
            pod: pod.pod.clone(),
            states: states.collect(),
        }
    }

    fn is_still(&self, pod: &Pod) -> bool {
        let known = self.states.iter();
        known
            .map(|it| (&it.id, it.state, &it.sandbox_id))
            .eq(states(pod))
    }

    /// What is not as it was, of the pod that this was made of.
    fn since(&self, before: &[KnownState], pod: &Pod) -> Vec<Change> {
        let pod = Arc::new(pod.clone());
        let was = |id: &Id| before.iter().find(|was| was.id == *id);
        let now = self.states.iter().filter_map(|is| {
            let before = was(&is.id).map(|was| was.state);
            let changed = before != Some(is.state);
            changed.then(|| Change {
                before,
                after: Some(is.state),
                pod: Some(pod.clone()),
                ..self.change(is, None)
            })
        });
        let gone = before
            .iter()
            .filter(|was| !self.states.iter().any(|is| is.id == was.id));
        let gone = gone.map(|was| self.change(was, Some(pod.clone())));
        now.chain(gone).collect()
    }

    /// That something is gone.
    fn change(&self, was: &KnownState, pod: Option<Arc<Pod>>) -> Change {
        Change {
            id: was.id.clone(),
            before: Some(was.state),
            after: None,
            sandbox: AnnouncedSandbox {
                id: was.sandbox_id.clone(),
                pod: self.pod.clone(),
            },
            pod,
        }
    }
}
