//! The state of a node at a time of its recording, for a screen that shows it as if it were now.
//!
//! ```text
//!   entries, in order of time:   Pods ... event, event ... Status ... event | t
//!                                  \_________ applied _______________________/
//!   at(t): the last status, the last events, the pods as of then
//! ```
//!
//! If the clock was set back, entries of both periods are interleaved.

use std::time::Duration;

use pleg::model::wall_time::WallTime;
use pleg::out::health::{FailingCall, HealthState, StuckCall};
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;

use crate::changes::OVERDUE_SECONDS;
use crate::unrecorded::{Mark, Unrecorded};
use crate::{Entry, Published, Recorded, Status};

mod pods;

/// A status that is recorded within this time after a change of health belongs to the change.
const STATUS_FOLLOWS_WITHIN: Duration = Duration::from_secs(2);

/// A status that is recorded because of a change of health follows within this time.
const STATUS_DUE_WITHIN: Duration = Duration::from_millis(200);

/// A part of the state at one time.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Nothing was recorded at that time; the other parts show the time before it.
    NotRecorded(Unrecorded),
    /// The last status that was recorded.
    Status {
        /// When it was recorded.
        taken: WallTime,
        /// The report.
        report: Box<StatusReport>,
    },
    /// An event or a change of health, the oldest first.
    Published(Published),
    /// All pods, changed by the events since they were listed.
    Pods {
        /// When the pods were listed.
        listed: WallTime,
        /// Each pod with its last known state.
        pods: Vec<PodReport>,
    },
}

/// A recording through which a reader steps forwards and backwards.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The entries in order of time; there is at least one.
    entries: Vec<Entry>,
    span: (WallTime, WallTime),
    /// The times in which entries were lost. Each ends when all pods were recorded again.
    losses: Vec<Unrecorded>,
}

fn begins(entry: &Entry) -> bool {
    matches!(entry.what, Recorded::Began(_) | Recorded::Examined)
}

/// The index of the last status, or of the last beginning of an agent.
fn last_of_an_agent(known: &[Entry]) -> Option<usize> {
    let is_of_an_agent = |entry: &Entry| entry.as_status().is_some() || begins(entry);
    known.iter().rposition(is_of_an_agent)
}

/// The unrecorded time that contains `time`. When an agent begins, this time ends with its first
/// status.
fn unrecorded_at(known: &[Entry], next: &[Entry], time: WallTime) -> Option<Unrecorded> {
    let begun = last_of_an_agent(known).filter(|at| begins(&known[*at]));
    let (last, next) = match begun {
        Some(began) => (known.get(began.checked_sub(1)?)?, &known[began]),
        None => (known.last().filter(|last| last.time < time)?, next.first()?),
    };
    Unrecorded::between(Mark::from(last), Mark::from(next))
}

/// The times in which entries were lost. Each ends when all pods are recorded, because then lost
/// exits are known.
fn losses(entries: &[Entry]) -> Vec<Unrecorded> {
    let all = entries.iter().enumerate();
    let losses = all.filter_map(|(at, entry)| {
        let Recorded::Lost(lost) = entry.what else {
            return None;
        };
        let rest = &entries[at..];
        let pods = rest.iter().find(|it| matches!(it.what, Recorded::Pods(_)));
        let until = pods.or(rest.last()).map_or(lost.since, |it| it.time);
        Some(Unrecorded::of(lost, until))
    });
    losses.collect()
}

/// The last status of these entries, with the changes of health after it: the next status is
/// recorded up to a second later, and much later if many changes follow each other.
fn status_at(known: &[Entry], next: &[Entry], time: WallTime) -> Option<Update> {
    let last = last_of_an_agent(known)?;
    // After the beginning of an agent nothing is known until its first status.
    let status = known[last].as_status()?;
    if let Some(status) = belonging(&known[last + 1..], next) {
        let (taken, report) = (time, Box::new(status.report.clone()));
        return Some(Update::Status { taken, report });
    }
    let taken = known[last].time;
    let mut report = aged(&status.report, time.since(taken));
    for entry in &known[last + 1..] {
        if let Some(mut health) = entry.as_health().cloned() {
            let passed = time.since(entry.time);
            grow_older(&mut health.stuck, &mut health.failing, passed);
            report.change_health(health);
        }
    }
    let report = Box::new(report);
    Some(Update::Status { taken, report })
}

/// The status that was recorded right after the last change of health, to which it belongs.
fn belonging<'a>(since: &[Entry], next: &'a [Entry]) -> Option<&'a Status> {
    let change = since.last()?;
    let health = change.as_health()?;
    let is_soon = |entry: &&Entry| entry.time.since(change.time) < STATUS_DUE_WITHIN;
    let mut soon = next.iter().take_while(is_soon);
    let status = soon.find_map(Entry::as_status)?;
    let shown = &status.report.health;
    ((shown.state, shown.reason) == (health.state, health.reason)).then_some(status)
}

/// Adds this time to the ages of stuck and failing calls.
fn grow_older(stuck: &mut [StuckCall], failing: &mut [FailingCall], passed: Duration) {
    let stuck = stuck.iter_mut().map(|call| &mut call.since_seconds);
    let failing = failing.iter_mut().map(|call| &mut call.since_seconds);
    let passed = passed.as_secs_f64();
    stuck.chain(failing).for_each(|age| *age += passed);
}

/// A status, some time after it was recorded. An overdue call is outstanding until a status shows
/// otherwise, because its end is recorded; for other calls, this is not known.
fn aged(report: &StatusReport, passed: Duration) -> StatusReport {
    let mut report = report.clone();
    grow_older(&mut report.stuck, &mut report.failing, passed);
    let passed = passed.as_secs_f64();
    if passed > 0.0 {
        let in_flight = &mut report.in_flight;
        in_flight.retain(|call| call.age_seconds >= OVERDUE_SECONDS);
    }
    for call in &mut report.in_flight {
        call.age_seconds += passed;
    }
    report
}

impl Recording {
    /// Creates a replay of these entries; `None` if there are none.
    pub fn new(mut entries: Vec<Entry>) -> Option<Self> {
        entries.sort_by_key(|entry| entry.time);
        let span = (entries.first()?.time, entries.last()?.time);
        let losses = losses(&entries);
        Some(Self {
            entries,
            span,
            losses,
        })
    }

    /// The times of the first and of the last entry.
    pub fn span(&self) -> (WallTime, WallTime) {
        self.span
    }

    /// The time at which a reader begins: the first problem, because a recording is read to find its
    /// cause; without a problem, the last entry. The status that belongs to a problem is recorded
    /// right after the change of health.
    pub fn opening(&self) -> WallTime {
        let is_problem = |entry: &Entry| {
            let of_status = entry.as_status().map(|status| status.report.health.state);
            let state = of_status.or(entry.as_health().map(|health| health.state));
            matches!(state, Some(HealthState::Degraded | HealthState::Unhealthy))
        };
        let Some(first) = self.entries.iter().position(is_problem) else {
            return self.span.1;
        };
        let began = self.entries[first].time;
        let mut rest = self.entries[first..].iter();
        let status = rest.find(|entry| entry.as_status().is_some());
        let status = status
            .filter(|entry| is_problem(entry) && entry.time.since(began) < STATUS_FOLLOWS_WITHIN);
        status.map_or(began, |entry| entry.time)
    }

    /// The time of the next entry.
    pub fn next_after(&self, time: WallTime) -> Option<WallTime> {
        Some(self.entries.get(self.known(time))?.time)
    }

    /// The time of the previous entry.
    pub fn previous_before(&self, time: WallTime) -> Option<WallTime> {
        let before = self.entries.partition_point(|entry| entry.time < time);
        Some(self.entries[..before].last()?.time)
    }

    /// The state at a time, with up to `events` of the last events.
    pub fn at(&self, time: WallTime, events: usize) -> Vec<Update> {
        let known = &self.entries[..self.known(time)];
        let next = &self.entries[known.len()..];
        let mut losses = self.losses.iter().copied();
        let lost = losses.find(|lost| lost.since <= time && time < lost.until);
        let unrecorded = lost.or_else(|| unrecorded_at(known, next, time));
        let status = match unrecorded {
            // No entry shows that a state lasted for longer.
            Some(unrecorded) => status_at(known, &[], unrecorded.since),
            None => status_at(known, next, time),
        };
        let published = known.iter().rev().filter_map(Entry::as_published);
        let mut published: Vec<_> = published.take(events).cloned().collect();
        published.reverse();
        let unrecorded = unrecorded.map(Update::NotRecorded).into_iter();
        let updates = unrecorded.chain(status);
        let updates = updates.chain(published.into_iter().map(Update::Published));
        updates.chain(pods_at(known)).collect()
    }

    /// The number of entries up to this time.
    fn known(&self, time: WallTime) -> usize {
        self.entries.partition_point(|entry| entry.time <= time)
    }
}

/// The pods after these entries; `None` before they were first recorded.
fn pods_at(known: &[Entry]) -> Option<Update> {
    let mut newest_first = known.iter().enumerate().rev();
    let (at, mut pods) = newest_first.find_map(|(at, entry)| match &entry.what {
        Recorded::Pods(pods) => Some((at, pods.clone())),
        _ => None,
    })?;
    for entry in &known[at + 1..] {
        if let (Some(event), Some(published)) = (entry.as_event(), entry.as_published()) {
            pods::apply(&mut pods, event, published.happened);
        }
    }
    let listed = known[at].time;
    Some(Update::Pods { listed, pods })
}
