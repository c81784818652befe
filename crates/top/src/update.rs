//! Updates of a state: each [`Update`] is one new fact about the node.

use pleg::model::wall_time::WallTime;
use pleg::out::pods::PodReport;
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;

use crate::diagnosis::Diagnosis;

/// A new fact about the node.
#[derive(Clone, Debug)]
pub enum Update {
    /// The source of the updates has changed.
    Source(Source),
    /// The status of the node at a time.
    Status {
        /// The time.
        taken: WallTime,
        /// The report.
        report: Box<StatusReport>,
    },
    /// All pods as of a time. Newer events are applied to them.
    Pods {
        /// The time; for an answer over a socket, the time of the request.
        taken: WallTime,
        /// The pods.
        pods: Vec<PodReport>,
    },
    /// A record. The first records describe the existing state.
    Record(Record),
    /// A record of an earlier time, from a recording.
    Recorded {
        /// The record.
        record: Record,
        /// When the event happened by the runtime's clock, if that was recorded.
        happened: Option<WallTime>,
    },
    /// The result of the doctor, or why it failed.
    Findings {
        /// When the doctor had finished.
        taken: WallTime,
        /// The result.
        result: Result<Diagnosis, String>,
    },
}

/// The source of reports on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Not connected yet.
    #[default]
    Connecting,
    /// Connected.
    Connected {
        /// The name of the source in the header: `agent at /run/pleg/agent.sock`.
        to: String,
    },
    /// No longer connected: what is known is from before the loss.
    Disconnected {
        /// The time of the loss.
        since: WallTime,
        /// The reason.
        why: String,
    },
}
