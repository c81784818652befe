//! Publishes the changes of the world: as events, as births, and as ends of processes.
//!
//! ```text
//!   world() --> WorldGuard --changed and dropped--> compare --> changes --> stream
//!                                                         \--> births
//!                                                         \--> processes: check again
//! ```

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::runtime::AnnouncedSandbox;

use crate::Sim;
use crate::world::{Pod, World};

/// The world, for reading and changing. When the guard is dropped, the changes are published.
pub struct WorldGuard<'a> {
    sim: &'a Sim,
    /// `None` only while the guard is dropped.
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
            // The world is still locked, so events are published in the order of the changes.
            self.sim.publish_changes(self);
            self.sim.births.update(self);
            self.world = None;
            self.sim.processes_changed.notify_waiters();
        }
    }
}

/// The states that were published last, by the pod's name in the world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    pods: BTreeMap<String, PublishedPod>,
}

#[derive(Clone, Debug)]
struct PublishedPod {
    pod: PodRef,
    states: Vec<PublishedState>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PublishedState {
    id: Id,
    state: State,
    sandbox_id: Id,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Container(ContainerState),
    Sandbox(SandboxState),
}

/// A difference from the state that was published last.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) id: Id,
    /// `None` if the object is new.
    pub(crate) before: Option<State>,
    /// `None` if the object was removed.
    pub(crate) after: Option<State>,
    pub(crate) sandbox: AnnouncedSandbox,
    /// The pod after the change, unless it was removed.
    pub(crate) pod: Option<Arc<Pod>>,
}

impl Published {
    /// Stores the current states and returns the changes: first those of objects that exist, by id,
    /// then removals, by id. An unchanged pod costs only a comparison.
    pub(crate) fn update(&mut self, world: &World) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, pod) in &world.pods {
            let published = self.pods.get(name);
            if published.is_some_and(|published| published.is_current(pod)) {
                continue;
            }
            let before = published.map_or(&[][..], |published| &published.states);
            let now = PublishedPod::of(pod);
            changes.extend(now.changes_since(before, pod));
            self.pods.insert(name.clone(), now);
        }
        if self.pods.len() > world.pods.len() {
            self.pods.retain(|name, published| {
                let is_removed = !world.pods.contains_key(name);
                if is_removed {
                    let states = published.states.iter();
                    changes.extend(
                        states.map(|was| published.change(was, Some(was.state), None, None)),
                    );
                }
                !is_removed
            });
        }
        changes.sort_by(|a, b| (a.after.is_none(), &a.id).cmp(&(b.after.is_none(), &b.id)));
        changes
    }
}

/// The states in a pod that are compared.
fn states(pod: &Pod) -> impl Iterator<Item = (&Id, State, &Id)> {
    let sandboxes = pod.sandboxes.iter();
    let sandboxes = sandboxes.map(|it| (&it.id, State::Sandbox(it.state), &it.id));
    let containers = pod.containers.iter();
    let containers = containers.map(|it| (&it.id, State::Container(it.state), &it.sandbox_id));
    sandboxes.chain(containers)
}

impl PublishedPod {
    fn of(pod: &Pod) -> Self {
        let states = states(pod).map(|(id, state, sandbox_id)| PublishedState {
            id: id.clone(),
            state,
            sandbox_id: sandbox_id.clone(),
        });
        Self {
            pod: pod.pod.clone(),
            states: states.collect(),
        }
    }

    fn is_current(&self, pod: &Pod) -> bool {
        let published = self.states.iter();
        published
            .map(|it| (&it.id, it.state, &it.sandbox_id))
            .eq(states(pod))
    }

    /// The changes from the states `before` to those in `self`, which was made from `pod`.
    fn changes_since(&self, before: &[PublishedState], pod: &Pod) -> Vec<Change> {
        let pod = Some(Arc::new(pod.clone()));
        let now = self.states.iter().filter_map(|is| {
            let was = before.iter().find(|was| was.id == is.id);
            let (before, after) = (was.map(|was| was.state), Some(is.state));
            (before != after).then(|| self.change(is, before, after, pod.clone()))
        });
        let removed = before
            .iter()
            .filter(|was| !self.states.iter().any(|is| is.id == was.id));
        let removed = removed.map(|was| self.change(was, Some(was.state), None, pod.clone()));
        now.chain(removed).collect()
    }

    /// A change of the object that has or had this state.
    fn change(
        &self,
        of: &PublishedState,
        before: Option<State>,
        after: Option<State>,
        pod: Option<Arc<Pod>>,
    ) -> Change {
        Change {
            id: of.id.clone(),
            before,
            after,
            sandbox: AnnouncedSandbox {
                id: of.sandbox_id.clone(),
                pod: self.pod.clone(),
            },
            pod,
        }
    }
}
