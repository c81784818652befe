//! Events: exits and starts of containers and sandboxes.

use std::collections::BTreeMap;
use std::time::Duration;

use episodes::{Episode, What};
use pleg::model::event::{Event, EventType};
use pleg::model::id::Id;
use pleg::model::wall_time::WallTime;
use pleg::records::diff::Subject;
use pleg_text::GoDuration;

use super::status::culprit;

/// The maximum number of containers and sandboxes that are remembered.
const MAX_REMEMBERED_IDS: usize = 10_000;

/// An event that is reported later than this was delayed, because lists are requested every second.
const LATE_AFTER: Duration = Duration::from_secs(10);

/// What happened, as a verb; `None` for an event that a timeline does not show.
fn verb(event: &Event) -> Option<&'static str> {
    match event.event_type {
        EventType::ContainerStarted => Some("started"),
        EventType::ContainerDied => Some("died"),
        EventType::ContainerRemoved | EventType::PodSync => None,
    }
}

/// The episode of an event; `None` for an event that a timeline does not show.
pub(super) fn episode(event: &Event, happened: Option<WallTime>) -> Option<Episode> {
    let verb = verb(event)?;
    let what = What::Event {
        event: event.event_type.as_str().to_owned(),
        source: event.source.as_str().to_owned(),
        delay_seconds: happened.map(|happened| event.time.since(happened).as_secs_f64()),
    };
    let pod = &event.pod;
    let mut reason = match (&event.container, event.subject) {
        (Some(container), _) => format!("container {container} of pod {pod} {verb}"),
        (None, Some(Subject::Sandbox)) => format!("the sandbox of pod {pod} {verb}"),
        (None, _) => format!("a container of pod {pod} {verb}"),
    };
    if let Some(code) = event.exit_code {
        reason.push_str(&format!(" with exit code {code}"));
    }
    if let Some(why) = &event.reason {
        reason.push_str(&format!(" ({why})"));
    }
    // The picture shows when the event happened, if that is known.
    let time = happened.map_or(event.time, |happened| happened.min(event.time));
    let culprit = culprit(Some(pod), event.container.as_deref(), event.id.as_ref());
    Some(Episode::at(time, what, reason).about(culprit))
}

/// How long it took until an event of the pod was reported; `None` if the event was not delayed, or
/// if the delay is not known.
pub(super) fn waited(event: &Event, happened: Option<WallTime>) -> Option<Episode> {
    let happened = happened.filter(|happened| event.time.since(*happened) >= LATE_AFTER)?;
    let verb = verb(event)?;
    let subject = match &event.container {
        Some(container) => format!("container {container}"),
        None => "the sandbox".to_owned(),
    };
    let delay = GoDuration(Duration::from_secs(event.time.since(happened).as_secs()));
    let source = event.source.as_str();
    let reason = format!("{subject} {verb}; reported after {delay} by {source}");
    let episode = Episode::new(happened, Some(event.time), What::PodWaited, reason);
    Some(episode.about(culprit(Some(&event.pod), None, None)))
}

/// The last event of each container and sandbox: an agent that starts again during a fault reports
/// some of them a second time.
#[derive(Debug, Default)]
pub(super) struct ReportedEvents(BTreeMap<Id, EventType>);

impl ReportedEvents {
    /// Whether this event was not reported before.
    pub(super) fn is_new(&mut self, event: &Event) -> bool {
        let Some(id) = &event.id else {
            return true;
        };
        if self.0.len() >= MAX_REMEMBERED_IDS {
            self.0.clear();
        }
        self.0.insert(id.clone(), event.event_type) != Some(event.event_type)
    }
}
