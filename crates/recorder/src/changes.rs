//! Which status reports are recorded: one a minute, and those in which something changed that a
//! person would want to know. That a call or a report is a second older is no change.
//!
//! ```text
//!   StatusReport, as it is made --> Gist: what matters of it --> another one? --> record
//!                                                                    ^
//!                                 at most one a second, but a change of health at once;
//!                                 in a row, at most as the budget allows
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use pleg::out::health::{Blind, HealthState, Reason};
use pleg::out::status_report::{Finding, GuardMode, GuardStatus, StatusReport};
use pleg::runtime::Rpc;
use tokio::time::Instant;

/// How often a status without a change is recorded.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// From one status to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// From one change of the guard's counters to the next: while it guards they change every second.
const COUNTERS: Duration = Duration::from_secs(10);

/// How many changes are recorded one second after the other, and how long it takes until there is
/// another one: a runtime that flaps for hours would push everything else out of the history.
const BURST: u32 = 60;
const REFILL: Duration = Duration::from_secs(5);

/// An outstanding call that is as old as this belongs to the picture.
pub(crate) const OVERDUE_SECONDS: f64 = 2.0;

/// Decides which reports are recorded.
#[derive(Debug)]
pub struct Changes {
    last: Option<Last>,
    budget: Budget,
}

/// The status that was recorded last.
#[derive(Debug)]
struct Last {
    at: Instant,
    gist: Gist,
    counters: Counters,
}

/// What matters of a status.
#[derive(Debug, PartialEq)]
struct Gist {
    health: (HealthState, Reason),
    kubelet: (bool, bool),
    stuck: Calls,
    failing: Calls,
    overdue: Calls,
    blind: Vec<Blind>,
    sweeping: bool,
    stream: String,
    kernel: String,
    runtime: Option<Arc<str>>,
    guard: (GuardMode, [bool; 4]),
    finding: Option<Finding>,
    warnings: Vec<Finding>,
}

type Calls = BTreeSet<(Rpc, Option<Id>)>;

/// What the guard has counted.
#[derive(Debug, PartialEq)]
struct Counters {
    calls: [BTreeMap<Rpc, u64>; 4],
    differences: u64,
}

#[derive(Debug)]
struct Budget {
    left: u32,
    refilled: Instant,
}

impl Changes {
    /// Nothing was recorded yet.
    pub fn new(now: Instant) -> Self {
        Self {
            last: None,
            budget: Budget {
                left: BURST,
                refilled: now,
            },
        }
    }

    /// Whether this report is to be recorded; it counts as recorded then.
    pub fn is_due(&mut self, report: &StatusReport, now: Instant) -> bool {
        self.budget.refill(now);
        let gist = Gist::of(report);
        let counters = Counters::of(&report.guard);
        let is_due = match &self.last {
            None => true,
            // Whoever steps through the history stops where the health changes: what is shown
            // there is not to be a mixture of before and after.
            Some(last) if now < last.at + PAUSE && gist.health == last.gist.health => false,
            Some(last) if now >= last.at + HEARTBEAT => true,
            Some(last) if gist != last.gist => self.budget.take(),
            Some(last) => counters != last.counters && now >= last.at + COUNTERS,
        };
        if is_due {
            self.last = Some(Last {
                at: now,
                gist,
                counters,
            });
        }
        is_due
    }
}

impl Gist {
    fn of(report: &StatusReport) -> Self {
        let overdue = report.in_flight.iter();
        let overdue = overdue.filter(|call| call.age_seconds >= OVERDUE_SECONDS);
        let failing = report.failing.iter();
        Self {
            health: (report.health.state, report.health.reason),
            kubelet: (
                report.kubelet_view.ready,
                report.kubelet_view.not_ready_in_seconds.is_some(),
            ),
            stuck: report
                .stuck
                .iter()
                .map(|call| (call.call, call.id.clone()))
                .collect(),
            failing: failing
                .map(|call| (call.call, Some(call.id.clone())))
                .collect(),
            overdue: overdue.map(|call| (call.call, call.id.clone())).collect(),
            blind: report.blind.clone(),
            sweeping: report.relist.sweeping,
            stream: report.stream.state.clone(),
            kernel: report.kernel.state.clone(),
            runtime: report.runtime.version.clone(),
            guard: (
                report.guard.mode,
                [
                    report.guard.unresponsive,
                    report.guard.guarding,
                    report.guard.runtime_silent,
                    report.guard.limit_reached,
                ],
            ),
            finding: report.finding.clone(),
            warnings: report.warnings.clone(),
        }
    }
}

impl Counters {
    fn of(guard: &GuardStatus) -> Self {
        let calls = [
            &guard.answers,
            &guard.given_up,
            &guard.completed,
            &guard.refused,
        ];
        Self {
            calls: calls.map(Clone::clone),
            differences: guard.differences,
        }
    }
}

impl Budget {
    fn refill(&mut self, now: Instant) {
        while self.left < BURST && now >= self.refilled + REFILL {
            self.refilled += REFILL;
            self.left += 1;
        }
        if self.left == BURST {
            self.refilled = now;
        }
    }

    fn take(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}
