//! Folds entries into episodes.
//!
//! ```text
//!   Began, Ended, Lost --> times without recording -----\
//!   Status    --> the states that last now, findings ----+--> Collector --> episodes
//!   Published --> exits and starts; health at once -----/
//! ```
//!
//! A state is keyed by its kind and its object. It begins when a status first shows it, or earlier
//! if the status contains its beginning; it ends with the first status that does not show it.

use std::time::Duration;

use causes::finding::Finding;
use episodes::{Episode, What};
use pleg::model::wall_time::WallTime;
use pleg::out::health::{HealthState, Reason};
use pleg::out::record::Record;

use crate::unrecorded::{Mark, Unrecorded};
use crate::{Entry, Published, Recorded, Status};

mod collector;
mod diagnoses;
mod event;
mod status;

use collector::Collector;
use diagnoses::Diagnoses;
use event::ReportedEvents;
use status::Key;

/// The smallest step that counts as a clock that was set back. Queues and threads reorder entries by
/// less than this.
const MIN_CLOCK_STEP: Duration = Duration::from_secs(5);

/// The state after the entries that were folded so far.
#[derive(Debug, Default)]
pub struct Fold {
    collector: Collector,
    reported_events: ReportedEvents,
    diagnoses: Diagnoses,
    /// The previous entry.
    last: Option<Mark>,
    /// The largest step by which the clock was set back.
    set_back: Duration,
    /// The time of the first entry.
    first: Option<WallTime>,
    /// When the last agent began to record.
    began: Option<WallTime>,
    /// The time of the last status since then.
    last_status: Option<WallTime>,
}

impl Fold {
    /// Folds the next entry.
    pub fn take(&mut self, entry: Entry) {
        let mark = Mark::from(&entry);
        let Entry { time, what } = entry;
        self.first = self.first.or(Some(time));
        if let Some(last) = self.last.replace(mark) {
            self.set_back = self.set_back.max(last.time.since(time));
            if let Some(unrecorded) = Unrecorded::between(last, mark) {
                self.collector.end_recording(unrecorded.since);
                self.collector.add(not_recorded(unrecorded));
            }
        }
        match what {
            Recorded::Began(_) | Recorded::Examined => {
                self.began = Some(time);
                self.last_status = None;
            }
            Recorded::Pods(_) | Recorded::Lists(_) => {}
            Recorded::Diagnosed(diagnosed) => self.diagnoses.on_diagnosis(diagnosed),
            // States that are not observed from now on have no known end.
            Recorded::Ended => self.collector.end_recording(time),
            Recorded::Published(published) => self.take_published(published, time),
            Recorded::Status(status) => self.take_status(&status, time),
            Recorded::Lost(lost) => {
                let unrecorded = Unrecorded::of(lost, time);
                self.collector.add(not_recorded(unrecorded));
            }
        }
    }

    fn take_published(&mut self, published: Published, time: WallTime) {
        let Published { record, happened } = published;
        match record {
            Record::Event(event) => {
                if let Some(episode) = event::episode(&event, happened) {
                    self.collector.add(episode);
                }
                // Events before an agent ran were not delayed by it.
                let happened = happened.filter(|it| Some(*it) >= self.began);
                if self.reported_events.is_new(&event)
                    && let Some(episode) = event::waited(&event, happened)
                {
                    self.collector.add(episode);
                }
            }
            Record::Health(health) => {
                // A Healthy node has no calls that hang or fail.
                let is_healthy = health.state == HealthState::Healthy;
                let is_shown = |key: &Key| key.is_health() || is_healthy && key.is_call();
                let now = status::health_change(&health);
                self.collector.replace(is_shown, now, time);
                self.collector.update(status::named_calls(&health));
            }
            Record::Gap { conflated, .. } => {
                let reason = format!("{conflated} events were merged: the node was too fast");
                let gap = Episode::at(time, What::NotRecorded, reason);
                self.collector.add(gap);
            }
            Record::Synced { .. } => {}
        }
    }

    fn take_status(&mut self, status: &Status, time: WallTime) {
        let mut shown = status::of(&status.report, time);
        // A guard reports the time at which the lists began to hang. At the last status it was not
        // answering them.
        if let Some(before) = self.last_status
            && !self.collector.is_open(&Key::Guarding)
        {
            let guarding = shown.lasts.iter_mut();
            let guarding = guarding.filter(|(key, _)| *key == Key::Guarding);
            guarding.for_each(|(_, episode)| episode.from = episode.from.max(before));
        }
        self.last_status = Some(time);
        self.diagnoses.on_status(&status.report);
        // An unresponsive runtime is no evidence about the calls of one container.
        let is_unresponsive = status.report.health.reason == Reason::RuntimeSilent;
        // A list that was shortened does not show what has ended.
        let is_shown = |key: &Key| {
            !(is_unresponsive && key.is_call_for_one()) && (status.left_out == 0 || !key.is_call())
        };
        self.collector.replace(is_shown, shown.lasts, time);
        for (cause, finding) in shown.findings {
            self.collector.add_finding(cause, finding);
        }
    }

    /// The findings of diagnoses, those with the highest confidence first. Findings that the last
    /// status does not show are past.
    pub fn findings(&self) -> Vec<Finding> {
        self.diagnoses.findings()
    }

    /// Records that the agent that recorded the last entry still runs at this time. States that
    /// lasted then still last, because the agent records each change.
    pub fn runs_at(&mut self, time: WallTime) {
        let now = Mark::other(time);
        self.last = self.last.map(|last| match Unrecorded::between(last, now) {
            None if last.time < time => now,
            _ => last,
        });
    }

    /// The time of the first entry.
    pub fn read_from(&self) -> Option<WallTime> {
        self.first
    }

    /// The time of the last entry.
    pub fn read_until(&self) -> Option<WallTime> {
        self.last.map(|last| last.time)
    }

    /// The largest step by which the node's clock was set back: durations around it are wrong.
    pub fn set_back(&self) -> Option<Duration> {
        Some(self.set_back).filter(|by| *by > MIN_CLOCK_STEP)
    }

    /// The episodes in order of time, and the number of those that did not fit. States that still
    /// last have no end.
    pub fn finish(mut self) -> (Vec<Episode>, u64) {
        if let Some(time) = self.read_until() {
            self.collector.end_recording(time);
        }
        self.collector.sorted()
    }
}

fn not_recorded(unrecorded: Unrecorded) -> Episode {
    let Unrecorded { since, until, .. } = unrecorded;
    let reason = unrecorded.to_string();
    Episode::new(since, Some(until), What::NotRecorded, reason)
}
