//! The series of "pleg was last seen active X ago", and what it shows.
//!
//! ```text
//!   lines --> points (time, X) --> intervals: one for each relist that is overdue
//!                                     |   time - X is when the last relist began; it is the
//!                                     |   same for all points of one interval
//!                                     v
//!             calls that failed, --> pattern --> reading, one sentence
//!             starts of the kubelet
//! ```
//!
//! ```
//! use analyze::series::{Around, Intervals, Said, read};
//!
//! let mut intervals = Intervals::default();
//! for seconds in [180, 185, 190] {
//!     let line = format!("pleg was last seen active 3m{}s ago; threshold is 3m0s", seconds - 180);
//!     if let Some(said) = Said::of(line.as_bytes()) {
//!         let time = 1_700_000_000_000_000_000 + seconds * 1_000_000_000;
//!         intervals.point(Some(time), said, || None);
//!     }
//! }
//! let (intervals, dropped) = intervals.end(None);
//! let reading = read(&intervals, dropped, &Around::default());
//! assert_eq!(reading.intervals.len(), 1);
//! assert_eq!(reading.intervals[0].peak_seconds, 190.0);
//! ```

mod interval;
mod pattern;
mod point;
mod reading;

use pleg_text::WallTime;
use serde::Serialize;

pub(crate) use interval::join_rotated;
pub use interval::{Interval, Intervals};
pub use pattern::Pattern;
pub use point::Said;

/// The kubelet's default threshold, if a line does not contain it.
pub const THRESHOLD: i64 = 180 * SECOND;
pub(crate) const SECOND: i64 = 1_000_000_000;

/// What a kubelet's logs contain besides the series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// The number of lists that failed because the runtime could not be reached.
    pub lists_refused: u64,
    /// The number of lists that failed for another reason.
    pub lists_failed: u64,
    /// The number of lists that timed out.
    pub lists_late: u64,
    /// The number of status calls for single containers or sandboxes that timed out.
    pub statuses_late: u64,
    /// The number of the kubelet's lines that are no evidence.
    pub other_lines: u64,
    /// The number of starts of the kubelet.
    pub starts: u64,
    /// Whether the kubelet reported the runtime as down, because the runtime had not returned its status
    /// for half a minute.
    pub runtime_down: bool,
}

impl Around {
    /// Adds the counts of another input.
    pub fn absorb(&mut self, other: Self) {
        self.lists_refused += other.lists_refused;
        self.lists_failed += other.lists_failed;
        self.lists_late += other.lists_late;
        self.statuses_late += other.statuses_late;
        self.other_lines += other.other_lines;
        self.starts += other.starts;
        self.runtime_down |= other.runtime_down;
    }
}

/// What the series shows; `pleg` in the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlegReading {
    /// The pattern of the series.
    pub pattern: Pattern,
    /// What the series shows, in one sentence.
    pub reading: String,
    /// The unhealthy intervals in order of time, without those of normal starts.
    pub intervals: Vec<Shown>,
    /// The number of intervals beyond the limit.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub dropped_intervals: u64,
}

/// An interval as it is reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// The first line's time.
    pub start: Option<WallTime>,
    /// The last line's time.
    pub end: Option<WallTime>,
    /// The largest value of "last seen active X ago". If the kubelet never relisted, the time from the
    /// first line to the last.
    pub peak_seconds: f64,
    /// The number of lines.
    pub lines: u64,
    /// The node, if the lines name it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// Analyses the series of all inputs, whose intervals are joined already.
pub fn read(intervals: &[Interval], dropped: u64, around: &Around) -> PlegReading {
    let pattern = pattern::of(intervals, around);
    let reading = reading::sentence(pattern, intervals, around);
    let faults = intervals.iter().filter(|interval| !interval.is_startup());
    PlegReading {
        pattern,
        reading,
        intervals: faults.map(Shown::of).collect(),
        dropped_intervals: dropped,
    }
}

impl Shown {
    fn of(interval: &Interval) -> Self {
        Self {
            start: interval.start.and_then(WallTime::from_unix_nanos),
            end: interval.end.and_then(WallTime::from_unix_nanos),
            peak_seconds: interval.peak() as f64 / 1e9,
            lines: interval.lines,
            host: interval.host.clone(),
        }
    }
}
