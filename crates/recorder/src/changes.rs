//! Decides which status reports are recorded: one a minute, and each with a change that matters to
//! a reader. A greater age of a call or of a report is not such a change.
//!
//! ```text
//!   StatusReport, as it is made --> Essence: what matters of it --> did it change? --> record
//!                                                                    ^
//!                                 at most one a second, but a change of health at once;
//!                                 and within a budget
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use pleg::out::health::{Blind, HealthState, Reason};
use pleg::out::status_report::{Finding, GuardMode, GuardStatus, StatusReport};
use pleg::runtime::Rpc;
use tokio::time::Instant;

/// The interval at which a status without a change is recorded.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// The minimum interval between two recorded statuses.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The minimum interval between two recorded changes of the guard's counters, which change every
/// second while it guards.
const COUNTERS_INTERVAL: Duration = Duration::from_secs(10);

/// The number of changes that are recorded in quick succession, and the interval after which one
/// more is allowed: a runtime that flaps for hours would push everything else out of the recording.
const MAX_BURST: u32 = 60;
const REFILL_INTERVAL: Duration = Duration::from_secs(5);

/// A call that has been outstanding for this long matters to a reader.
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
    essence: Essence,
    counters: Counters,
}

/// The part of a status that matters to a reader.
#[derive(Debug, PartialEq)]
struct Essence {
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

/// What the guard has counted: calls by their result, and differences.
type Counters = ([BTreeMap<Rpc, u64>; 4], u64);

/// How many more changes may be recorded.
#[derive(Debug)]
struct Budget {
    left: u32,
    /// The time up to which the budget was refilled.
    refilled: Instant,
}

impl Changes {
    /// Creates a state in which nothing was recorded.
    pub fn new(now: Instant) -> Self {
        Self {
            last: None,
            budget: Budget {
                left: MAX_BURST,
                refilled: now,
            },
        }
    }

    /// Whether this report is to be recorded. If so, it counts as recorded.
    pub fn is_due(&mut self, report: &StatusReport, now: Instant) -> bool {
        self.budget.refill(now);
        let essence = Essence::of(report);
        let counters = counters(&report.guard);
        let is_due = match &self.last {
            None => true,
            // A reader stops at a change of health: the status shown there must not be a mixture of
            // before and after.
            Some(last) if now < last.at + MIN_INTERVAL && essence.health == last.essence.health => {
                false
            }
            Some(last) if now >= last.at + HEARTBEAT => true,
            Some(last) if essence != last.essence => self.budget.take(),
            Some(last) => counters != last.counters && now >= last.at + COUNTERS_INTERVAL,
        };
        if is_due {
            self.last = Some(Last {
                at: now,
                essence,
                counters,
            });
        }
        is_due
    }
}

impl Essence {
    fn of(report: &StatusReport) -> Self {
        let (kubelet, guard) = (&report.kubelet_view, &report.guard);
        let stuck = report.stuck.iter();
        let failing = report.failing.iter();
        let in_flight = report.in_flight.iter();
        let overdue = in_flight.filter(|call| call.age_seconds >= OVERDUE_SECONDS);
        Self {
            health: (report.health.state, report.health.reason),
            kubelet: (kubelet.ready, kubelet.not_ready_in_seconds.is_some()),
            stuck: stuck.map(|call| (call.call, call.id.clone())).collect(),
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
                guard.mode,
                [
                    guard.unresponsive,
                    guard.guarding,
                    guard.runtime_silent,
                    guard.limit_reached,
                ],
            ),
            finding: report.finding.clone(),
            warnings: report.warnings.clone(),
        }
    }
}

fn counters(guard: &GuardStatus) -> Counters {
    let calls = [
        &guard.answers,
        &guard.given_up,
        &guard.completed,
        &guard.refused,
    ];
    (calls.map(Clone::clone), guard.differences)
}

impl Budget {
    fn refill(&mut self, now: Instant) {
        while self.left < MAX_BURST && now >= self.refilled + REFILL_INTERVAL {
            self.refilled += REFILL_INTERVAL;
            self.left += 1;
        }
        if self.left == MAX_BURST {
            self.refilled = now;
        }
    }

    fn take(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}
