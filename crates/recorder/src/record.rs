//! What is recorded. There is no environment, no command line, no label and no annotation in it:
//! the types of the library, which it consists of, have none.
//!
//! ```
//! use recorder::{Entry, Recorded};
//!
//! let json = r#"{"time": "2026-01-01T00:00:00Z", "what": "ended"}"#;
//! let entry: Entry = serde_json::from_str(json)?;
//! assert_eq!(entry.what, Recorded::Ended);
//! # Ok::<(), serde_json::Error>(())
//! ```

use causes::finding::Culprit;
use pleg::model::wall_time::WallTime;
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;
use pleg::out::told::Record;
use pleg::runtime::Rpc;
use serde::{Deserialize, Serialize};

/// How many calls, findings or other rows of one list are recorded.
const MAX_ROWS: usize = 100;

/// One thing that was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, by the clock of the node: it may have been set in between, so that a later entry has
    /// an earlier time.
    pub time: WallTime,
    /// What.
    pub what: Recorded,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Recorded {
    /// An agent began to record.
    Began(Began),
    /// It was stopped. Without this entry it was killed, or the node lost power.
    Ended,
    /// Whoever took a snapshot has looked at the node, because no agent responded. It is in no
    /// history: the readers of snapshots put it in front of what was seen.
    Looked,
    /// What a subscriber was told: an event, a change of health, or a gap.
    Told(Told),
    /// The status of the agent: every minute, and when it changed.
    Status(Box<Status>),
    /// What a diagnosis has found while something was wrong.
    Diagnosed(Diagnosed),
    /// All pods: at the beginning of a segment and every hour.
    Pods(Vec<PodReport>),
    /// How long lists took: every minute.
    Lists(Vec<ListTimes>),
    /// Something could not be recorded.
    Lost(Lost),
}

/// Who began to record.
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

/// What a subscriber was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// The record.
    pub record: Record,
    /// When it had happened, by the runtime: the start or the death of a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub happened: Option<WallTime>,
}

/// A status with lists of a bounded length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The report.
    pub report: StatusReport,
    /// How many rows of its lists were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// What a diagnosis has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosed {
    /// When the diagnosis began; the entry is as late as its end.
    pub began: WallTime,
    /// The findings, root causes first.
    pub findings: Vec<Finding>,
    /// The file in which all that the diagnosis collected is kept, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
}

/// A finding, as `pleg doctor -o json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Finding {
    /// The id of the cause: a newer pleg may know more causes.
    pub cause: String,
    /// What is known of the cause in general.
    pub title: String,
    /// The same of this node, with names; empty where the title says all that is known.
    pub sentence: String,
    /// `low`, `medium`, `high` or `certain`.
    pub confidence: String,
    /// The pod, container, process or unit that it is about.
    pub culprit: Culprit,
    /// What shows it.
    pub evidence: Vec<String>,
    /// What to do, the first thing first.
    pub advice: Vec<String>,
    /// Versions in which the fault is fixed.
    pub fixed_in: Vec<String>,
}

/// How one of the lists was answered since the last such entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTimes {
    /// Which list.
    pub call: Rpc,
    /// How many were answered.
    pub answered: u64,
    /// How many failed.
    pub failed: u64,
    /// The shortest time to an answer or a failure.
    pub min_seconds: f64,
    /// The median of these times.
    pub median_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
    /// The size of the largest answer.
    pub max_bytes: u64,
}

/// What could not be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lost {
    /// How many entries.
    pub entries: u64,
    /// The time of the first of them.
    pub since: WallTime,
    /// Why.
    pub why: Loss,
}

/// Why entries were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Loss {
    /// The disk did not keep up.
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
    /// The entry for a status, with its lists cut.
    pub fn status(time: WallTime, mut report: StatusReport) -> Self {
        let left_out = cut(&mut report.stuck)
            + cut(&mut report.failing)
            + cut(&mut report.in_flight)
            + cut(&mut report.warnings)
            + cut(&mut report.guard.culprits)
            + cut(&mut report.guard.last_differences);
        let what = Recorded::Status(Box::new(Status { report, left_out }));
        Self { time, what }
    }

    /// The entry for what a subscriber was told, and when that had happened; `None` for what is in
    /// the history already.
    pub fn told(record: Record, happened: Option<WallTime>) -> Option<Self> {
        let (time, record) = match record {
            // What was there before is in the entry with all pods.
            Record::Event(event) if event.initial => return None,
            Record::Event(event) => (event.time, Record::Event(event)),
            Record::Synced { .. } => return None,
            Record::Health(mut health) => {
                cut(&mut health.stuck);
                cut(&mut health.failing);
                (health.time, Record::Health(health))
            }
            Record::Gap { time, .. } => (time, record),
        };
        let what = Recorded::Told(Told { record, happened });
        Some(Self { time, what })
    }

    /// Whether it is a lifecycle event, of which there may be many.
    pub(crate) fn is_event(&self) -> bool {
        match &self.what {
            Recorded::Told(told) => matches!(told.record, Record::Event(_)),
            _ => false,
        }
    }
}

fn cut<T>(rows: &mut Vec<T>) -> usize {
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    left_out
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
