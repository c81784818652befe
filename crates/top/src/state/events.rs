//! Recent events, newest last.

use std::collections::VecDeque;
use std::time::Duration;

use pleg::model::event::{Event, EventType};
use pleg::model::status::ContainerStatus;
use pleg::model::wall_time::WallTime;
use pleg::out::health::HealthReport;

/// The maximum number of entries.
pub const MAX_ENTRIES: usize = 1000;

/// An entry, and its number since the start.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The number, which does not change when older entries are dropped.
    pub number: u64,
    /// The content.
    pub happened: Happened,
}

/// The content of an entry.
#[derive(Clone, Debug)]
pub enum Happened {
    /// An event of a pod.
    Event {
        /// The event.
        event: Event,
        /// The time from the event to its report, once it is known.
        latency: Option<Duration>,
    },
    /// The health changed.
    Health(HealthReport),
    /// Events were merged, because this process was too slow.
    Gap {
        /// The time.
        time: WallTime,
        /// The number of events.
        conflated: u64,
    },
}

impl Happened {
    /// The time of the entry.
    pub fn time(&self) -> WallTime {
        match self {
            Self::Event { event, .. } => event.time,
            Self::Health(health) => health.time,
            Self::Gap { time, .. } => *time,
        }
    }
}

/// The newest entries.
#[derive(Clone, Debug, Default)]
pub struct Events {
    entries: VecDeque<Entry>,
    count: u64,
}

impl Events {
    /// Adds an entry.
    pub fn push(&mut self, happened: Happened) {
        self.count += 1;
        self.entries.push_back(Entry {
            number: self.count,
            happened,
        });
        if self.entries.len() > MAX_ENTRIES {
            self.entries.pop_front();
        }
    }

    /// The number of all entries, including dropped ones.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The entries, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The events whose latency is not known yet.
    pub fn without_latency(&mut self) -> impl Iterator<Item = (&Event, &mut Option<Duration>)> {
        let entries = self.entries.iter_mut();
        entries.filter_map(|entry| match &mut entry.happened {
            Happened::Event { event, latency } if latency.is_none() => Some((&*event, latency)),
            _ => None,
        })
    }
}

/// The time from an event, by the runtime's clock, to its report.
pub fn latency(event: &Event, container: &ContainerStatus) -> Option<Duration> {
    let happened = match event.event_type {
        EventType::ContainerStarted => container.started_at,
        EventType::ContainerDied => container.finished_at,
        EventType::ContainerRemoved | EventType::PodSync => None,
    };
    happened.map(|happened| event.time.since(happened))
}
