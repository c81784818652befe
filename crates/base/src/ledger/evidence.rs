//! What answers show about the runtime: when the calls that it answered were sent, and how long
//! status calls usually take. **No status call is stuck before later calls were answered.**

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use cri::Rpc;
use tokio::time::Instant;

use super::Key;
use super::limits::{
    MAX_SLOWER_IDS, MEASUREMENT_VALID_FOR, REMEMBERED_ANSWERS, SLOWNESS_REMEMBERED_FOR,
};
use crate::id::PodUid;

#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// When the newest of the answered calls was sent. Calls that were answered with an error
    /// count.
    newest_answered: Option<Instant>,
    /// When the newest of the successfully answered calls was sent.
    newest_success: Option<Instant>,
    /// When the last successful calls of each kind were sent.
    successes: BTreeMap<Rpc, VecDeque<Instant>>,
    recent: BTreeMap<Rpc, RecentCalls>,
    /// The calls that were suspect and then answered: when, and how long the answer took.
    slower: BTreeMap<Key, (Instant, Duration)>,
}

/// How long the last calls of one kind took.
#[derive(Clone, Debug, Default)]
struct RecentCalls {
    calls: VecDeque<Measured>,
    /// Their 95th percentile.
    usual: Duration,
}

/// How long one successful call took.
#[derive(Clone, Debug)]
struct Measured {
    at: Instant,
    time: Duration,
    /// The pod that it was about, if known.
    pod: Option<PodUid>,
}

impl RecentCalls {
    fn add(&mut self, call: Measured) {
        if self.calls.len() == REMEMBERED_ANSWERS {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
        self.usual = percentile_95(self.calls.iter().map(|call| &call.time));
    }

    fn drop_outdated(&mut self, now: Instant) {
        let remembered = self.calls.len();
        let is_valid = |call: &Measured| now < call.at + MEASUREMENT_VALID_FOR;
        self.calls.retain(is_valid);
        if self.calls.len() < remembered {
            self.usual = percentile_95(self.calls.iter().map(|call| &call.time));
        }
    }
}

impl Evidence {
    /// Records that a call that was sent at `begun` was answered with an error. The runtime
    /// answers, but the time of an error shows nothing about successful calls.
    pub(super) fn failed(&mut self, begun: Instant) {
        self.newest_answered = self.newest_answered.max(Some(begun));
    }

    /// Records that a call that was sent at `begun` was answered successfully.
    pub(super) fn answered(&mut self, rpc: Rpc, begun: Instant) {
        self.newest_answered = self.newest_answered.max(Some(begun));
        self.newest_success = self.newest_success.max(Some(begun));
        let of_kind = self.successes.entry(rpc).or_default();
        if of_kind.len() == REMEMBERED_ANSWERS {
            of_kind.pop_front();
        }
        of_kind.push_back(begun);
    }

    /// Records how long a successful status call took. The call was never stuck.
    pub(super) fn measured(
        &mut self,
        rpc: Rpc,
        pod: Option<&PodUid>,
        time: Duration,
        now: Instant,
    ) {
        self.recent.entry(rpc).or_default().add(Measured {
            at: now,
            time,
            pod: pod.cloned(),
        });
    }

    /// The pods with recent calls, and whether the last status call for each took at least `limit`.
    pub(super) fn slow_pods(&self, limit: Duration) -> BTreeMap<&PodUid, bool> {
        let mut pods = BTreeMap::new();
        for recent in self.recent.values() {
            let calls = recent.calls.iter();
            let last: BTreeMap<&PodUid, bool> = calls
                .filter_map(|call| Some((call.pod.as_ref()?, call.time >= limit)))
                .collect();
            for (pod, is_slow) in last {
                *pods.entry(pod).or_default() |= is_slow;
            }
        }
        pods
    }

    /// Drops measurements that are too old.
    pub(super) fn drop_outdated(&mut self, now: Instant) {
        for recent in self.recent.values_mut() {
            recent.drop_outdated(now);
        }
        self.slower
            .retain(|_, (at, _)| now < *at + SLOWNESS_REMEMBERED_FOR);
    }

    /// How long status calls of this kind usually take: the 95th percentile of the recent ones, or
    /// the time of the slowest call answered since `since` if that is longer, because the runtime
    /// may have become slow. Without recent calls of this kind, the longer time of the other kinds.
    pub(super) fn usual(&self, rpc: Rpc, since: Instant) -> Duration {
        match self.recent.get(&rpc) {
            Some(recent) if !recent.calls.is_empty() => {
                let ended = recent.calls.iter().rev();
                let ended = ended.take_while(|call| call.at >= since);
                let slowest = ended.map(|call| call.time).max();
                recent.usual.max(slowest.unwrap_or_default())
            }
            _ => {
                let others = self.recent.values().map(|recent| recent.usual);
                others.max().unwrap_or_default()
            }
        }
    }

    /// Records that a call that was suspect has been answered: its id is only slow.
    pub(super) fn note_slow(&mut self, key: Key, took: Duration, now: Instant) {
        if self.slower.len() < MAX_SLOWER_IDS || self.slower.contains_key(&key) {
            self.slower.insert(key, (now, took));
        }
    }

    /// Records that a call was answered promptly: its id is no longer slow.
    pub(super) fn note_prompt(&mut self, key: &Key) {
        self.slower.remove(key);
    }

    /// How long this call took when it was last slow; zero if it never was.
    pub(super) fn own_time(&self, key: &Key) -> Duration {
        let slower = self.slower.get(key);
        slower.map_or(Duration::ZERO, |(_, took)| *took)
    }

    /// How many calls of this kind that were sent at `time` or later were answered successfully.
    /// Only the last [`REMEMBERED_ANSWERS`] count.
    pub(super) fn answers_since(&self, rpc: Rpc, time: Instant) -> usize {
        let of_kind = self.successes.get(&rpc).into_iter().flatten();
        of_kind.filter(|begun| **begun >= time).count()
    }

    /// When the last successful call other than `Version` was sent.
    pub(super) fn last_of_pods(&self) -> Option<Instant> {
        let successes = self.successes.iter();
        let of_pods = successes.filter(|(rpc, _)| **rpc != Rpc::Version);
        of_pods.flat_map(|(_, begun)| begun).max().copied()
    }

    /// When the last successful call of this kind was sent.
    pub(super) fn last_of_kind(&self, rpc: Rpc) -> Option<Instant> {
        self.successes.get(&rpc)?.iter().max().copied()
    }

    /// Whether a call that was sent at `time` or later was answered, even with an error.
    pub(super) fn has_answered_since(&self, time: Instant) -> bool {
        self.newest_answered >= Some(time)
    }

    /// Whether a call that was sent after `time` was answered, even with an error.
    pub(super) fn has_answered_after(&self, time: Instant) -> bool {
        self.newest_answered > Some(time)
    }

    /// Whether a call that was sent at `time` or later was answered successfully.
    pub(super) fn has_success_since(&self, time: Instant) -> bool {
        self.newest_success >= Some(time)
    }
}

/// The 95th percentile of these durations; zero if there are none.
pub fn percentile_95<'a>(took: impl IntoIterator<Item = &'a Duration>) -> Duration {
    let mut sorted: Vec<Duration> = took.into_iter().copied().collect();
    sorted.sort_unstable();
    let rank = (sorted.len() * 95).div_ceil(100);
    rank.checked_sub(1)
        .map_or(Duration::ZERO, |index| sorted[index])
}
