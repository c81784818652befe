//! What answers tell of the runtime: that it was alive after a certain moment, and how long
//! status calls usually take. A call that does not return is held against this: **nobody is
//! named as stuck until others, asked later, were answered.**

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::Rpc;

/// How many answers the usual time is taken of.
const REMEMBERED: usize = 32;

/// What was measured longer ago says nothing of today.
const LATELY: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The beginning of the newest call that was answered, of any kind.
    any: Option<Instant>,
    /// The same for each kind.
    of_kind: BTreeMap<Rpc, Instant>,
    took: VecDeque<(Instant, Duration)>,
    /// The 95th percentile of all that is remembered.
    usual: Duration,
}

impl Evidence {
    /// A call that was made at `begun` has been answered.
    pub(super) fn answered(&mut self, rpc: Rpc, begun: Instant) {
        self.any = self.any.max(Some(begun));
        let newest = self.of_kind.entry(rpc).or_insert(begun);
        *newest = begun.max(*newest);
    }

    /// A status call that was never suspected took so long: the measure of what is usual.
    pub(super) fn took(&mut self, took: Duration, now: Instant) {
        if self.took.len() == REMEMBERED {
            self.took.pop_front();
        }
        self.took.push_back((now, took));
        self.usual = percentile_95(self.took.iter().map(|(_, took)| took));
    }

    /// What is too old is forgotten.
    pub(super) fn pass(&mut self, now: Instant) {
        let remembered = self.took.len();
        self.took.retain(|(at, _)| now < *at + LATELY);
        if self.took.len() < remembered {
            self.usual = percentile_95(self.took.iter().map(|(_, took)| took));
        }
    }

    /// How long status calls usually take: the 95th percentile of the last ones.
    pub(super) fn usual(&self) -> Duration {
        self.usual
    }

    /// Whether any call was answered that was made at `time` or later.
    pub(super) fn any_since(&self, time: Instant) -> bool {
        self.any.is_some_and(|begun| begun >= time)
    }

    /// Whether a call of this kind was answered that was made at `time` or later.
    pub(super) fn of_kind_since(&self, rpc: Rpc, time: Instant) -> bool {
        self.of_kind.get(&rpc).is_some_and(|begun| *begun >= time)
    }
}

/// The time that 95 of 100 did not exceed; zero for none.
pub(super) fn percentile_95<'a>(took: impl IntoIterator<Item = &'a Duration>) -> Duration {
    let mut sorted: Vec<Duration> = took.into_iter().copied().collect();
    sorted.sort_unstable();
    let rank = (sorted.len() * 95).div_ceil(100);
    rank.checked_sub(1)
        .map_or(Duration::ZERO, |index| sorted[index])
}
