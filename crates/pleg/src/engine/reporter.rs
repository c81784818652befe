//! When a change of health is reported: a worse state at once, culprits that are found at nearly
//! the same time together, and a better state once it lasts.
//!
//! ```text
//!   Coverage --assess--> verdict --worse--> reported
//!                           \--better--> reported, after a hold that doubles with each relapse
//! ```
//!
//! Each step compares only keys. Sentences are made when something is reported.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::limits::{FIRST_HOLD, MAX_BLAME_HOLD, RELAPSE_WITHIN, REPORTED_TOGETHER_WITHIN};
use crate::model::id::{Id, PodUid};
use crate::model::wall_time::Moment;
use crate::out::coverage::{Coverage, Failing, Lists, Statuses};
use crate::out::health::{
    Blind, FailingCall, HealthReport, HealthState, Reason, StuckCall, assess, message,
};
use crate::runtime::Rpc;
use pleg_text::GoDuration;

/// Health as it was last reported.
#[derive(Debug)]
pub(crate) struct Reporter {
    threshold: Duration,
    reported: Key,
    reported_at: Instant,
    /// When the reported state and reason began.
    since: Moment,
    /// When a state or reason that is better than the reported one began.
    better_since: Option<Instant>,
    /// The culprits of earlier reports, and when the report of each one ended.
    earlier: BTreeMap<StuckKey, Instant>,
    /// How long an improvement must last before it is reported. Zero unless health flaps.
    hold: Duration,
    /// When an improvement was last reported.
    improved: Option<Instant>,
    /// When a held change is to be reported.
    due: Option<Instant>,
}

/// A stuck call, without its age.
type StuckKey = (Rpc, Option<Id>, Option<PodUid>);

/// What a health record is about, without ages and sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    state: HealthState,
    reason: Reason,
    stuck: Vec<StuckKey>,
    failing: Vec<FailingKey>,
    blind: Vec<Blind>,
}

/// A failing call, and what makes it worth a new report.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailingKey {
    call: Rpc,
    id: Id,
    is_withheld: bool,
    /// Whether the pod as a whole is unobserved; the call only identifies it.
    is_of_pod: bool,
}

impl FailingKey {
    fn of(failing: &Failing) -> Self {
        Self {
            call: failing.call,
            id: failing.id.clone(),
            is_withheld: failing.error.is_withheld(),
            is_of_pod: failing.error.is_slowness(),
        }
    }
}

/// What is still to be observed before an improvement may be reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservationProgress {
    /// No pass is open, and no pod is still to be inspected.
    pub(crate) is_settled: bool,
    /// A pod is unobserved as of the last pass.
    pub(crate) has_unobserved: bool,
    /// An earlier pass, or what is new since the last lists, is not covered by a completed pass
    /// yet. Until it is, coverage may lack pods that differ.
    pub(crate) needs_pass: bool,
    /// Since the last lists, pods were observed only by sweeps.
    pub(crate) needs_lists: bool,
    /// When the last successful call about pods was sent.
    pub(crate) answered: Option<Instant>,
    /// No call is answered at the moment: the runtime may be unresponsive.
    pub(crate) has_stalled: bool,
}

impl Key {
    fn of(coverage: &Coverage, verdict: (HealthState, Reason), now: Instant) -> Self {
        let stuck = coverage.stuck.iter().map(|call| {
            let uid = call.about.pod.as_ref().map(|pod| pod.uid.clone());
            (call.about.call, call.about.id.clone(), uid)
        });
        // A call that has just failed may succeed when it is retried.
        let failing = coverage.failing.iter();
        let failing = failing.filter(|call| now >= call.counts_at());
        Self {
            state: verdict.0,
            reason: verdict.1,
            stuck: stuck.collect(),
            failing: failing.map(FailingKey::of).collect(),
            blind: coverage.blind.clone(),
        }
    }

    /// Whether single calls are the reason.
    fn has_call_reason(&self) -> bool {
        let reason = self.reason;
        reason.blames() || reason == Reason::InspectionsFail
    }

    /// How bad it is. A worse key is reported at once.
    fn severity(&self) -> (HealthState, u8) {
        (self.state, self.reason.severity())
    }
}

impl Reporter {
    pub(crate) fn new(threshold: Duration, now: Moment) -> Self {
        let verdict = (HealthState::Starting, Reason::Starting);
        Self {
            threshold,
            reported: Key::of(&Coverage::none(now.instant), verdict, now.instant),
            reported_at: now.instant,
            since: now,
            better_since: None,
            earlier: BTreeMap::new(),
            hold: Duration::ZERO,
            improved: None,
            due: None,
        }
    }

    /// Compares coverage with the last report. Returns the report to publish, if any. No
    /// improvement is reported while `progress` shows that its coverage is incomplete.
    pub(crate) fn review(
        &mut self,
        coverage: &Coverage,
        progress: ObservationProgress,
        now: Moment,
    ) -> Option<HealthReport> {
        let instant = now.instant;
        let verdict = match assess(coverage, instant, self.threshold) {
            // After a stuck or failing call, a failing call is reported without delay.
            (HealthState::Healthy, _)
                if self.reported.has_call_reason() && !coverage.failing.is_empty() =>
            {
                (HealthState::Degraded, Reason::InspectionsFail)
            }
            verdict => verdict,
        };
        let key = Key::of(coverage, verdict, instant);
        let better = key.severity() < self.reported.severity();
        if !better {
            self.better_since = None;
        }
        if key == self.reported {
            self.due = None;
            return None;
        }
        // While passes or lists are missing, the node cannot be reported as healthy.
        if key.state == HealthState::Healthy
            && self.reported.state != HealthState::Healthy
            && match self.reported.reason.blames() {
                true => progress.needs_lists,
                false => progress.needs_pass,
            }
        {
            return None;
        }
        if better {
            let since = *self.better_since.get_or_insert(instant);
            let hold = self.hold_of(&key, progress.answered >= Some(since));
            let as_of = coverage.as_of().map(|observed| observed.instant);
            let is_observed_since = |time| as_of >= Some(time);
            let has_lasted = instant >= since + hold;
            let may_be_unresponsive = key.state == HealthState::Healthy && progress.has_stalled;
            self.due = (!has_lasted).then(|| since + hold);
            let is_incomplete = match (self.reported.state, self.reported.reason) {
                (HealthState::Starting | HealthState::Unhealthy, _) => false,
                // The runtime answers again. That some calls do not succeed is a separate problem.
                (reported, reason) if reason.answers_no_call() && key.state == reported => false,
                // On a node that changes all the time, one pass follows the other, and some pods
                // are always being inspected.
                (reported, reason) if reason.blames() => {
                    key.state != reported && progress.has_unobserved
                }
                _ => !progress.is_settled && (progress.has_unobserved || !is_observed_since(since)),
            };
            if !has_lasted || is_incomplete || may_be_unresponsive {
                return None;
            }
            self.improved = Some(instant);
        } else if (key.state, key.reason) == (self.reported.state, self.reported.reason) {
            let due = self.details_due(&key, instant);
            if instant < due {
                self.due = Some(due);
                return None;
            }
        } else {
            // It is worse, or has another reason. If an improvement was reported recently, health
            // flaps.
            self.hold = match self.improved {
                Some(improved) if instant < improved + RELAPSE_WITHIN => {
                    (self.hold * 2).clamp(FIRST_HOLD, RELAPSE_WITHIN)
                }
                _ => Duration::ZERO,
            };
        }
        if (key.state, key.reason) != (self.reported.state, self.reported.reason) {
            self.since = now;
        }
        self.due = None;
        self.better_since = None;
        self.reported_at = instant;
        let before = std::mem::replace(&mut self.reported, key);
        self.earlier
            .retain(|_, until| instant < *until + FIRST_HOLD);
        let ended = before.stuck.into_iter();
        let ended = ended.filter(|call| !self.reported.stuck.contains(call));
        self.earlier.extend(ended.map(|call| (call, instant)));
        Some(self.report(coverage, now))
    }

    /// When a report with the key `newer` is due, which has the same state and reason as the last
    /// report.
    fn details_due(&self, newer: &Key, now: Instant) -> Instant {
        let reported = &self.reported.stuck;
        // A call that was reported a short time ago, and was not stuck in between, is slow each
        // time.
        let is_new = |call: &StuckKey| {
            let until = self.earlier.get(call);
            until.is_none_or(|until| now >= *until + FIRST_HOLD)
        };
        let mut added = newer
            .stuck
            .iter()
            .filter(|call| !reported.contains(call))
            .peekable();
        let is_fewer = added.peek().is_none() && newer.stuck != *reported;
        if is_fewer || added.any(is_new) {
            self.reported_at + REPORTED_TOGETHER_WITHIN
        } else {
            self.reported_at + FIRST_HOLD
        }
    }

    /// How long this improvement must last. `is_answered` is whether a call about pods that was
    /// sent since the improvement began has been answered.
    fn hold_of(&self, better: &Key, is_answered: bool) -> Duration {
        let is_same_state = better.state == self.reported.state;
        let longest = match (self.reported.state, self.reported.reason) {
            // No pod was observed for minutes, and now one is.
            (HealthState::Unhealthy, _) if !is_same_state => Duration::ZERO,
            // Between two slow calls about one pod there is no problem.
            (_, Reason::StatusSlow) if !is_same_state => FIRST_HOLD,
            _ if !is_same_state => MAX_BLAME_HOLD,
            (_, reason) if reason.blames() => MAX_BLAME_HOLD,
            // A runtime that is starting or stopping may answer lists with errors. These alone do
            // not show that it is back.
            (_, Reason::RuntimeUnreachable)
                if better.reason != Reason::ListFails || is_answered =>
            {
                MAX_BLAME_HOLD
            }
            _ => RELAPSE_WITHIN,
        };
        // Often the other problems end a moment later.
        let least = if is_same_state {
            REPORTED_TOGETHER_WITHIN
        } else {
            Duration::ZERO
        };
        self.hold.min(longest).max(least)
    }

    /// The reported health, with the current details.
    pub(crate) fn report(&self, coverage: &Coverage, now: Moment) -> HealthReport {
        let (state, reason) = (self.reported.state, self.reported.reason);
        let stuck = coverage.stuck.iter();
        let failing = coverage.failing.iter();
        let is_clear = !self.has_problem(coverage)
            && coverage.blind.is_empty()
            && coverage.waiting_for_room == 0
            && coverage.uninspected == 0
            && coverage.statuses == Statuses::InTime;
        HealthReport {
            time: now.wall,
            state,
            reason,
            message: match self.better_since {
                Some(since) if is_clear && state == HealthState::Degraded => {
                    match (now.instant - since).as_secs() {
                        0 => "recovering: no problem found".to_owned(),
                        seconds => {
                            let lasts = GoDuration(Duration::from_secs(seconds));
                            format!("recovering: no problem found for {lasts}")
                        }
                    }
                }
                better_since => {
                    // The report of an improvement is held, but the sentence describes the present.
                    let reason = match better_since {
                        Some(_) => assess(coverage, now.instant, self.threshold).1,
                        None => reason,
                    };
                    message(coverage, state, reason, now.instant, self.threshold)
                }
            },
            stuck: stuck
                .map(|call| StuckCall::new(call, now.instant))
                .collect(),
            failing: failing
                .map(|call| FailingCall::new(call, now.instant))
                .collect(),
            blind: coverage.blind.clone(),
        }
    }

    /// When the reported state and reason began.
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    /// When a review is next due if no input arrives.
    pub(crate) fn alarm(&self, coverage: &Coverage, now: Instant) -> Option<Instant> {
        let as_of = coverage.as_of().map(|observed| observed.instant);
        // The verdict changes just after the threshold, not at it.
        let changes = as_of.unwrap_or(coverage.started) + self.threshold + Duration::from_millis(1);
        let fails = coverage.failing.iter().map(|failing| failing.counts_at());
        let due = self.due.into_iter().chain([changes]).chain(fails);
        due.filter(|time| *time > now).min()
    }

    /// Whether there is any problem. A subscription that begins before the first pass then receives
    /// a health record.
    pub(crate) fn has_problem(&self, coverage: &Coverage) -> bool {
        !coverage.stuck.is_empty() || !coverage.failing.is_empty() || coverage.lists != Lists::Good
    }
}
