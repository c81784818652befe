//! The entries of a recording. They contain no environment, command line, label or annotation,
//! because the types of the library, of which they consist, have none.
//!
//! ```
//! use recorder::{Entry, Recorded};
//!
//! let json = r#"{"time": "2026-01-01T00:00:00Z", "what": "ended"}"#;
//! let entry: Entry = serde_json::from_str(json)?;
//! assert_eq!(entry.what, Recorded::Ended);
//! # Ok::<(), serde_json::Error>(())
//! ```

use causes::finding::{Confidence, Culprit};
use pleg::model::event::Event;
use pleg::model::wall_time::WallTime;
use pleg::out::health::HealthReport;
use pleg::out::pods::PodReport;
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;
use serde::{Deserialize, Serialize};

/// The maximum number of calls, findings or other rows of one list in an entry.
const MAX_ROWS: usize = 100;

/// One entry of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The time of day by the clock of the node. The clock may be set, so a later entry may have an
    /// earlier time.
    pub time: WallTime,
    /// The content.
    pub what: Recorded,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Recorded {
    /// An agent began to record.
    Began(Began),
    /// The agent was stopped. Without this entry it was killed, or the node lost power.
    Ended,
    /// `pleg snapshot` itself requested the status, because no agent responded. No recording has
    /// this entry: the readers of snapshots put it before the status.
    #[serde(rename = "looked")]
    Examined,
    /// A record that subscribers received: an event, a change of health, or a gap.
    #[serde(rename = "told")]
    Published(Published),
    /// The status of the agent: every minute, and when it changed.
    Status(Box<Status>),
    /// The findings of a diagnosis while something was wrong.
    Diagnosed(Diagnosed),
    /// All pods: at the beginning of a segment and every hour.
    Pods(Vec<PodReport>),
    /// The duration of lists: every minute.
    Lists(Vec<ListTimes>),
    /// Entries could not be recorded.
    Lost(Lost),
}

/// The agent that began to record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Began {
    /// The version of pleg.
    pub version: String,
    /// The runtime's socket.
    pub endpoint: String,
    /// Whether a guard is in front of the runtime.
    pub guard: bool,
}

/// A record that subscribers received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Published {
    /// The record.
    pub record: Record,
    /// When the container of an event started or exited, according to the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub happened: Option<WallTime>,
}

/// A status with lists of a bounded length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The report.
    pub report: StatusReport,
    /// How many rows of the report's lists were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// The findings of a diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosed {
    /// The time at which the diagnosis began; the time of the entry is that of its end.
    pub began: WallTime,
    /// The findings, root causes first.
    pub findings: Vec<Finding>,
    /// The file with all facts of the diagnosis, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
}

/// A finding, as `pleg doctor -o json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Finding {
    /// The id of the cause, as text because a newer pleg may know more causes.
    pub cause: String,
    /// The title of the cause in the catalogue.
    pub title: String,
    /// The finding on this node, with names; empty if the title says everything that is known.
    pub sentence: String,
    /// `low`, `medium`, `high` or `certain`.
    pub confidence: String,
    /// The pod, container, process or unit that the finding is about.
    pub culprit: Culprit,
    /// The evidence.
    pub evidence: Vec<String>,
    /// What to do, in this order.
    pub advice: Vec<String>,
    /// Versions in which the fault is fixed.
    pub fixed_in: Vec<String>,
}

impl Finding {
    /// Whether the doctor considers it possible and no more.
    pub fn is_doubtful(&self) -> bool {
        self.confidence == Confidence::Low.as_str()
    }
}

/// The answers of one list since the last such entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTimes {
    /// The list.
    pub call: Rpc,
    /// The number of lists that were answered.
    pub answered: u64,
    /// The number of lists that failed.
    pub failed: u64,
    /// The shortest time to an answer or a failure.
    pub min_seconds: f64,
    /// The median time to an answer or a failure.
    pub median_seconds: f64,
    /// The longest time to an answer or a failure.
    pub max_seconds: f64,
    /// The size of the largest answer in bytes.
    pub max_bytes: u64,
}

/// Entries that could not be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lost {
    /// The number of lost entries.
    pub entries: u64,
    /// The time of the first lost entry.
    pub since: WallTime,
    /// The reason.
    pub why: Loss,
}

/// Why entries were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Loss {
    /// The disk could not keep up with the entries.
    SlowDisk,
    /// The disk was full.
    FullDisk,
    /// Writing failed for another reason.
    WriteError,
    /// The entry was too large.
    TooLarge,
}

impl Loss {
    /// The reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SlowDisk => "the disk did not keep up",
            Self::FullDisk => "the disk was full",
            Self::WriteError => "writing failed",
            Self::TooLarge => "the entry was too large",
        }
    }
}

impl Entry {
    /// Creates the entry for a status, with its lists shortened.
    pub fn status(time: WallTime, mut report: StatusReport) -> Self {
        let left_out = truncate(&mut report.stuck)
            + truncate(&mut report.failing)
            + truncate(&mut report.in_flight)
            + truncate(&mut report.warnings)
            + truncate(&mut report.guard.culprits)
            + truncate(&mut report.guard.last_differences);
        let what = Recorded::Status(Box::new(Status { report, left_out }));
        Self { time, what }
    }

    /// Creates the entry for a record that subscribers receive, with the time at which its event
    /// happened; `None` if the recording already contains its content.
    pub fn published(record: Record, happened: Option<WallTime>) -> Option<Self> {
        let (time, record) = match record {
            // The entry with all pods contains what initial events show.
            Record::Event(event) if event.initial => return None,
            Record::Event(event) => (event.time, Record::Event(event)),
            Record::Synced { .. } => return None,
            Record::Health(mut health) => {
                truncate(&mut health.stuck);
                truncate(&mut health.failing);
                (health.time, Record::Health(health))
            }
            Record::Gap { time, .. } => (time, record),
        };
        let what = Recorded::Published(Published { record, happened });
        Some(Self { time, what })
    }

    /// The record that subscribers received, if the entry is one.
    pub(crate) fn as_published(&self) -> Option<&Published> {
        match &self.what {
            Recorded::Published(published) => Some(published),
            _ => None,
        }
    }

    /// The lifecycle event, if the entry is one.
    pub(crate) fn as_event(&self) -> Option<&Event> {
        match &self.as_published()?.record {
            Record::Event(event) => Some(event),
            _ => None,
        }
    }

    /// The change of health, if the entry is one.
    pub(crate) fn as_health(&self) -> Option<&HealthReport> {
        match &self.as_published()?.record {
            Record::Health(health) => Some(health),
            _ => None,
        }
    }

    /// The status, if the entry is one.
    pub(crate) fn as_status(&self) -> Option<&Status> {
        match &self.what {
            Recorded::Status(status) => Some(status),
            _ => None,
        }
    }
}

fn truncate<T>(rows: &mut Vec<T>) -> usize {
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    left_out
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
