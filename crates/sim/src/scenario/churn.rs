//! Restarts containers one after the other, in the order of their names.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included, Unbounded};

use pleg::model::listed::ContainerState;
use tokio::time::Instant;

use super::{Churn, ContainerName};
use crate::Sim;
use crate::world::{Pod, World};

/// The exit code of a container that restarts.
const EXIT_CODE: i32 = 1;

/// The progress of a churn.
pub(super) struct Churning {
    churn: Churn,
    next: Instant,
    until: Option<Instant>,
    last: Option<ContainerName>,
}

impl Churning {
    pub(super) fn new(churn: Churn, begins: Instant) -> Self {
        Self {
            churn,
            next: begins + churn.period,
            until: churn.duration.map(|duration| begins + duration),
            last: None,
        }
    }

    /// The time of the next restart; `None` after the last one.
    pub(super) fn next(&self) -> Option<Instant> {
        let is_over = self.until.is_some_and(|until| self.next > until);
        (!is_over).then_some(self.next)
    }

    /// Restarts the next running container and returns its name. Removes all exited containers of that name
    /// except the last, as a kubelet does. While a status lock is held, no container can start, so none
    /// restarts.
    pub(super) fn restart_one(&mut self, sim: &Sim) -> Option<ContainerName> {
        // Missed restarts are not made up for.
        self.next = (self.next + self.churn.period).max(Instant::now());
        if sim.faults().is_locked() {
            return None;
        }
        let now = sim.now();
        let name = after(&sim.world(), self.last.as_ref())?;
        let mut world = sim.world();
        let pod = world.pods.get_mut(&name.pod)?;
        pod.restart(&name.container, EXIT_CODE, now);
        let newest = pod.container(&name.container)?.attempt;
        let is_old = |attempt: u32, other: &str| other == name.container && attempt + 1 < newest;
        pod.containers.retain(|it| !is_old(it.attempt, &it.name));
        drop(world);
        self.last = Some(name.clone());
        Some(name)
    }
}

/// The running container after this one; after the last one, the first.
fn after(world: &World, last: Option<&ContainerName>) -> Option<ContainerName> {
    let first_in = |(pod, containers): (&String, BTreeSet<&str>)| {
        let container = (*containers.first()?).to_owned();
        let pod = pod.clone();
        Some(ContainerName { pod, container })
    };
    let all_in = |(name, pod)| first_in((name, running(pod)));
    let Some(last) = last else {
        return world.pods.iter().find_map(all_in);
    };
    let rest = world.pods.get_key_value(&last.pod).and_then(|(name, pod)| {
        let after = (Excluded(last.container.as_str()), Unbounded);
        let rest = running(pod).range::<str, _>(after).copied().collect();
        first_in((name, rest))
    });
    let later = || {
        world
            .pods
            .range::<String, _>((Excluded(&last.pod), Unbounded))
    };
    let earlier = || {
        world
            .pods
            .range::<String, _>((Unbounded, Included(&last.pod)))
    };
    rest.or_else(|| later().find_map(all_in))
        .or_else(|| earlier().find_map(all_in))
}

fn running(pod: &Pod) -> BTreeSet<&str> {
    let containers = pod.containers.iter();
    let running = containers.filter(|it| it.state == ContainerState::Running);
    running.map(|it| it.name.as_str()).collect()
}
