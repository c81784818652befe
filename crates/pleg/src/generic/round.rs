//! One round of seeing every pod: begun with good lists, complete once each pod that
//! differed was inspected or is named as stuck.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::event::Source;
use crate::id::PodUid;
use crate::wall_time::WallTime;

/// A round that is not complete yet.
#[derive(Debug)]
pub(super) struct Round {
    /// When its lists were asked for.
    pub(super) begun: Instant,
    /// The same by the time of day.
    pub(super) time: WallTime,
    /// Whether it was begun with lists, or with a sweep in their place.
    pub(super) source: Source,
    waiting: BTreeSet<PodUid>,
}

impl Round {
    /// A round that waits for these pods.
    pub(super) fn new(
        begun: Instant,
        time: WallTime,
        source: Source,
        waiting: BTreeSet<PodUid>,
    ) -> Self {
        Self {
            begun,
            time,
            source,
            waiting,
        }
    }

    /// The pod was inspected, could not be, or is named as stuck.
    pub(super) fn ended(&mut self, uid: &PodUid) {
        self.waiting.remove(uid);
    }

    /// Whether no pod is waited for.
    pub(super) fn is_complete(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// What the completed rounds amount to.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How many were completed.
    pub(super) rounds: u64,
    /// The last one.
    pub(super) last: Option<LastRound>,
}

/// The last round that was completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastRound {
    /// When its lists were asked for.
    pub(super) begun: Instant,
    /// The same by the time of day.
    pub(super) time: WallTime,
    /// How long it took, inspections included.
    pub(super) took: Duration,
    /// Whether it was begun with lists, or with a sweep in their place.
    pub(super) source: Source,
}

impl Seen {
    /// When the last completed round was begun: the kubelet's `relistTime`.
    pub(super) fn begun(&self) -> Option<Instant> {
        self.last.map(|last| last.begun)
    }

    /// The round is complete.
    pub(super) fn complete(&mut self, round: &Round) -> Duration {
        let took = round.begun.elapsed();
        self.rounds += 1;
        self.last = Some(LastRound {
            begun: round.begun,
            time: round.time,
            took,
            source: round.source,
        });
        took
    }
}
