//! Which calls are stuck, and when that may change.

use std::collections::BTreeMap;
use std::time::Duration;

use cri::Rpc;
use tokio::time::Instant;

use super::entry::Stuck;
use super::limits::{
    MAX_STATUS_OVERDUE, OVERDUE_AT_LATEST, OVERDUE_FACTOR, SLOW_AFTER, STUCK_AFTER_LATER_ANSWERS,
    SUSPECT_AFTER,
};
use super::liveness::expires_as_witness_at;
use super::{Entry, Key, Ledger};
use crate::id::PodUid;
use crate::{About, OutstandingCall};

impl Ledger {
    /// Updates which calls are stuck, and shrinks the window while nothing is answered.
    pub fn advance(&mut self, now: Instant) {
        if self.has_outstanding_calls() {
            self.window.shrink(now);
        }
        self.evidence.drop_outdated(now);
        let soonest = SUSPECT_AFTER.min(self.status_overdue);
        let is_suspect = |entry: &Entry| !entry.is_outlier() && entry.age(now) >= soonest;
        if !self.outstanding.values().any(is_suspect) {
            return;
        }
        let not_stuck = self.not_stuck();
        for ((call, id), entry) in &mut self.outstanding {
            if id.is_none() || !is_suspect(entry) {
                continue;
            }
            let usual = self.evidence.usual(*call, entry.since);
            let age = entry.age(now);
            // An answer must be to a call from the second half of this call's time. An earlier one
            // may be the last answer before the runtime became unresponsive.
            let later = entry.awaited_since(now) + age / 2;
            let own = self.evidence.own_time(&(*call, id.clone()));
            if age >= suspect_after(usual).max(own * 3 / 2)
                && self.evidence.answers_since(*call, later) > 0
                && self.evidence.answers_since(*call, entry.since) >= STUCK_AFTER_LATER_ANSWERS
            {
                entry.stuck = Some((Stuck::Outlier, now));
            } else if entry.stuck.is_none()
                && age >= overdue_after(usual, self.status_overdue, not_stuck[call] == 1)
                && self.evidence.has_success_since(later)
            {
                entry.stuck = Some((Stuck::WithItsKind, now));
            }
        }
    }

    /// How many status calls of each kind are outstanding and not known to be stuck.
    fn not_stuck(&self) -> BTreeMap<Rpc, usize> {
        let mut waiting = BTreeMap::new();
        for (call, entry) in self.statuses() {
            if entry.sent.is_some() && entry.stuck.is_none() {
                *waiting.entry(call).or_default() += 1;
            }
        }
        waiting
    }

    /// The stuck status calls, one entry for each pod that waits for the call. A call may outlive
    /// its pod: an unknown pod is reported only if no known pod waits for the call.
    pub fn stuck(
        &self,
        is_known: impl Fn(&PodUid) -> bool,
    ) -> impl Iterator<Item = OutstandingCall> {
        let stuck = self.outstanding.values();
        let stuck = stuck.filter(|entry| entry.stuck.is_some());
        stuck.flat_map(move |entry| {
            let of_known = |about: &&About| about.pod.as_ref().is_none_or(|pod| is_known(&pod.uid));
            let abouts = std::iter::once(&entry.about).chain(&entry.also_wanted_by);
            let mut reported: Vec<About> = abouts.filter(of_known).cloned().collect();
            // The pod of an entry may have been unknown when the call was sent.
            if reported.iter().any(|about| about.pod.is_some()) {
                reported.retain(|about| about.pod.is_some());
            }
            if reported.is_empty() {
                reported.push(entry.about.clone());
            }
            let since = entry.sent.unwrap_or(entry.since);
            reported
                .into_iter()
                .map(move |about| OutstandingCall { about, since })
        })
    }

    /// Whether this status call is stuck.
    pub fn is_stuck(&self, key: &Key) -> bool {
        let entry = self.outstanding.get(key);
        entry.is_some_and(|entry| entry.stuck.is_some())
    }

    /// When this call became known as stuck while later calls of its kind are answered. `None`
    /// also if it is not overdue by what is usual now: the whole runtime may have become slow
    /// meanwhile. After a stall of the whole runtime its oldest calls may be answered last, so a
    /// caller should wait a little before it relies on this.
    pub fn stuck_alone_since(&self, key: &Key, now: Instant) -> Option<Instant> {
        let entry = self.outstanding.get(key)?;
        let usual = self.evidence.usual(key.0, entry.since);
        match entry.stuck? {
            (Stuck::Outlier, since) => (entry.age(now) >= usual * OVERDUE_FACTOR).then_some(since),
            (Stuck::WithItsKind, _) => None,
        }
    }

    /// When the state of the ledger next changes if no call ends.
    pub fn alarm(&self, now: Instant) -> Option<Instant> {
        let waiting = self
            .sent()
            .filter(|((_, id), entry, _)| id.is_some() && entry.stuck.is_none());
        let soonest = SUSPECT_AFTER.min(self.status_overdue);
        let next_steps = waiting.filter_map(|((call, _), entry, sent)| {
            if now < sent + soonest {
                return Some(sent + soonest);
            }
            let usual = self.evidence.usual(*call, entry.since);
            let own = self.evidence.own_time(&(*call, entry.about.id.clone()));
            let steps = [
                SUSPECT_AFTER,
                suspect_after(usual),
                own * 3 / 2,
                OVERDUE_AT_LATEST,
                overdue_after(usual, self.status_overdue, true),
                overdue_after(usual, self.status_overdue, false),
            ];
            let steps = steps.into_iter().map(|step| sent + step);
            let last = self.last_sent(*call);
            let steps = steps.chain(last.map(|last| expires_as_witness_at(sent, last)));
            steps.filter(|time| *time > now).min()
        });
        let witness = self.last_failure.map(|failed| failed + SLOW_AFTER);
        let others = [witness, self.window.shrinks_at()].into_iter().flatten();
        let others = others.filter(|_| self.has_outstanding_calls());
        let all = next_steps.chain(others).chain(self.sign_of_life_at());
        all.filter(|time| *time > now).min()
    }
}

/// How long a call may take while three later calls of its kind are answered.
fn suspect_after(usual: Duration) -> Duration {
    (usual * OVERDUE_FACTOR).clamp(SUSPECT_AFTER, MAX_STATUS_OVERDUE)
}

/// How long a call may take while fewer than three later calls of its kind are answered. Twice as long
/// if several calls of its kind are outstanding: then the kind is probably slow.
fn overdue_after(usual: Duration, overdue: Duration, is_only_one: bool) -> Duration {
    let least = if is_only_one { overdue } else { overdue * 2 };
    (usual * 2).clamp(least, MAX_STATUS_OVERDUE.max(least))
}
