//! Floods: many events at once that no change has made.

use std::sync::Arc;

use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::runtime::AnnouncedSandbox;

use crate::Sim;
use crate::watched::{Change, State};
use crate::world::{Container, Pod, Sandbox};

/// Of whom the events of a flood speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Of ids that nobody has, each another, without saying whose.
    UnknownIds,
    /// Of ids that nobody has, each another, in as many pods that nobody has.
    UnknownPods,
    /// Of the containers that there are, one after the other.
    Known,
}

impl Sim {
    /// Tells so many events at once that no change has made.
    pub fn flood(&self, flood: Flood, events: usize) {
        let changes: Vec<Change> = match flood {
            Flood::UnknownIds | Flood::UnknownPods => {
                let first = self.announcer().count_flood(events);
                let unknown = |number| self.unknown(number);
                (first..first + events).map(unknown).collect()
            }
            Flood::Known => {
                let known = self.known();
                known.iter().cycle().take(events).cloned().collect()
            }
        };
        let (now, with_status) = (self.now(), flood != Flood::UnknownIds);
        let mut announcer = self.announcer();
        for change in changes {
            announcer.make(change, with_status, now);
        }
    }

    /// What never was: a container that started, in a pod of its own.
    fn unknown(&self, number: usize) -> Change {
        let (name, now) = (format!("flood-{number}"), self.now());
        let pod = PodRef {
            uid: format!("uid-{name}").into(),
            namespace: "default".into(),
            name: name.as_str().into(),
        };
        let sandbox = Sandbox {
            id: format!("{name}.0").into(),
            state: SandboxState::Ready,
            attempt: 0,
            created_at: now,
            ips: Vec::new(),
            given: None,
        };
        let mut pod = Pod {
            pod,
            sandboxes: vec![sandbox],
            containers: Vec::new(),
        };
        pod.create("app", now).start(now);
        let id = pod.containers[0].id.clone();
        started(&Arc::new(pod), id, format!("{name}.0").into())
    }

    fn known(&self) -> Vec<Change> {
        let world = self.world();
        let of = |pod: &Pod| {
            let whole = Arc::new(pod.clone());
            let change = |it: &Container| started(&whole, it.id.clone(), it.sandbox_id.clone());
            pod.containers.iter().map(change).collect::<Vec<_>>()
        };
        world.pods.values().flat_map(of).collect()
    }
}

fn started(pod: &Arc<Pod>, id: Id, sandbox: Id) -> Change {
    Change {
        id,
        before: Some(State::Container(ContainerState::Created)),
        after: Some(State::Container(ContainerState::Running)),
        sandbox: AnnouncedSandbox {
            id: sandbox,
            pod: pod.pod.clone(),
        },
        pod: Some(pod.clone()),
    }
}
