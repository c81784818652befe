//! What the kubelet, the runtime and the services beside them have logged lately.

use pleg_text::WallTime;
use serde::{Deserialize, Serialize};

/// The lines of the last minutes that a rule is about. All others are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogFacts {
    /// For how many seconds before the facts were taken.
    pub seconds: u64,
    /// How many lines were read.
    pub read: u64,
    /// When the kubelet that runs now wrote its last line, if it wrote one and that is known.
    pub kubelet_wrote: Option<WallTime>,
    /// Those that a rule is about, in the order in which they were written, with credentials replaced.
    pub lines: Vec<LogLine>,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// The log: `journal`, or the path of a file.
    pub log: String,
    /// When it was written, if the line says so.
    pub time: Option<WallTime>,
    /// Its text, with what journald put before it.
    pub text: String,
}
