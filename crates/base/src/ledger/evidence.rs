//! What answers tell of the runtime: that it was alive after a certain moment, and how long
//! status calls usually take. A call that does not return is held against this: **nobody is
//! named as stuck until others, asked later, were answered.**

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use cri::Rpc;
use tokio::time::Instant;

use super::Key;
use super::limits::{MEASURED, MOST_SLOWER, REMEMBERED_CALLS, SLOWER};
use crate::id::PodUid;

#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// The beginning of the newest call that was answered, if only by an error.
    any: Option<Instant>,
    /// The same of those that were answered well.
    good: Option<Instant>,
    /// The beginnings of the last calls of each kind that were answered.
    of_kind: BTreeMap<Rpc, VecDeque<Instant>>,
    took: BTreeMap<Rpc, Lately>,
    /// Who was suspected, and only took so long, and when.
    slower: BTreeMap<Key, (Instant, Duration)>,
}

/// How long the last calls of a kind took.
#[derive(Clone, Debug, Default)]
struct Lately {
    took: VecDeque<Took>,
    /// The 95th percentile of them.
    usual: Duration,
}

/// How long a call took that was answered well.
#[derive(Clone, Debug)]
struct Took {
    at: Instant,
    time: Duration,
    /// The pod that it was about, where that is known.
    pod: Option<PodUid>,
}

impl Lately {
    fn add(&mut self, took: Took) {
        if self.took.len() == REMEMBERED_CALLS {
            self.took.pop_front();
        }
        self.took.push_back(took);
        self.usual = percentile_95(self.took.iter().map(|took| &took.time));
    }

    fn forget_before(&mut self, now: Instant) {
        let remembered = self.took.len();
        self.took.retain(|took| now < took.at + MEASURED);
        if self.took.len() < remembered {
            self.usual = percentile_95(self.took.iter().map(|took| &took.time));
        }
    }
}

impl Evidence {
    /// A call that was made at `begun` has failed: the runtime lives, and how soon an error comes
    /// says nothing of who waits for more.
    pub(super) fn failed(&mut self, begun: Instant) {
        self.any = self.any.max(Some(begun));
    }

    /// A call that was made at `begun` has been answered well.
    pub(super) fn answered(&mut self, rpc: Rpc, begun: Instant) {
        self.any = self.any.max(Some(begun));
        self.good = self.good.max(Some(begun));
        let of_kind = self.of_kind.entry(rpc).or_default();
        if of_kind.len() == REMEMBERED_CALLS {
            of_kind.pop_front();
        }
        of_kind.push_back(begun);
    }

    /// A status call about this pod that was never suspected took so long: the measure of what is
    /// usual.
    pub(super) fn took(&mut self, rpc: Rpc, pod: Option<&PodUid>, time: Duration, now: Instant) {
        self.took.entry(rpc).or_default().add(Took {
            at: now,
            time,
            pod: pod.cloned(),
        });
    }

    /// The pods that were asked for lately, and whether a status call took so long for them the last
    /// time.
    pub(super) fn slow_pods(&self, long: Duration) -> BTreeMap<&PodUid, bool> {
        let mut pods = BTreeMap::new();
        for lately in self.took.values() {
            let took = lately.took.iter();
            let last: BTreeMap<&PodUid, bool> = took
                .filter_map(|took| Some((took.pod.as_ref()?, took.time >= long)))
                .collect();
            for (pod, is_slow) in last {
                *pods.entry(pod).or_default() |= is_slow;
            }
        }
        pods
    }

    /// What is too old is forgotten.
    pub(super) fn pass(&mut self, now: Instant) {
        for lately in self.took.values_mut() {
            lately.forget_before(now);
        }
        self.slower.retain(|_, (at, _)| now < *at + SLOWER);
    }

    /// How long status calls of this kind usually take: the 95th percentile of the last ones,
    /// and of those that were answered since that time the slowest, for a runtime may have
    /// become slow. While none is known, that of the slower kind.
    pub(super) fn usual(&self, rpc: Rpc, since: Instant) -> Duration {
        match self.took.get(&rpc) {
            Some(lately) if !lately.took.is_empty() => {
                let ended = lately.took.iter().rev();
                let ended = ended.take_while(|took| took.at >= since);
                let slowest = ended.map(|took| took.time).max();
                lately.usual.max(slowest.unwrap_or_default())
            }
            _ => {
                let others = self.took.values().map(|lately| lately.usual);
                others.max().unwrap_or_default()
            }
        }
    }

    /// One that was suspected has answered after all.
    pub(super) fn is_slower(&mut self, key: Key, took: Duration, now: Instant) {
        if self.slower.len() < MOST_SLOWER || self.slower.contains_key(&key) {
            self.slower.insert(key, (now, took));
        }
    }

    /// One has answered as soon as others do.
    pub(super) fn is_prompt(&mut self, key: &Key) {
        self.slower.remove(key);
    }

    /// How long this very call took when it was suspected last.
    pub(super) fn own(&self, key: &Key) -> Duration {
        self.slower
            .get(key)
            .map_or(Duration::ZERO, |(_, took)| *took)
    }

    /// How many calls of this kind were made at `time` or later and have been answered, as far
    /// as that is remembered.
    pub(super) fn answers_since(&self, rpc: Rpc, time: Instant) -> usize {
        let of_kind = self.of_kind.get(&rpc).into_iter().flatten();
        of_kind.filter(|begun| **begun >= time).count()
    }

    /// When the last call but `Version` was made that has been answered well.
    pub(super) fn last_of_pods(&self) -> Option<Instant> {
        let of_pods = self.of_kind.iter().filter(|(rpc, _)| **rpc != Rpc::Version);
        of_pods.flat_map(|(_, begun)| begun).max().copied()
    }

    /// When the last call of this kind was made that has been answered.
    pub(super) fn last_of_kind(&self, rpc: Rpc) -> Option<Instant> {
        self.of_kind.get(&rpc)?.iter().max().copied()
    }

    /// Whether any call was answered that was made at `time` or later, if only by an error.
    pub(super) fn any_since(&self, time: Instant) -> bool {
        self.any >= Some(time)
    }

    /// Whether any call was answered that was made after that time.
    pub(super) fn any_after(&self, time: Instant) -> bool {
        self.any > Some(time)
    }

    /// Whether any was answered well.
    pub(super) fn good_since(&self, time: Instant) -> bool {
        self.good >= Some(time)
    }

    /// Whether a call of this kind was answered that was made at `time` or later.
    pub(super) fn of_kind_since(&self, rpc: Rpc, time: Instant) -> bool {
        self.answers_since(rpc, time) > 0
    }
}

/// The time that 95 of 100 did not exceed; zero for none.
pub fn percentile_95<'a>(took: impl IntoIterator<Item = &'a Duration>) -> Duration {
    let mut sorted: Vec<Duration> = took.into_iter().copied().collect();
    sorted.sort_unstable();
    let rank = (sorted.len() * 95).div_ceil(100);
    rank.checked_sub(1)
        .map_or(Duration::ZERO, |index| sorted[index])
}
