//! Times of which nothing is known, because no agent ran.

use std::fmt;
use std::time::Duration;

use pleg::model::wall_time::WallTime;
use times::GoDuration;

use crate::{Entry, Recorded};

/// An agent records a status every minute. After a longer time without entries it did not run.
const LONGEST: Duration = Duration::from_secs(150);

/// A time in which nothing was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The time of the last entry before it.
    pub since: WallTime,
    /// The time of the first entry after it.
    pub until: WallTime,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Stopped,
    Killed,
    Unknown,
}

/// Which of the ends of a silence an entry may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) time: WallTime,
    begins: bool,
    ends: bool,
}

impl From<&Entry> for Mark {
    fn from(entry: &Entry) -> Self {
        Self {
            time: entry.time,
            begins: matches!(entry.what, Recorded::Began(_)),
            ends: entry.what == Recorded::Ended,
        }
    }
}

impl Silence {
    /// What lies between an entry and the next, if nobody can have recorded then.
    pub(crate) fn between(last: Mark, next: Mark) -> Option<Self> {
        let why = match (next.begins, last.ends) {
            (true, true) => Why::Stopped,
            (true, false) => Why::Killed,
            (false, _) if next.time.since(last.time) >= LONGEST => Why::Unknown,
            (false, _) => return None,
        };
        Some(Self {
            since: last.time,
            until: next.time,
            why,
        })
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasted = Duration::from_secs(self.until.since(self.since).as_secs());
        let why = match self.why {
            Why::Stopped => "the agent was stopped",
            Why::Killed => "the agent was killed, or the node was down",
            Why::Unknown => "the agent did not run, its clock was set, or the entries are lost",
        };
        write!(f, "nothing was recorded for {}: {why}", GoDuration(lasted))
    }
}
