//! What the engine reported, as a trace that a test reads.

use std::sync::{Arc, Mutex};

use super::Node;
use pleg::model::event::{Event, EventType, Source};
use pleg::out::health::HealthReport;
use pleg::out::record::Record;
use pleg::out::subscribers::Subscription;
use tokio::time::Instant;

/// What was reported, and how many seconds after the start.
#[derive(Clone, Debug)]
pub struct Reported {
    pub at: f64,
    pub record: Record,
}

impl Node {
    /// Everything that was reported.
    pub fn trace(&self) -> Vec<Reported> {
        self.trace.lock().unwrap().clone()
    }

    /// The health reports after this time, and their times.
    pub fn health_reports(&self, after: f64) -> Vec<(f64, HealthReport)> {
        let trace = self.trace().into_iter().filter(|entry| entry.at > after);
        let reports = trace.filter_map(|entry| match entry.record {
            Record::Health(health) => Some((entry.at, health)),
            _ => None,
        });
        reports.collect()
    }

    /// How many events were reported.
    pub fn event_count(&self) -> usize {
        let trace = self.trace.lock().unwrap();
        let is_event = |entry: &&Reported| matches!(entry.record, Record::Event(_));
        trace.iter().filter(is_event).count()
    }

    /// When each exit of a container was reported.
    pub fn deaths(&self, id: &str) -> Vec<f64> {
        let trace = self.trace.lock().unwrap();
        let deaths = trace.iter().filter(|entry| {
            let Record::Event(event) = &entry.record else {
                return false;
            };
            let is_its = event.id.as_ref().is_some_and(|it| it.as_str() == id);
            is_its && event.event_type == EventType::ContainerDied
        });
        deaths.map(|entry| entry.at).collect()
    }

    /// When the first pass was reported as complete.
    pub fn synced(&self) -> Option<f64> {
        let trace = self.trace.lock().unwrap();
        let mut synced = trace
            .iter()
            .filter(|entry| matches!(entry.record, Record::Synced { .. }));
        synced.next().map(|entry| entry.at)
    }

    /// What was reported since the last call, one line for each record.
    #[track_caller]
    pub fn reported(&self) -> String {
        let trace = self.trace.lock().unwrap();
        let mut already_read = self.already_read.lock().unwrap();
        let new = &trace[*already_read..];
        let line = |entry: &Reported| format!("{:.3} {}", entry.at, line(&entry.record));
        let lines: Vec<String> = new.iter().map(line).collect();
        *already_read = trace.len();
        lines.join("\n")
    }

    /// Compares what was reported since the last call; lines may be indented.
    #[track_caller]
    pub fn assert_reported(&self, expected: &str) {
        let lines = expected
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        assert_eq!(self.reported(), lines.collect::<Vec<_>>().join("\n"));
    }

    /// Asserts that no event was reported since the last call of [`Self::reported`].
    #[track_caller]
    pub fn assert_reported_no_event(&self) {
        let trace = self.trace.lock().unwrap();
        let mut new = trace[*self.already_read.lock().unwrap()..].iter();
        let event = new.find(|entry| matches!(entry.record, Record::Event(_)));
        assert!(event.is_none(), "{event:?}");
    }
}

pub(super) async fn read(
    mut subscription: Subscription,
    began: Instant,
    trace: Arc<Mutex<Vec<Reported>>>,
) {
    while let Some(record) = subscription.next().await {
        let at = began.elapsed().as_secs_f64();
        trace.lock().unwrap().push(Reported { at, record });
    }
}

pub fn line(record: &Record) -> String {
    match record {
        Record::Event(event) => event_line(event),
        Record::Synced {
            pods, containers, ..
        } => format!("synced {pods} pods, {containers} containers"),
        Record::Health(health) => format!("{}: {}", health.state, health.message),
        Record::Gap {
            conflated, pods, ..
        } => format!("gap of {conflated} in {pods:?}"),
    }
}

fn event_line(event: &Event) -> String {
    let kind = event.event_type.as_str();
    let kind = kind.strip_prefix("Container").unwrap_or(kind);
    let about = match &event.id {
        Some(id) => id.to_string(),
        None => event.pod.name.to_string(),
    };
    let code = event.exit_code.map(|code| format!(" with {code}"));
    let initial = if event.initial { " (initial)" } else { "" };
    let source = match event.source {
        Source::Relist | Source::Sweep => "",
        Source::Stream => " (stream)",
        Source::Kernel => " (kernel)",
    };
    format!(
        "{kind} {about}{}{initial}{source}",
        code.unwrap_or_default()
    )
}
