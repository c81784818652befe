//! What is told of our health, and when: a change for the worse at once, names together with
//! those that come in the next moment, and a change for the better once it lasts.
//!
//! ```text
//!   Coverage --assess--> verdict --worse--> told
//!                           \--better--> told, after a hold that doubles with each relapse
//! ```
//!
//! Keys are compared on every turn; sentences are made only when something is told.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::{FIRST_HOLD, LONGEST_BLAME, RELAPSE, TOGETHER};
use crate::model::id::{Id, PodUid};
use crate::model::wall_time::Moment;
use crate::out::coverage::{Coverage, Failing, Lists, Statuses};
use crate::out::health::{
    Blind, FailingCall, HealthReport, HealthState, Reason, StuckCall, assess, message,
};
use crate::runtime::Rpc;
use pleg_text::GoDuration;

/// Our health as it was told last.
#[derive(Debug)]
pub(crate) struct Reporter {
    threshold: Duration,
    told: Key,
    told_at: Instant,
    /// Since when state and reason are as they were told.
    since: Moment,
    /// Something better than what was told has been so since then.
    better_since: Option<Instant>,
    /// Somebody who was named is not any more since then.
    fewer_since: Option<Instant>,
    /// For how long an improvement must last before it is reported: not at all, until health flaps.
    hold: Duration,
    /// When an improvement was last reported.
    improved: Option<Instant>,
    /// When names are to be told that are not told yet.
    due: Option<Instant>,
}

/// What a record of health is about, without ages and sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    state: HealthState,
    reason: Reason,
    stuck: Vec<(Rpc, Option<Id>, Option<PodUid>)>,
    failing: Vec<FailingKey>,
    blind: Vec<Blind>,
}

/// A call that fails, and what for, as far as it is told anew.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailingKey {
    call: Rpc,
    id: Id,
    is_withheld: bool,
    /// The pod as a whole is not seen, and the call only tells which.
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

/// Whether what was seen is all that there is to see for now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// No round is under way, and nobody is still to be inspected.
    pub(crate) is_settled: bool,
    /// Somebody is not seen as of the last look.
    pub(crate) has_missed: bool,
    /// A round, or what is new since the last lists, is covered by no look yet: what differs there
    /// may be told by nothing else.
    pub(crate) owes_a_look: bool,
    /// Only a sweep has looked since the last lists.
    pub(crate) owes_lists: bool,
    /// When the last call was made whose answer told of pods.
    pub(crate) answered: Option<Instant>,
}

/// Who is blamed, beside who was.
enum Names {
    New,
    Fewer,
    Same,
}

impl Key {
    fn of(coverage: &Coverage, verdict: (HealthState, Reason), now: Instant) -> Self {
        let stuck = coverage.stuck.iter().map(|call| {
            let uid = call.about.pod.as_ref().map(|pod| pod.uid.clone());
            (call.about.call, call.about.id.clone(), uid)
        });
        // What fails only now may be good the next time that it is tried.
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

    /// Who is blamed by a newer one.
    fn against(&self, newer: &Self) -> Names {
        if newer.stuck == self.stuck {
            Names::Same
        } else if newer.stuck.iter().all(|call| self.stuck.contains(call)) {
            Names::Fewer
        } else {
            Names::New
        }
    }

    /// Whether single calls are to blame.
    fn is_of_calls(&self) -> bool {
        let reason = self.reason;
        reason.blames() || reason == Reason::InspectionsFail
    }

    /// How bad it is: what is worse is told at once.
    fn severity(&self) -> (HealthState, u8) {
        (self.state, self.reason.severity())
    }
}

impl Reporter {
    pub(crate) fn new(threshold: Duration, now: Moment) -> Self {
        let verdict = (HealthState::Starting, Reason::Starting);
        Self {
            threshold,
            told: Key::of(&Coverage::none(now.instant), verdict, now.instant),
            told_at: now.instant,
            since: now,
            better_since: None,
            fewer_since: None,
            hold: Duration::ZERO,
            improved: None,
            due: None,
        }
    }

    /// Looks at what was seen; gives what is to be told. While a round is under way nothing
    /// is called better: what happened meanwhile is told first.
    pub(crate) fn review(
        &mut self,
        coverage: &Coverage,
        seen: Seen,
        now: Moment,
    ) -> Option<HealthReport> {
        let instant = now.instant;
        let verdict = match assess(coverage, instant, self.threshold) {
            // What fails is told at once where it has hung, or something has failed, before.
            (HealthState::Healthy, _)
                if self.told.is_of_calls() && !coverage.failing.is_empty() =>
            {
                (HealthState::Degraded, Reason::InspectionsFail)
            }
            verdict => verdict,
        };
        let key = Key::of(coverage, verdict, instant);
        let better = key.severity() < self.told.severity();
        if !better {
            self.better_since = None;
        }
        if key == self.told {
            self.due = None;
            self.fewer_since = None;
            return None;
        }
        // Whatever was told: of what the lists have just shown nobody says that all is well.
        if key.state == HealthState::Healthy
            && self.told.state != HealthState::Healthy
            && match self.told.reason.blames() {
                true => seen.owes_lists,
                false => seen.owes_a_look,
            }
        {
            return None;
        }
        if better {
            let since = *self.better_since.get_or_insert(instant);
            let hold = self.hold_of(&key, seen.answered >= Some(since));
            let looked = coverage.as_of().map(|seen| seen.instant);
            let is_seen_since = |time| looked >= Some(time);
            let lasted = instant >= since + hold;
            self.due = (!lasted).then(|| since + hold);
            let waits = match (self.told.state, self.told.reason) {
                (HealthState::Starting | HealthState::Unhealthy, _) => false,
                // It answers again: that some do not is another trouble.
                (told, Reason::RuntimeSilent | Reason::RuntimeUnreachable) if key.state == told => {
                    false
                }
                // Where pods change all the time one round follows the other, and some are being
                // inspected whenever one looks.
                (told, reason) if reason.blames() => key.state != told && seen.has_missed,
                _ => !seen.is_settled && (seen.has_missed || !is_seen_since(since)),
            };
            if !lasted || waits {
                return None;
            }
            self.improved = Some(instant);
        } else if (key.state, key.reason) == (self.told.state, self.told.reason) {
            let due = match self.told.against(&key) {
                Names::New => self.told_at + TOGETHER,
                // Often the beginning of the end of it all.
                Names::Fewer => *self.fewer_since.get_or_insert(instant) + TOGETHER,
                Names::Same => self.told_at + FIRST_HOLD,
            };
            if instant < due {
                self.due = Some(due);
                return None;
            }
        } else {
            // Something worse: after an improvement that was reported just now, health flaps.
            self.hold = match self.improved {
                Some(improved) if instant < improved + RELAPSE => {
                    (self.hold * 2).clamp(FIRST_HOLD, RELAPSE)
                }
                _ => Duration::ZERO,
            };
        }
        if (key.state, key.reason) != (self.told.state, self.told.reason) {
            self.since = now;
        }
        self.due = None;
        self.better_since = None;
        self.fewer_since = None;
        self.told_at = instant;
        self.told = key;
        Some(self.report(coverage, now))
    }

    /// For how long this improvement must have lasted. `answers` says whether the runtime has answered
    /// about pods since it began.
    fn hold_of(&self, better: &Key, answers: bool) -> Duration {
        let is_same_state = better.state == self.told.state;
        let longest = match (self.told.state, self.told.reason) {
            // Nobody was seen for minutes, and now somebody is.
            (HealthState::Unhealthy, _) if !is_same_state => Duration::ZERO,
            _ if !is_same_state => LONGEST_BLAME,
            (_, reason) if reason.blames() => LONGEST_BLAME,
            // But a daemon that is going or coming refuses everything in between.
            (_, Reason::RuntimeUnreachable) if better.reason != Reason::ListFails || answers => {
                LONGEST_BLAME
            }
            _ => RELAPSE,
        };
        // The end of one trouble is often that of all of it.
        let least = if is_same_state {
            TOGETHER
        } else {
            Duration::ZERO
        };
        self.hold.min(longest).max(least)
    }

    /// The health that was told, with what is known of it now.
    pub(crate) fn report(&self, coverage: &Coverage, now: Moment) -> HealthReport {
        let (state, reason) = (self.told.state, self.told.reason);
        let stuck = coverage.stuck.iter();
        let failing = coverage.failing.iter();
        let is_clear = !self.is_trouble(coverage)
            && coverage.blind.is_empty()
            && coverage.unasked == 0
            && coverage.uninspected == 0
            && coverage.statuses == Statuses::InTime;
        HealthReport {
            time: now.wall,
            state,
            reason,
            message: match self.better_since {
                Some(since) if is_clear && state == HealthState::Degraded => {
                    let since = Duration::from_secs((now.instant - since).as_secs());
                    format!("recovering: no problem found for {}", GoDuration(since))
                }
                // What is held back is the verdict; the sentence is of now.
                Some(_) => {
                    let (_, reason) = assess(coverage, now.instant, self.threshold);
                    message(coverage, state, reason, now.instant, self.threshold)
                }
                None => message(coverage, state, reason, now.instant, self.threshold),
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

    /// Since when state and reason are as they were told.
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    /// When there is something to review although nothing happens.
    pub(crate) fn alarm(&self, coverage: &Coverage, now: Instant) -> Option<Instant> {
        let seen = coverage.as_of().map(|seen| seen.instant);
        // The verdict turns just after the threshold, not at it.
        let turns = seen.unwrap_or(coverage.started) + self.threshold + Duration::from_millis(1);
        let fails = coverage.failing.iter();
        let fails = fails.map(|failing| failing.counts_at());
        let due = self.due.into_iter().chain([turns]).chain(fails);
        due.filter(|time| *time > now).min()
    }

    /// Whether anything at all is wrong, so that a sick node says so to whoever comes.
    pub(crate) fn is_trouble(&self, coverage: &Coverage) -> bool {
        !coverage.stuck.is_empty() || !coverage.failing.is_empty() || coverage.lists != Lists::Good
    }
}
