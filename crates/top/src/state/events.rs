//! What happened recently, newest last.

use std::collections::VecDeque;
use std::time::Duration;

use pleg::model::event::{Event, EventType};
use pleg::model::status::ContainerStatus;
use pleg::model::wall_time::WallTime;
use pleg::out::health::HealthReport;

/// How many entries are kept.
pub const MAX_ENTRIES: usize = 1000;

/// Something that happened, and its number since the start.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number: it stays when older entries are dropped.
    pub number: u64,
    /// What happened.
    pub happened: Happened,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Happened {
    /// An event of a pod.
    Event {
        /// The event.
        event: Event,
        /// How long after it had happened it was reported, once that is known.
        latency: Option<Duration>,
    },
    /// The health changed.
    Health(HealthReport),
    /// Events were merged, because we were too slow.
    Gap {
        /// When.
        time: WallTime,
        /// How many.
        conflated: u64,
    },
}

impl Happened {
    /// When.
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
    /// Adds one.
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

    /// How many there were in all, also those that are kept no more.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Oldest first.
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

/// How long after it had happened an event was reported, by the runtime's own time.
pub fn latency(event: &Event, container: &ContainerStatus) -> Option<Duration> {
    let happened = match event.event_type {
        EventType::ContainerStarted => container.started_at,
        EventType::ContainerDied => container.finished_at,
        EventType::ContainerRemoved | EventType::PodSync => None,
    };
    happened.map(|happened| event.time.since(happened))
}
