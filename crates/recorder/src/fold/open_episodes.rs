//! States that last at a time.

use std::collections::{BTreeMap, BTreeSet};

use causes::Cause;
use episodes::Episode;
use pleg::model::id::Id;
use pleg::model::wall_time::WallTime;
use pleg::out::health::{HealthState, Reason};
use pleg::runtime::Rpc;

use super::collector::Collector;

/// The kind of a state, and its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// A call does not return.
    Hung(Rpc, Option<Id>),
    /// An inspection fails.
    Failing(Rpc, Id),
    Health(HealthState, Reason),
    Unreachable,
    Unresponsive,
    WouldBeNotReady,
    Guarding,
    /// Events of the runtime's stream.
    Stream,
    /// Exits reported by the kernel.
    Kernel,
}

impl Key {
    /// Whether it is about a call. Only a limited number of calls is recorded.
    pub(super) fn is_call(&self) -> bool {
        matches!(self, Self::Hung(..) | Self::Failing(..))
    }

    /// Whether it is about a call for one container or pod.
    pub(super) fn is_call_for_one(&self) -> bool {
        matches!(self, Self::Hung(_, Some(_)) | Self::Failing(..))
    }

    /// Whether a change of health reports it.
    pub(super) fn is_health(&self) -> bool {
        matches!(
            self,
            Self::Health(..) | Self::Unreachable | Self::Unresponsive
        )
    }
}

/// The episodes that have no end yet, and the findings that were added.
#[derive(Debug, Default)]
pub(super) struct OpenEpisodes {
    open: BTreeMap<Key, Episode>,
    reported_findings: BTreeSet<(Cause, WallTime)>,
}

/// The maximum number of findings that are remembered.
const MAX_REMEMBERED_FINDINGS: usize = 10_000;

impl OpenEpisodes {
    /// Of the keys that are `shown`, those in `now` last; the others have ended.
    pub(super) fn replace(
        &mut self,
        shown: impl Fn(&Key) -> bool,
        now: Vec<(Key, Episode)>,
        time: WallTime,
        collector: &mut Collector,
    ) {
        let keys: BTreeSet<&Key> = now.iter().map(|(key, _)| key).collect();
        let ended = |key: &&Key| shown(key) && !keys.contains(key);
        let ended: Vec<Key> = self.open.keys().filter(ended).cloned().collect();
        let ended = ended.iter().filter_map(|key| self.open.remove(key));
        ended.for_each(|episode| collector.add(ended_at(episode, time)));
        self.update(now);
    }

    /// Whether this lasts, if it is known at all.
    pub(super) fn is_open(&self, key: &Key) -> bool {
        self.open.contains_key(key)
    }

    /// The states of `now` last; nothing is known of the others.
    pub(super) fn update(&mut self, now: Vec<(Key, Episode)>) {
        for (key, episode) in now {
            match self.open.get_mut(&key) {
                Some(open) => {
                    // Health keeps its first reason, because the last report describes the
                    // recovery.
                    if !key.is_health() {
                        open.reason = episode.reason;
                    }
                    open.subject.learn(episode.subject);
                    open.count += 1;
                }
                None => {
                    self.open.insert(key, episode);
                }
            }
        }
    }

    /// The end of these states is not known: `time` is the last that was recorded.
    pub(super) fn end_recording(&mut self, time: WallTime, collector: &mut Collector) {
        for episode in std::mem::take(&mut self.open).into_values() {
            collector.add(episode.seen_until(Some(time)));
        }
    }

    /// Adds a finding once, although every status repeats it.
    pub(super) fn add_finding(
        &mut self,
        (cause, finding): (Cause, Episode),
        collector: &mut Collector,
    ) {
        if self.reported_findings.len() < MAX_REMEMBERED_FINDINGS
            && self.reported_findings.insert((cause, finding.from))
        {
            collector.add(finding);
        }
    }
}

fn ended_at(episode: Episode, time: WallTime) -> Episode {
    let to = Some(time.max(episode.from));
    Episode { to, ..episode }
}
