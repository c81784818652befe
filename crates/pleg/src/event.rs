//! What consumers are told: [`Event`]s, and the [`Record`]s that a subscription delivers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::diff::{Change, Happening, State, Subject, happenings};
use crate::health::HealthReport;
use crate::id::{Id, PodRef, PodUid};
use crate::records::Commit;
use crate::status::PodStatus;
use crate::wall_time::WallTime;

/// The kubelet's event types, under its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventType {
    /// A container or sandbox runs.
    ContainerStarted,
    /// It runs no more.
    ContainerDied,
    /// The runtime has forgotten it.
    ContainerRemoved,
    /// The pod was inspected because somebody asked for it, and nothing else happened.
    PodSync,
}

impl EventType {
    /// All types, in the order in which they are shown.
    pub const ALL: [Self; 4] = [
        Self::ContainerStarted,
        Self::ContainerDied,
        Self::ContainerRemoved,
        Self::PodSync,
    ];

    /// The type's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContainerStarted => "ContainerStarted",
            Self::ContainerDied => "ContainerDied",
            Self::ContainerRemoved => "ContainerRemoved",
            Self::PodSync => "PodSync",
        }
    }
}

/// What made us look at the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// The periodic list.
    Relist,
    /// A sweep by id, while a list hangs.
    Sweep,
    /// A hint of the runtime's event stream.
    Stream,
    /// A hint of the kernel: the process died.
    Kernel,
}

impl Source {
    /// The source's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Relist => "relist",
            Self::Sweep => "sweep",
            Self::Stream => "stream",
            Self::Kernel => "kernel",
        }
    }
}

/// Something happened in a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When we told it.
    pub time: WallTime,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// In which pod.
    pub pod: PodRef,
    /// To which container or sandbox; `None` for `PodSync`.
    pub id: Option<Id>,
    /// What the id names; `None` for `PodSync`.
    pub subject: Option<Subject>,
    /// The container's name; `None` for a sandbox.
    pub container: Option<Arc<str>>,
    /// The exit code of a container that died, where the runtime still knows it.
    pub exit_code: Option<i32>,
    /// The runtime's word for the death (`Error`, `OOMKilled`, `Completed`).
    pub reason: Option<Arc<str>>,
    /// Found as it is when we first looked, rather than seen to happen.
    pub initial: bool,
    /// What made us look.
    pub source: Source,
}

/// The type under which a happening is told; a change is told to nobody.
fn told(happening: Happening) -> Option<EventType> {
    match happening {
        Happening::Started => Some(EventType::ContainerStarted),
        Happening::Died => Some(EventType::ContainerDied),
        Happening::Removed => Some(EventType::ContainerRemoved),
        Happening::Changed => None,
    }
}

/// The events of a commit, in its order, with what the inspection found about each.
pub(crate) fn events_of(
    commit: &Commit,
    status: Option<&PodStatus>,
    time: WallTime,
    initial: bool,
) -> Vec<Event> {
    let Some(listed) = commit.after.as_ref().or(commit.before.as_ref()) else {
        return Vec::new();
    };
    let event = |event_type, change: Option<&Change>| {
        let id = change.map(|change| &change.id);
        let versions = [&commit.after, &commit.before];
        let name = id.and_then(|id| {
            let mut listed = versions.into_iter().flatten();
            listed.find_map(|pod| pod.container_name(id))
        });
        // A removed container's exit code was told with its death.
        let found = id
            .filter(|_| event_type == EventType::ContainerDied)
            .and_then(|id| status?.container(id));
        Event {
            time,
            event_type,
            pod: listed.pod.clone(),
            id: id.cloned(),
            subject: change.map(|change| change.subject),
            container: name.cloned(),
            exit_code: found.and_then(|container| container.exit_code),
            reason: found.and_then(|container| container.reason.clone()),
            initial,
            source: commit.source,
        }
    };
    let mut events: Vec<Event> = commit
        .changes
        .iter()
        .filter_map(|change| told(change.happening).map(|kind| event(kind, Some(change))))
        .collect();
    if events.is_empty() && commit.reinspected {
        events.push(event(EventType::PodSync, None));
    }
    events
}

/// Events that tell how a pod is, for those who have not seen how it came to be: those
/// of its first sight.
pub(crate) fn present_events(status: &PodStatus, time: WallTime) -> Vec<Event> {
    let first_sight = |state: State| happenings(State::Gone, state).first().copied();
    let event = |id: &Id, subject, event_type| {
        let found = status.container(id);
        let died = found.filter(|_| event_type == EventType::ContainerDied);
        Event {
            time,
            event_type,
            pod: status.pod(),
            id: Some(id.clone()),
            subject: Some(subject),
            container: found.map(|container| container.name.clone()),
            exit_code: died.and_then(|container| container.exit_code),
            reason: died.and_then(|container| container.reason.clone()),
            initial: true,
            source: Source::Relist,
        }
    };
    let containers = status
        .containers
        .iter()
        .map(|container| (&container.id, Subject::Container, container.state.into()));
    let sandboxes = status
        .sandboxes
        .iter()
        .map(|sandbox| (&sandbox.id, Subject::Sandbox, sandbox.state.into()));
    containers
        .chain(sandboxes)
        .filter_map(|(id, subject, state)| {
            let event_type = told(first_sight(state)?)?;
            Some(event(id, subject, event_type))
        })
        .collect()
}

/// What a subscription delivers, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Record {
    /// Something happened in a pod.
    Event(Event),
    /// All that was there at the beginning has been told.
    Synced {
        /// When.
        time: WallTime,
        /// How many pods there are.
        pods: usize,
        /// How many containers, in any state.
        containers: usize,
    },
    /// Our health changed.
    Health(HealthReport),
    /// The subscriber was too slow: some events were not kept apart. Events that tell
    /// the present state of these pods follow.
    Gap {
        /// When.
        time: WallTime,
        /// How many events were conflated.
        conflated: u64,
        /// The pods that they were of.
        pods: Vec<PodUid>,
    },
}
