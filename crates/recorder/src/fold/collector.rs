//! Collects the episodes of a recording: those that have ended, and the states that still last.
//! Unlike the episodes of logs they are not merged: a log repeats a message many times, a recording
//! contains each episode once.

use std::collections::{BTreeMap, BTreeSet};

use causes::Cause;
use episodes::Episode;
use pleg::model::wall_time::WallTime;

use super::status::Key;

/// The maximum number of episodes; the others are counted.
const MAX_EPISODES: usize = 100_000;

/// The maximum number of findings that are remembered.
const MAX_REMEMBERED_FINDINGS: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Collector {
    episodes: Vec<Episode>,
    dropped: u64,
    /// The states that still last: their episodes have no end yet.
    open: BTreeMap<Key, Episode>,
    reported_findings: BTreeSet<(Cause, WallTime)>,
}

impl Collector {
    pub(super) fn add(&mut self, episode: Episode) {
        match self.episodes.len() < MAX_EPISODES {
            true => self.episodes.push(episode),
            false => self.dropped += 1,
        }
    }

    /// Adds a finding once, although every status repeats it.
    pub(super) fn add_finding(&mut self, cause: Cause, finding: Episode) {
        if self.reported_findings.len() < MAX_REMEMBERED_FINDINGS
            && self.reported_findings.insert((cause, finding.from))
        {
            self.add(finding);
        }
    }

    /// Updates the states whose key is `shown`: those in `now` last, and the others have ended.
    pub(super) fn replace(
        &mut self,
        shown: impl Fn(&Key) -> bool,
        now: Vec<(Key, Episode)>,
        time: WallTime,
    ) {
        let keys: BTreeSet<&Key> = now.iter().map(|(key, _)| key).collect();
        let has_ended = |key: &&Key| shown(key) && !keys.contains(key);
        let ended: Vec<Key> = self.open.keys().filter(has_ended).cloned().collect();
        for key in ended {
            if let Some(episode) = self.open.remove(&key) {
                let to = Some(time.max(episode.from));
                self.add(Episode { to, ..episode });
            }
        }
        self.update(now);
    }

    /// Whether this state is known to last.
    pub(super) fn is_open(&self, key: &Key) -> bool {
        self.open.contains_key(key)
    }

    /// Updates the states in `now`, which last; nothing is known of the others.
    pub(super) fn update(&mut self, now: Vec<(Key, Episode)>) {
        for (key, episode) in now {
            let Some(open) = self.open.get_mut(&key) else {
                self.open.insert(key, episode);
                continue;
            };
            // Health keeps its first reason, because the last report describes the recovery.
            if !key.is_health() {
                open.reason = episode.reason;
            }
            open.subject.learn(episode.subject);
            open.count += 1;
        }
    }

    /// Ends all states without a known end: they were observed until `time`, when the last entry
    /// was recorded.
    pub(super) fn end_recording(&mut self, time: WallTime) {
        for episode in std::mem::take(&mut self.open).into_values() {
            self.add(episode.seen_until(Some(time)));
        }
    }

    /// All episodes in order of time, and the number of those that did not fit.
    pub(super) fn sorted(mut self) -> (Vec<Episode>, u64) {
        self.episodes.sort_by_key(|episode| episode.from);
        (self.episodes, self.dropped)
    }
}
