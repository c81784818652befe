//! Whether the runtime answers at all, and which further call would show it.

use std::time::Duration;

use cri::Rpc;
use tokio::time::Instant;

use super::limits::{
    MAX_LIST_OVERDUE, MAX_STATUS_OVERDUE, OVERDUE_AT_LATEST, SLOW_AFTER, STUCK_AFTER_LATER_ANSWERS,
    STUCK_FACTOR, SUSPECT_AFTER,
};
use super::{Ledger, STATUS_CALLS};

impl Ledger {
    /// Whether a status call has been outstanding for at least [`SUSPECT_AFTER`].
    pub fn has_suspect_status(&self, now: Instant) -> bool {
        let mut statuses = self.statuses();
        statuses.any(|(_, entry)| entry.age(now) >= SUSPECT_AFTER)
    }

    /// Whether a status call has been outstanding for at least [`OVERDUE_AT_LATEST`] without being stuck: it is
    /// overdue, and no container is the culprit.
    pub fn has_overdue_status(&self, now: Instant) -> bool {
        let mut statuses = self.statuses();
        statuses.any(|(_, entry)| entry.stuck.is_none() && entry.age(now) >= OVERDUE_AT_LATEST)
    }

    /// Whether most of the pods with recent calls, and at least three pods, got a slow answer or are
    /// still waiting for one. A single pod may be slow for a reason of its own.
    pub fn is_slow_for_most(&self, now: Instant) -> bool {
        let mut pods = self.evidence.slow_pods(SUSPECT_AFTER);
        for entry in self.outstanding.values() {
            if let Some(pod) = &entry.about.pod
                && !entry.is_outlier()
                && entry.age(now) >= SUSPECT_AFTER
            {
                pods.insert(&pod.uid, true);
            }
        }
        let slow = pods.values().filter(|is_slow| **is_slow).count();
        slow >= STUCK_AFTER_LATER_ANSWERS && slow * 2 > pods.len()
    }

    /// The time since which the runtime has answered nothing although a call is outstanding. `None` if no
    /// outstanding call shows this: each one is stuck, or a call that was sent later has been answered.
    pub fn unresponsive_since(&self) -> Option<Instant> {
        let waiting = self.sent().filter(|(_, entry, _)| {
            entry.stuck.is_none() && !self.evidence.has_answered_since(entry.since)
        });
        let since = waiting.map(|(_, _, sent)| sent).min()?;
        Some(since.max(self.last_answer))
    }

    /// When a call was last answered, or was sent while no other call was outstanding.
    pub fn last_answer(&self) -> Instant {
        self.last_answer
    }

    /// How long the runtime must have answered nothing before it is unresponsive, and not only slow:
    /// twice as long as the last answer took, at most [`MAX_STATUS_OVERDUE`], but at least `least`.
    pub fn unresponsive_after(&self, least: Duration) -> Duration {
        (self.last_took * 2).min(MAX_STATUS_OVERDUE).max(least)
    }

    /// Whether a call that was sent at `time` or later has been answered.
    pub fn has_answered_since(&self, time: Instant) -> bool {
        self.evidence.has_answered_since(time)
    }

    /// When the last successfully answered call other than `Version` was sent.
    pub fn last_answered_call(&self) -> Option<Instant> {
        self.evidence.last_of_pods()
    }

    /// When the newest call of this kind was sent, among the outstanding calls and the remembered
    /// successful ones.
    pub(super) fn last_sent(&self, kind: Rpc) -> Option<Instant> {
        let waiting = self.sent().filter(|((call, _), ..)| *call == kind);
        let waiting = waiting.map(|(_, _, sent)| sent).max();
        waiting.max(self.evidence.last_of_kind(kind))
    }

    /// The kind of a status call that needs a witness: the call is suspect, and few calls of its kind
    /// were sent later, or none recently.
    pub fn wants_witness(&self, now: Instant) -> Option<Rpc> {
        // Without a connection no witness can be sent. After a witness failed, another one would be wanted at
        // once: it waits for `SLOW_AFTER`.
        let has_just_failed = |failed| now < failed + SLOW_AFTER;
        if self.is_unreachable || self.last_failure.is_some_and(has_just_failed) {
            return None;
        }
        let mut without_witness = self.statuses().filter(|(call, entry)| {
            // A runtime that answers nothing does not answer a witness either.
            let is_answering = self.evidence.has_success_since(entry.since);
            if entry.stuck.is_some() || !is_answering || entry.age(now) < SUSPECT_AFTER {
                return false;
            }
            let since = entry.awaited_since(now);
            let later = since + SUSPECT_AFTER / 2;
            let others = self.sent().filter(|((other, _), ..)| other == call);
            let sent_later = others.filter(|(_, _, sent)| *sent >= later).count();
            let answered_later = self.evidence.answers_since(*call, later);
            let has_expired = |last| now >= expires_as_witness_at(since, last);
            sent_later + answered_later < STUCK_AFTER_LATER_ANSWERS
                || self.last_sent(*call).is_none_or(has_expired)
        });
        without_witness.next().map(|(call, _)| call)
    }

    /// If a further status call is due as a sign of life, the kinds to choose from, the one that was
    /// sent longer ago first. All outstanding calls may be stuck while the runtime answers others.
    pub fn wants_sign_of_life(&self, now: Instant) -> Option<[Rpc; 2]> {
        if self.is_unreachable || now < self.sign_of_life_at()? {
            return None;
        }
        let mut kinds = STATUS_CALLS;
        kinds.sort_by_key(|kind| self.last_sent(*kind));
        Some(kinds)
    }

    /// When the next call is due as a sign of life. `None` unless `Version` is outstanding:
    /// otherwise `Version` is sent as a heartbeat.
    pub(super) fn sign_of_life_at(&self) -> Option<Instant> {
        self.node_call(Rpc::Version)?;
        let last = STATUS_CALLS.map(|kind| self.last_sent(kind));
        let last = last.into_iter().flatten().max()?;
        let without_answer = last.saturating_duration_since(self.last_answer);
        let pause = match self.has_room_for_witness() {
            // `Version` is suspect after a second, and gets one more.
            true => without_answer.clamp(SUSPECT_AFTER * 2, MAX_STATUS_OVERDUE),
            false if self.sent().count() < self.window.max() * STUCK_FACTOR => MAX_LIST_OVERDUE,
            false => return None,
        };
        Some(self.last_answer.max(last) + pause)
    }
}

/// When a call that was sent at `sent` ceases to be a witness against a call whose answer has been
/// awaited since `awaited_since`. A witness must have been sent in the second half of that wait.
pub(super) fn expires_as_witness_at(awaited_since: Instant, sent: Instant) -> Instant {
    sent + sent.saturating_duration_since(awaited_since)
}

#[cfg(test)]
mod tests {
    use super::super::Places;
    use super::*;
    use crate::About;

    #[test]
    fn a_cancelled_call_is_no_reason_to_send_no_witness_but_a_lost_connection_is() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let key = |id: &str| (Rpc::ContainerStatus, Some(id.into()));
        let mut ledger = Ledger::new(Places::default(), start);
        let begin = |ledger: &mut Ledger, id: &str, now| {
            let about = About {
                id: Some(id.into()),
                ..About::node(Rpc::ContainerStatus)
            };
            ledger.begin(about, now);
        };
        begin(&mut ledger, "hangs", at(0));
        begin(&mut ledger, "other", at(10));
        ledger.answered(&key("other"), at(20));
        begin(&mut ledger, "third", at(30));
        begin(&mut ledger, "fourth", at(40));
        let wanted = Some(Rpc::ContainerStatus);
        assert_eq!(ledger.wants_witness(at(1100)), wanted);
        ledger.cancelled(&key("third"));
        assert_eq!(ledger.wants_witness(at(1100)), wanted);
        ledger.lost(&key("fourth"));
        assert_eq!(ledger.wants_witness(at(1100)), None);
    }
}
