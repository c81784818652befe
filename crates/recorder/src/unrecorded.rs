//! Times about which nothing is known, because no agent ran, or because its entries were lost.

use std::fmt;
use std::time::Duration;

use pleg::model::wall_time::WallTime;
use pleg_text::GoDuration;

use crate::{Entry, Lost, Recorded};

/// An agent records a status every minute. If there are no entries for longer than this, it did not
/// run.
const UNKNOWN_AFTER: Duration = Duration::from_secs(150);

/// A time in which nothing was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// The time of the last entry before it, or of the first lost entry.
    pub since: WallTime,
    /// The time of the first entry after it.
    pub until: WallTime,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Stopped,
    Killed,
    NoneResponded,
    Unknown,
    Lost(Lost),
}

/// An entry as one end of an unrecorded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) time: WallTime,
    of: Of,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Beginning,
    Examination,
    End,
    Other,
}

impl From<&Entry> for Mark {
    fn from(entry: &Entry) -> Self {
        let of = match entry.what {
            Recorded::Began(_) => Of::Beginning,
            Recorded::Examined => Of::Examination,
            Recorded::Ended => Of::End,
            _ => Of::Other,
        };
        Self {
            time: entry.time,
            of,
        }
    }
}

impl Mark {
    /// A time at which an agent was running.
    pub(crate) fn other(time: WallTime) -> Self {
        let of = Of::Other;
        Self { time, of }
    }
}

impl Unrecorded {
    /// The time between an entry and the next, if no agent can have recorded in it.
    pub(crate) fn between(last: Mark, next: Mark) -> Option<Self> {
        let why = match (last.of, next.of) {
            (Of::End, _) => Why::Stopped,
            (_, Of::Beginning) => Why::Killed,
            (_, Of::Examination) => Why::NoneResponded,
            _ if next.time.since(last.time) >= UNKNOWN_AFTER => Why::Unknown,
            _ => return None,
        };
        Some(Self {
            since: last.time,
            until: next.time,
            why,
        })
    }

    /// The time of lost entries, as recorded at `until`.
    pub(crate) fn of(lost: Lost, until: WallTime) -> Self {
        Self {
            since: lost.since,
            until,
            why: Why::Lost(lost),
        }
    }
}

impl fmt::Display for Unrecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            Why::Lost(Lost { entries, why, .. }) => {
                return write!(f, "{entries} entries were lost: {}", why.as_str());
            }
            Why::Stopped => "the agent was stopped",
            Why::Killed => "the agent was killed, or the node was down",
            Why::NoneResponded => "no agent responded when the snapshot was taken",
            Why::Unknown => "the agent did not run, its clock was set, or the entries are lost",
        };
        let lasted = Duration::from_secs(self.until.since(self.since).as_secs());
        write!(f, "nothing was recorded for {}: {why}", GoDuration(lasted))
    }
}
