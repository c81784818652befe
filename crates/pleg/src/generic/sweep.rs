//! A sweep by id: while a list does not come, each known container (or sandbox) is asked
//! for by itself, gently.
//!
//! ```text
//!   targets --one at a time, 200 a second at most--> waiting --> answered
//!                                                       \--> overdue: named, waited for no more
//! ```
//!
//! The one that holds the list up is the one that does not answer, so a sweep finds the
//! culprit too. Where nothing answers at all, no more than [`WINDOW`] calls are made: a
//! runtime that is down as a whole is not asked for everything.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::calls::About;
use crate::id::{Id, PodUid};
use crate::wall_time::WallTime;

/// At most 200 calls a second.
const PACE: Duration = Duration::from_millis(5);

/// How many calls may be waited for at once.
const WINDOW: usize = 8;

/// One that takes longer gives its place in the window to others.
const SLOW: Duration = Duration::from_millis(250);

/// A container or sandbox to ask for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Its pod; `None` for an id that only the host knows.
    pub(super) uid: Option<PodUid>,
    pub(super) id: Id,
    pub(super) about: About,
}

/// The sweep under way, or the last one.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) begun: Instant,
    pub(super) time: WallTime,
    targets: VecDeque<Target>,
    /// Asked for, and since when.
    waiting: BTreeMap<Id, Instant>,
    answered: usize,
    /// When the next may be asked for.
    next: Instant,
    pace: Duration,
    /// It was complete, and that was told.
    told: bool,
}

impl Sweep {
    /// Begins a sweep; who has not answered the `last` one is still waited for.
    pub(super) fn new(
        last: Option<Self>,
        begun: Instant,
        time: WallTime,
        targets: Vec<Target>,
    ) -> Self {
        let waiting = last.map(|last| last.waiting).unwrap_or_default();
        let asked = |target: &Target| !waiting.contains_key(&target.id);
        Self {
            begun,
            time,
            targets: targets.into_iter().filter(asked).collect(),
            waiting,
            answered: 0,
            next: begun,
            pace: PACE,
            told: false,
        }
    }

    /// When the next is to be asked for; `None` while that waits for an answer.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.targets.is_empty() {
            return None;
        }
        let mut asked: Vec<Instant> = self.waiting.values().copied().collect();
        asked.sort_unstable();
        match asked.len().checked_sub(WINDOW) {
            None => Some(self.next),
            Some(_) if self.answered == 0 => None,
            // The window is free once all but so many of the younger ones are slow.
            Some(slow) => Some(self.next.max(asked[slow] + SLOW)),
        }
    }

    /// The next to ask for, if it is time.
    pub(super) fn take(&mut self, now: Instant) -> Option<Target> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        self.next = now + self.pace;
        let target = self.targets.pop_front()?;
        self.waiting.insert(target.id.clone(), now);
        Some(target)
    }

    /// An id answered. A runtime that takes longer is asked less often.
    pub(super) fn answered(&mut self, id: &Id, now: Instant) {
        self.answered += 1;
        if let Some(asked) = self.waiting.remove(id) {
            self.pace = PACE.max(now.duration_since(asked) / 4).min(SLOW);
        }
    }

    /// A call about an id failed: it is waited for no more, and nothing was seen by it.
    pub(super) fn failed(&mut self, id: &Id) {
        self.waiting.remove(id);
    }

    /// The other list answered: the runtime is not down as a whole.
    pub(super) fn list_answered(&mut self) {
        self.answered += 1;
    }

    /// Whether all were asked for and nobody is waited for who may still answer in time;
    /// true once. A sweep in which nobody answered has seen nothing.
    pub(super) fn completes(&mut self, now: Instant, overdue: Duration) -> bool {
        let in_time = |asked: &Instant| now.duration_since(*asked) < overdue;
        let open = !self.targets.is_empty() || self.waiting.values().any(in_time);
        if self.told || open || self.answered == 0 {
            return false;
        }
        self.told = true;
        true
    }

    /// Whether all were asked for.
    pub(super) fn is_asked(&self) -> bool {
        self.targets.is_empty()
    }
}
