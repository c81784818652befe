//! What consumers are told: the [`Record`]s that a subscription delivers, and how events
//! are made of what the records gave and the inspection found.
//!
//! ```
//! use pleg::out::told::Record;
//!
//! fn line(record: &Record) -> String {
//!     match record {
//!         Record::Event(event) => format!("{} {}", event.event_type.as_str(), event.pod),
//!         Record::Synced { pods, .. } => format!("{pods} pods"),
//!         Record::Health(health) => format!("{}: {}", health.state, health.message),
//!         Record::Gap { conflated, .. } => format!("{conflated} events were merged"),
//!     }
//! }
//!
//! let json = r#"{"kind": "synced", "time": "2026-01-01T00:00:00Z", "pods": 3, "containers": 7}"#;
//! assert_eq!(line(&serde_json::from_str(json)?), "3 pods");
//! # Ok::<(), serde_json::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::model::event::{Event, EventType, Source};
use crate::model::id::{Id, PodUid};
use crate::model::status::PodStatus;
use crate::model::wall_time::WallTime;
use crate::out::health::HealthReport;
use crate::records::Commit;
use crate::records::diff::{Change, Happening, State, Subject, happenings};

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
        /// The pods that they were of; none if they were too many.
        pods: Vec<PodUid>,
        /// The pods were too many to name: events that tell the present state of every pod
        /// follow.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
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
    first_pass: bool,
) -> Vec<Event> {
    let Some(listed) = commit.after.as_ref().or(commit.before.as_ref()) else {
        return Vec::new();
    };
    // Whatever the first round meets was there before we looked.
    let was_known = |id: Option<&Id>| match (&commit.before, id) {
        (Some(before), Some(id)) => before.names(id),
        (Some(_), None) => true,
        (None, _) => false,
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
            initial: first_pass && !was_known(id),
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
