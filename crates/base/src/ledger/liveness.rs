//! Whether the runtime answers at all, and which call would tell.

use std::time::Duration;

use cri::Rpc;
use tokio::time::Instant;

use super::limits::{
    LATE, LONGEST_LIST, LONGEST_STATUS, SIGN_OF_LIFE, SLOW, STUCK_FACTOR, SUSPECT, WITNESSES,
};
use super::{Entry, Ledger, STATUS_CALLS};

impl Ledger {
    /// Whether a status call has not been answered for as long as a prompt one never takes.
    pub fn is_any_late(&self, now: Instant) -> bool {
        let mut outstanding = self.outstanding.iter();
        outstanding.any(|((_, id), entry)| id.is_some() && now >= entry.waits + SUSPECT)
    }

    /// Whether a status call is late although nobody can be blamed for it.
    pub fn is_status_late(&self, now: Instant) -> bool {
        let mut waiting = self.outstanding.iter();
        waiting.any(|((_, id), entry)| {
            id.is_some() && entry.stuck.is_none() && now >= entry.waits + LATE
        })
    }

    /// Whether most of the pods that were asked for lately, and several, waited long for an answer,
    /// or still wait: one pod alone may be to blame for that itself.
    pub fn is_slow_for_most(&self, now: Instant) -> bool {
        let mut pods = self.evidence.slow_pods(SUSPECT);
        for entry in self.outstanding.values() {
            if let Some(pod) = &entry.about.pod
                && !entry.is_alone()
                && now >= entry.waits + SUSPECT
            {
                pods.insert(&pod.uid, true);
            }
        }
        let slow = pods.values().filter(|is_slow| **is_slow).count();
        slow >= WITNESSES && slow * 2 > pods.len()
    }

    /// Since when nothing at all was answered of what was asked, and no answer has come, if anything
    /// was asked.
    pub fn silent_since(&self) -> Option<Instant> {
        let waiting = self.made().map(|(_, entry, _)| entry);
        let unanswered =
            |entry: &&Entry| entry.stuck.is_none() && !self.evidence.any_since(entry.since);
        let since = waiting.filter(unanswered).map(|entry| entry.waits).min()?;
        Some(since.max(self.answered))
    }

    /// When something was last answered, or asked while nothing else was outstanding.
    pub fn last_answer(&self) -> Instant {
        self.answered
    }

    /// After how long without an answer a runtime is silent, and not only slow: `least`, or twice the
    /// time that the last answer took.
    pub fn silent_after(&self, least: Duration) -> Duration {
        (self.took * 2).min(LONGEST_STATUS).max(least)
    }

    /// Whether any call was answered that was made at `time` or later.
    pub fn has_answered_since(&self, time: Instant) -> bool {
        self.evidence.any_since(time)
    }

    /// When the last call was made whose answer told of pods.
    pub fn last_answer_of_pods(&self) -> Option<Instant> {
        self.evidence.last_of_pods()
    }

    /// When a call of this kind was made last, as far as that is remembered.
    pub(super) fn last_asked(&self, kind: Rpc) -> Option<Instant> {
        let waiting = self.made().filter(|((call, _), ..)| *call == kind);
        let waiting = waiting.map(|(_, _, made)| made).max();
        waiting.max(self.evidence.last_of_kind(kind))
    }

    /// A kind of status call of which one is silent while few others were asked since, or none
    /// lately.
    pub fn wants_witness(&self, now: Instant) -> Option<Rpc> {
        // Whom nobody can ask is no witness, nor who fails: another would be wanted at once.
        if self.is_away || self.failed.is_some_and(|failed| now < failed + SLOW) {
            return None;
        }
        let suspects = self.outstanding.iter().filter(|((_, id), entry)| {
            // A runtime that answers nothing at all answers no witness either.
            let answers = self.evidence.good_since(entry.since);
            id.is_some() && entry.stuck.is_none() && answers && now >= entry.waits + SUSPECT
        });
        let mut alone = suspects.filter(|((call, _), entry)| {
            let later = entry.waits + SUSPECT / 2;
            let others = self.made().filter(|((other, _), ..)| other == call);
            let asked = others.filter(|(_, _, made)| *made >= later).count();
            let few = asked + self.evidence.answers_since(*call, later) < WITNESSES;
            few || self
                .last_asked(*call)
                .is_none_or(|last| now >= expires_as_witness_at(entry, last))
        });
        alone.next().map(|((call, _), _)| *call)
    }

    /// Both kinds of status calls, the one that was made longer ago first, if it is time for one more
    /// that may be a sign of life: all calls that are outstanding may hang, and the runtime live.
    pub fn wants_sign_of_life(&self, now: Instant) -> Option<[Rpc; 2]> {
        if self.is_away || now < self.sign_of_life_at()? {
            return None;
        }
        let mut kinds = STATUS_CALLS;
        kinds.sort_by_key(|kind| self.last_asked(*kind));
        Some(kinds)
    }

    /// When that is, while `Version` hangs, which is asked for otherwise.
    pub(super) fn sign_of_life_at(&self) -> Option<Instant> {
        self.node_call(Rpc::Version)?;
        let last = STATUS_CALLS.map(|kind| self.last_asked(kind));
        let last = last.into_iter().flatten().max()?;
        let silent = last.saturating_duration_since(self.answered);
        let pause = match self.has_room_for_witness() {
            true => silent.clamp(SIGN_OF_LIFE, LONGEST_STATUS),
            false if self.made().count() < self.most * STUCK_FACTOR => LONGEST_LIST,
            false => return None,
        };
        Some(self.answered.max(last) + pause)
    }
}

/// When a call that was made then is no witness against this one any more: that must have been made
/// in the second half of its time.
pub(super) fn expires_as_witness_at(entry: &Entry, made: Instant) -> Instant {
    made + made.saturating_duration_since(entry.waits)
}
