//! Folds entries into episodes.
//!
//! ```text
//!   Began, Ended, Unrecorded ----------------------------------> not recorded
//!   Status    --> what lasts now --> OpenEpisodes --begins, ends--> episodes
//!   Published --> exits and starts; health at once --------------> episodes
//! ```
//!
//! A state is keyed by its kind and its object. It begins when a status first shows it,
//! or earlier if the status contains its beginning; it ends with the first status that does not.

use std::time::Duration;

use causes::finding::Finding;
use episodes::{Episode, What};
use pleg::model::wall_time::WallTime;
use pleg::out::health::{HealthState, Reason};
use pleg::out::record::Record;

use crate::unrecorded::{Mark, Unrecorded};
use crate::{Entry, Recorded};

mod collector;
mod diagnoses;
mod event;
mod open_episodes;
mod status;

use collector::Collector;
use diagnoses::Diagnoses;
use event::ReportedEvents;
use open_episodes::{Key, OpenEpisodes};

/// Queues and threads reorder entries by less than this.
const MIN_CLOCK_STEP: Duration = Duration::from_secs(5);

/// The episodes of these entries in order of time, and the number of those that did not fit.
pub fn episodes(entries: impl IntoIterator<Item = Entry>) -> (Vec<Episode>, u64) {
    let mut fold = Fold::default();
    for entry in entries {
        fold.take(entry);
    }
    fold.finish()
}

/// The state after some entries.
#[derive(Debug, Default)]
pub struct Fold {
    collector: Collector,
    open: OpenEpisodes,
    reported_events: ReportedEvents,
    diagnoses: Diagnoses,
    /// The previous entry.
    last: Option<Mark>,
    set_back: Duration,
    first: Option<WallTime>,
    /// The time of the last status of this agent.
    last_status: Option<WallTime>,
    /// The beginning of the last agent.
    began: Option<WallTime>,
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
                self.open
                    .end_recording(unrecorded.since, &mut self.collector);
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
            Recorded::Ended => self.open.end_recording(time, &mut self.collector),
            Recorded::Published(published) => match published.record {
                Record::Event(event) => {
                    if let Some(episode) = event::episode(&event, published.happened) {
                        self.collector.add(episode);
                    }
                    let is_new = self.reported_events.is_new(&event);
                    // Events before an agent ran were not delayed by it.
                    let happened = published.happened.filter(|it| Some(*it) >= self.began);
                    let waited = event::waited(&event, happened);
                    if let Some(episode) = waited.filter(|_| is_new) {
                        self.collector.add(episode);
                    }
                }
                Record::Health(health) => {
                    let now = status::health_change(&health);
                    // While calls hang or fail, nothing is Healthy.
                    let is_healthy = health.state == HealthState::Healthy;
                    let is_shown = |key: &Key| key.is_health() || is_healthy && key.is_call();
                    self.open.replace(is_shown, now, time, &mut self.collector);
                    self.open.update(status::named(&health));
                }
                Record::Gap { conflated, .. } => {
                    let reason = format!("{conflated} events were merged: the node was too fast");
                    let gap = Episode::at(time, What::NotRecorded, reason);
                    self.collector.add(gap);
                }
                Record::Synced { .. } => {}
            },
            Recorded::Status(status) => {
                let mut shown = status::of(&status.report, time);
                // A guard counts from the time at which the lists began to hang. Until the last
                // status it did not answer.
                if let Some(before) = self.last_status
                    && !self.open.is_open(&Key::Guarding)
                {
                    let guarding = shown.lasts.iter_mut();
                    let guarding = guarding.filter(|(key, _)| *key == Key::Guarding);
                    guarding.for_each(|(_, episode)| episode.from = episode.from.max(before));
                }
                self.last_status = Some(time);
                self.diagnoses.on_status(&status.report);
                // An unresponsive runtime is no evidence about the calls of one container.
                let is_unresponsive = status.report.health.reason == Reason::RuntimeSilent;
                // A list that was cut does not show what has ended.
                let is_shown = |key: &Key| {
                    !(is_unresponsive && key.is_call_for_one())
                        && (status.left_out == 0 || !key.is_call())
                };
                self.open
                    .replace(is_shown, shown.lasts, time, &mut self.collector);
                for finding in shown.findings {
                    self.open.add_finding(finding, &mut self.collector);
                }
            }
            Recorded::Lost(lost) => {
                let unrecorded = Unrecorded::of(lost, time);
                self.collector.add(not_recorded(unrecorded));
            }
        }
    }

    /// The findings of diagnoses, those with the highest confidence first. Findings that the last
    /// status does not show are past.
    pub fn findings(&self) -> Vec<Finding> {
        self.diagnoses.findings()
    }

    /// The agent that recorded the last entry still runs. States that lasted then last at this
    /// time, because it records each change.
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
            self.open.end_recording(time, &mut self.collector);
        }
        self.collector.sorted()
    }
}

fn not_recorded(unrecorded: Unrecorded) -> Episode {
    let Unrecorded { since, until, .. } = unrecorded;
    Episode::new(
        since,
        Some(until),
        What::NotRecorded,
        unrecorded.to_string(),
    )
}
