//! Recent log lines of the kubelet, the runtime, and other services that write to the same files.

use pleg_text::WallTime;
use serde::{Deserialize, Serialize};

/// The lines of the last minutes that match a rule. Others are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogFacts {
    /// The length of the period in seconds. It ends when the facts were taken.
    pub seconds: u64,
    /// How many lines were read.
    pub read: u64,
    /// When the running kubelet wrote its last line in this period, if that is known.
    pub kubelet_wrote: Option<WallTime>,
    /// The lines that match a rule, oldest first within each log, with credentials replaced.
    pub lines: Vec<LogLine>,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// The log: `journal`, or the path of a file.
    pub log: String,
    /// When it was written, if the line contains a time.
    pub time: Option<WallTime>,
    /// Its text, including journald's prefix.
    pub text: String,
}
