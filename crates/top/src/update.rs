//! What a state is made of: each [`Update`] is one thing that was learned about the node.

use pleg::model::wall_time::WallTime;
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;
use pleg::out::told::Record;

use crate::diagnosis::Diagnosis;

/// One thing that was learned about the node.
#[derive(Clone, Debug)]
pub enum Update {
    /// Whether there is anyone to learn from.
    Source(Source),
    /// How the node was at a time.
    Status {
        /// When.
        taken: WallTime,
        /// How it was.
        report: Box<StatusReport>,
    },
    /// All pods as they were at a time. Events that are newer are applied to them.
    Pods {
        /// When; for an answer over a socket, when it was asked for.
        taken: WallTime,
        /// All of them.
        pods: Vec<PodReport>,
    },
    /// Something happened. What is told first is how the node is already.
    Record(Record),
    /// Something that had happened was recorded.
    Recorded {
        /// What.
        record: Record,
        /// When it had happened, by the runtime, if that was recorded.
        happened: Option<WallTime>,
    },
    /// What the doctor found, or why it found nothing.
    Findings {
        /// When it had finished.
        taken: WallTime,
        /// What it found.
        result: Result<Diagnosis, String>,
    },
}

/// Who reports on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Nobody yet.
    #[default]
    Connecting,
    /// Somebody does.
    Connected {
        /// Who, as the header shows it: `agent at /run/pleg/agent.sock`.
        to: String,
    },
    /// Nobody any more: what is known is from before.
    Disconnected {
        /// Since when.
        since: WallTime,
        /// Why.
        why: String,
    },
}
