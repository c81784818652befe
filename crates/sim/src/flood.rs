//! Floods: many events at once, which are not caused by any change.

use std::sync::Arc;

use pleg::model::listed::ContainerState;
use pleg::runtime::AnnouncedSandbox;

use crate::Sim;
use crate::changes::{Change, State};
use crate::world::{Container, Pod, World};

/// The containers in the events of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Each event has a different unknown id, and no pod.
    UnknownIds,
    /// Each event has a different unknown id, in a different unknown pod.
    UnknownPods,
    /// The existing containers, one after the other.
    Known,
}

impl Sim {
    /// Sends this number of events at once, which are not caused by any change.
    pub fn flood(&self, flood: Flood, events: usize) {
        let changes: Vec<Change> = match flood {
            Flood::UnknownIds | Flood::UnknownPods => {
                let first = self.events().reserve_numbers(events);
                let unknown = |number| self.unknown(number);
                (first..first + events).map(unknown).collect()
            }
            Flood::Known => {
                let known = self.known();
                known.iter().cycle().take(events).cloned().collect()
            }
        };
        let (now, with_status) = (self.now(), flood != Flood::UnknownIds);
        let mut source = self.events();
        for change in changes {
            source.send_unfiltered(change, with_status, now);
        }
    }

    /// The start of a container that does not exist, in a different pod for each number.
    fn unknown(&self, number: usize) -> Change {
        let mut elsewhere = World::default();
        let pod = elsewhere.run(&format!("flood-{number}"), &["app"], self.now());
        started(&Arc::new(pod.clone()), &pod.containers[0])
    }

    fn known(&self) -> Vec<Change> {
        let world = self.world();
        let of = |pod: &Pod| {
            let whole = Arc::new(pod.clone());
            let change = |it: &Container| started(&whole, it);
            pod.containers.iter().map(change).collect::<Vec<_>>()
        };
        world.pods.values().flat_map(of).collect()
    }
}

/// The start of a container in this pod.
fn started(pod: &Arc<Pod>, container: &Container) -> Change {
    Change {
        id: container.id.clone(),
        before: Some(State::Container(ContainerState::Created)),
        after: Some(State::Container(ContainerState::Running)),
        sandbox: AnnouncedSandbox {
            id: container.sandbox_id.clone(),
            pod: pod.pod.clone(),
        },
        pod: Some(pod.clone()),
    }
}
