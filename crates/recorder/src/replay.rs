//! The state of a node at a time of its history, for a screen that shows it as if it were now.
//!
//! ```text
//!   entries, in order of time:   Pods ... event, event ... Status ... event | t
//!                                  \_________ applied _______________________/
//!   at(t): the last status, the pods as of then, the events shortly before
//! ```
//!
//! Where the clock was set back, entries of both times lie side by side.

use std::time::Duration;

use pleg::model::wall_time::WallTime;
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;
use pleg::out::told::Record;

use crate::changes::OVERDUE_SECONDS;
use crate::{Entry, Recorded};

mod pods;

/// Events that are not older than this are shortly before.
const SHORTLY: Duration = Duration::from_secs(600);

/// How many of them are given.
const MAX_RECORDS: usize = 200;

/// A part of the state at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// The last status that was recorded.
    Status {
        /// When it was recorded.
        taken: WallTime,
        /// What it said.
        report: Box<StatusReport>,
    },
    /// All pods.
    Pods {
        /// The time of the state.
        taken: WallTime,
        /// Each with its last known state.
        pods: Vec<PodReport>,
    },
    /// Something that had happened shortly before.
    Record(Record),
}

/// Entries to be looked at, forwards and backwards.
#[derive(Clone, Debug)]
pub struct Recording {
    /// At least one, in order of time.
    entries: Vec<Entry>,
    span: (WallTime, WallTime),
}

/// A status so long after it was recorded. A call that was overdue is outstanding until a status says
/// otherwise, because its end is recorded; of other calls that is not known.
fn lasting(report: &StatusReport, passed: Duration) -> StatusReport {
    let mut report = report.clone();
    let passed = passed.as_secs_f64();
    if passed >= OVERDUE_SECONDS {
        report
            .in_flight
            .retain(|call| call.age_seconds >= OVERDUE_SECONDS);
    }
    let ages = report
        .in_flight
        .iter_mut()
        .map(|call| &mut call.age_seconds);
    let stuck = report.stuck.iter_mut().map(|call| &mut call.since_seconds);
    let failing = report
        .failing
        .iter_mut()
        .map(|call| &mut call.since_seconds);
    ages.chain(stuck)
        .chain(failing)
        .for_each(|age| *age += passed);
    report
}

impl Recording {
    /// Of these entries; `None` if there are none.
    pub fn new(mut entries: Vec<Entry>) -> Option<Self> {
        entries.sort_by_key(|entry| entry.time);
        let span = (entries.first()?.time, entries.last()?.time);
        Some(Self { entries, span })
    }

    /// The times of the first and of the last entry.
    pub fn span(&self) -> (WallTime, WallTime) {
        self.span
    }

    /// The time of the next entry.
    pub fn next_after(&self, time: WallTime) -> Option<WallTime> {
        Some(self.entries.get(self.known(time))?.time)
    }

    /// The time of the entry before.
    pub fn previous_before(&self, time: WallTime) -> Option<WallTime> {
        let before = self.entries.partition_point(|entry| entry.time < time);
        Some(self.entries[..before].last()?.time)
    }

    /// The state at a time.
    pub fn at(&self, time: WallTime) -> Vec<Update> {
        let known = &self.entries[..self.known(time)];
        let status = known.iter().rev().find_map(|entry| match &entry.what {
            Recorded::Status(status) => Some(Update::Status {
                taken: entry.time,
                report: Box::new(lasting(&status.report, time.since(entry.time))),
            }),
            _ => None,
        });
        let pods = self.pods_at(known);
        let pods = pods.map(|pods| Update::Pods { taken: time, pods });
        let shortly = time.before(SHORTLY);
        let recent = known.iter().rev().take_while(|entry| entry.time >= shortly);
        let records = recent.filter_map(|entry| match &entry.what {
            Recorded::Told(told) => Some(Update::Record(told.record.clone())),
            _ => None,
        });
        let mut records: Vec<_> = records.take(MAX_RECORDS).collect();
        records.reverse();
        status.into_iter().chain(pods).chain(records).collect()
    }

    /// How many entries there are up to this time.
    fn known(&self, time: WallTime) -> usize {
        self.entries.partition_point(|entry| entry.time <= time)
    }

    /// The pods after these entries; `None` before they were first recorded.
    fn pods_at(&self, known: &[Entry]) -> Option<Vec<PodReport>> {
        let is_all = |entry: &Entry| matches!(entry.what, Recorded::Pods(_));
        let all = known.iter().rposition(is_all)?;
        let Recorded::Pods(pods) = &known[all].what else {
            return None;
        };
        let mut pods = pods.clone();
        for entry in &known[all + 1..] {
            if let Recorded::Told(told) = &entry.what
                && let Record::Event(event) = &told.record
            {
                pods::apply(&mut pods, event, told.happened);
            }
        }
        Some(pods)
    }
}
