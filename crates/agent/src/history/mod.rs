//! The flight recorder in the daemon: what subscribers receive and what reports contain is recorded
//! on disk, to investigate an incident afterwards.
//!
//! ```text
//!   events, health, gaps (a subscription) ---\
//!   reports, as they are made -> Changes -----+--> Recorder --> /var/lib/pleg/history
//!   all pods, hourly; list times, minutely --/
//! ```
//!
//! Nothing here waits for a disk.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use pleg::model::event::EventType;
use pleg::model::wall_time::{WallTime, system_clock};
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::records::diff::Subject;
use recorder::changes::Changes;
use recorder::{Began, Diagnosed, Entry, Recorded, Recorder, WRITE_INTERVAL};
use tokio::time::Instant;

use crate::agent::Agent;
use crate::metrics::HistoryFigures;
use crate::records::Records;
use crate::reports::Reports;

mod config;
pub(crate) mod lists;

pub use config::{HistoryConfig, HistoryFolder};

/// How often all pods are recorded, in addition to the beginning of each segment: events do not
/// contain all fields of a pod.
const PODS_PERIOD: Duration = Duration::from_secs(3600);

/// How often the times of lists are recorded.
const LISTS_PERIOD: Duration = Duration::from_secs(60);

/// The recorder, and the metrics that show what it has written.
pub(crate) struct History {
    recorder: Recorder,
    figures: HistoryFigures,
}

impl History {
    /// Starts the recorder; `None` if the history is off, or if the recorder's thread cannot be
    /// started.
    pub(crate) fn start(
        config: HistoryConfig,
        endpoint: String,
        guard: bool,
        figures: HistoryFigures,
    ) -> Option<Self> {
        let HistoryConfig::On(folder) = config else {
            return None;
        };
        let limits = folder.limits();
        let started = Recorder::start(folder.directory, limits, WRITE_INTERVAL, system_clock());
        let recorder = match started {
            Ok(recorder) => recorder,
            Err(error) => {
                tracing::warn!("history is not recorded: no thread can be started: {error}");
                return None;
            }
        };
        let history = Self { recorder, figures };
        history.record(Recorded::Began(Began {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            endpoint,
            guard,
        }));
        Some(history)
    }

    fn record(&self, what: Recorded) {
        let time = system_clock()();
        self.recorder.record(&Entry { time, what });
    }

    /// Records what a diagnosis has found.
    pub(crate) fn diagnosed(&self, diagnosed: Diagnosed) {
        self.record(Recorded::Diagnosed(diagnosed));
    }

    /// Records what happens, until this future is dropped.
    async fn keep(&self, agent: &Agent, mut reports: Reports) -> Infallible {
        let Ok(mut records) = Records::subscribe(agent.clone()).await else {
            // The daemon ends for the same reason.
            return pending().await;
        };
        let mut feed = Feed::new(self, agent);
        loop {
            tokio::select! {
                record = records.next() => {
                    let Some(record) = record else {
                        return pending().await;
                    };
                    let is_health = matches!(record, Record::Health(_));
                    feed.write(record);
                    // The next report would arrive up to a second later.
                    if is_health && let Ok(report) = agent.report().await {
                        feed.report(&report, Instant::now());
                    }
                },
                changed = reports.changed() => {
                    if changed.is_err() {
                        return pending().await;
                    }
                    // What is not known is not recorded; the minutes without a status show it.
                    if let Some(report) = reports.borrow_and_update().as_ref() {
                        feed.report(report, Instant::now());
                    }
                }
            }
        }
    }

    /// Records that the agent ended regularly, and stops the recorder.
    async fn stop(self) {
        self.record(Recorded::Ended);
        self.recorder.stop().await;
    }
}

/// Records what happens, if the history is on.
pub(crate) async fn keep(history: Option<&History>, agent: &Agent, reports: Reports) -> Infallible {
    match history {
        Some(history) => history.keep(agent, reports).await,
        None => {
            drop(reports);
            pending().await
        }
    }
}

/// Ends the history, if there is one.
pub(crate) async fn stop(history: Option<History>) {
    if let Some(history) = history {
        history.stop().await;
    }
}

/// Decides what is recorded, and when.
struct Feed<'a> {
    history: &'a History,
    agent: &'a Agent,
    changes: Changes,
    /// When all pods were last recorded; `None` if they must be recorded at the next opportunity.
    pods: Option<Instant>,
    lists: Instant,
}

impl<'a> Feed<'a> {
    fn new(history: &'a History, agent: &'a Agent) -> Self {
        let now = Instant::now();
        Self {
            history,
            agent,
            changes: Changes::new(now),
            pods: None,
            lists: now,
        }
    }

    fn write(&mut self, record: Record) {
        // Record all pods, because the merged events are missing.
        if matches!(record, Record::Gap { .. }) {
            self.pods = None;
        }
        let happened = happened(&record, self.agent);
        if let Some(entry) = Entry::published(record, happened) {
            self.history.recorder.record(&entry);
        }
    }

    fn report(&mut self, report: &StatusReport, now: Instant) {
        let recorder = &self.history.recorder;
        let is_known = report.relist.count > 0;
        if recorder.take_pods_request() {
            self.pods = None;
        }
        if is_known && self.pods.is_none_or(|last| now >= last + PODS_PERIOD) {
            self.pods = Some(now);
            self.history.record(Recorded::Pods(self.agent.pods()));
        }
        if self.changes.is_due(report, now) {
            let time = system_clock()();
            recorder.record(&Entry::status(time, report.clone()));
        }
        if now >= self.lists + LISTS_PERIOD {
            self.lists = now;
            let lists = self.agent.metrics.take_lists();
            if !lists.is_empty() {
                self.history.record(Recorded::Lists(lists));
            }
        }
        self.history.figures.show(recorder.written());
    }
}

/// When a container started or exited, according to the runtime.
fn happened(record: &Record, agent: &Agent) -> Option<WallTime> {
    let Record::Event(event) = record else {
        return None;
    };
    if event.initial || event.subject != Some(Subject::Container) {
        return None;
    }
    let status = agent.pleg.cache().get(&event.pod.uid).status;
    let container = status.container(event.id.as_ref()?)?;
    match event.event_type {
        EventType::ContainerStarted => container.started_at,
        EventType::ContainerDied => container.finished_at,
        EventType::ContainerRemoved | EventType::PodSync => None,
    }
}
