//! What subscribers receive: [`Record`]s, and how a commit becomes events.
//!
//! ```
//! use pleg::out::record::Record;
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

/// One item of a subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Record {
    /// Something happened in a pod.
    Event(Event),
    /// All pods that existed at the beginning have been reported.
    Synced {
        /// When the last of them was reported.
        time: WallTime,
        /// How many pods there are.
        pods: usize,
        /// How many containers, in any state.
        containers: usize,
    },
    /// Health changed.
    Health(HealthReport),
    /// The subscriber was too slow, and events were merged. Events with the present state of these pods
    /// follow.
    Gap {
        /// When the gap was reported.
        time: WallTime,
        /// How many events were merged.
        conflated: u64,
        /// The pods of these events; empty if there were too many pods.
        pods: Vec<PodUid>,
        /// Whether there were too many pods: then events with the present state of every pod
        /// follow.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
}

/// The event type of a happening; `Changed` causes no event.
fn event_type(happening: Happening) -> Option<EventType> {
    match happening {
        Happening::Started => Some(EventType::ContainerStarted),
        Happening::Died => Some(EventType::ContainerDied),
        Happening::Removed => Some(EventType::ContainerRemoved),
        Happening::Changed => None,
    }
}

/// The events of a commit, in its order, with details from the inspection.
pub(crate) fn events_of(
    commit: &Commit,
    status: Option<&PodStatus>,
    time: WallTime,
    first_pass: bool,
) -> Vec<Event> {
    let Some(listed) = commit.after.as_ref().or(commit.before.as_ref()) else {
        return Vec::new();
    };
    // What the first pass shows for the first time existed before.
    let was_known = |id: Option<&Id>| {
        let before = commit.before.as_ref();
        before.is_some_and(|before| id.is_none_or(|id| before.names(id)))
    };
    let event = |event_type, change: Option<&Change>| {
        let id = change.map(|change| &change.id);
        let mut versions = [&commit.after, &commit.before].into_iter().flatten();
        let name = id.and_then(|id| versions.find_map(|pod| pod.container_name(id)));
        // A removed container's exit code was reported with its exit.
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
    let changes = commit.changes.iter();
    let events = changes
        .filter_map(|change| event_type(change.happening).map(|kind| event(kind, Some(change))));
    let mut events: Vec<Event> = events.collect();
    if events.is_empty() && commit.reinspected {
        events.push(event(EventType::PodSync, None));
    }
    events
}

/// The events that describe a pod's present state to a new subscriber.
pub(crate) fn present_events(status: &PodStatus, time: WallTime) -> Vec<Event> {
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
    let containers = status.containers.iter();
    let containers = containers.map(|it| (&it.id, Subject::Container, it.state.into()));
    let sandboxes = status.sandboxes.iter();
    let sandboxes = sandboxes.map(|it| (&it.id, Subject::Sandbox, it.state.into()));
    let all = containers.chain(sandboxes);
    all.filter_map(|(id, subject, state)| {
        let event_type = event_type(*happenings(State::Gone, state).first()?)?;
        Some(event(id, subject, event_type))
    })
    .collect()
}
