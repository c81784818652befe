//! Asking for each id, while lists need it.
//!
//! ```text
//!   rows --those that were not confirmed lately--> queue --as far as the ledger admits--> reads
//!   ids --those in question--------------------------------------------------------------->
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use base::About;
use base::id::Id;
use base::ledger::{Key, Ledger, Places};
use tokio::time::Instant;

use super::{Action, Guard, Mode, Outcome};
use crate::wire::Kind;

/// What was confirmed no longer ago is not asked for again.
const REFRESH: Duration = Duration::from_millis(600);

/// At most a thousand calls a second, or as many more as make a round of this.
const PACE: Duration = Duration::from_millis(1);
const ROUND: Duration = Duration::from_secs(2);

/// How many calls for ids in question may be outstanding: the others are for rows.
const QUESTIONS: usize = 24;

/// How many calls for rows may be outstanding: one more after each prompt answer, half as many after
/// another. A runtime that takes long for each call may serve only a few at once, and the kubelet's wait
/// behind ours.
const SMALLEST_WINDOW: usize = 2;
const LARGEST_WINDOW: usize = 64;
const PROMPT: Duration = Duration::from_millis(500);

/// So much of that may be made up for.
const BURST: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(super) struct Prober {
    pub(super) ledger: Ledger,
    queues: [Queue; 2],
    /// When the next call may be made.
    next: Instant,
    /// How many calls for rows may be outstanding.
    window: usize,
}

/// The ids of one kind that are to be asked for.
#[derive(Clone, Debug, Default)]
struct Queue {
    ids: VecDeque<Id>,
    begun: Option<Instant>,
}

impl Prober {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            ledger: Ledger::new(Places::default(), now),
            queues: Default::default(),
            next: now,
            window: SMALLEST_WINDOW,
        }
    }

    /// A call is made; says whether it is the one by which the ledger knows its key.
    pub(super) fn begin(&mut self, key: &Key, now: Instant) -> bool {
        if self.ledger.is_outstanding(key) {
            return false;
        }
        self.ledger.begin(about(key), now);
        true
    }

    /// Whether this call is stuck: overdue, while later calls of its kind were answered.
    pub(super) fn is_stuck(&self, key: &Key, now: Instant) -> bool {
        self.ledger.stuck_alone_since(key, now).is_some()
    }

    /// A status call of ours ended after this time.
    pub(super) fn took(&mut self, took: Duration) {
        self.window = match took < PROMPT {
            true => self.window + 1,
            false => self.window / 2,
        }
        .clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
    }

    pub(super) fn ended(&mut self, key: &Key, outcome: &Outcome, now: Instant) {
        match outcome {
            Outcome::Lost => self.ledger.lost(key),
            Outcome::NotFound | Outcome::Failed | Outcome::GivenUp | Outcome::Strange => {
                self.ledger.failed(key, now)
            }
            Outcome::Messages(_) => self.ledger.answered(key, now),
        };
    }

    pub(super) fn alarm(&self, now: Instant) -> Option<Instant> {
        let waits = self.queues.iter().any(|queue| !queue.ids.is_empty());
        let refresh = self.queues.iter().filter_map(|queue| queue.begun);
        let next = (waits && self.ledger.has_room()).then_some(self.next);
        refresh
            .map(|begun| begun + REFRESH)
            .chain(next)
            .chain(self.ledger.alarm(now))
            .filter(|time| *time > now)
            .min()
    }

    /// The next of the round that began first, so that neither kind waits for ever.
    fn pop(&mut self) -> Option<(Kind, Id)> {
        let kinds = [Kind::Sandbox, Kind::Container].into_iter();
        let waiting = kinds.filter(|kind| !self.queues[*kind as usize].ids.is_empty());
        let first = waiting.min_by_key(|kind| self.queues[*kind as usize].begun)?;
        let id = self.queues[first as usize].ids.pop_front()?;
        Some((first, id))
    }
}

/// What a call with this key asks for.
pub(super) fn about(key: &Key) -> About {
    let (call, id) = key.clone();
    About {
        id,
        ..About::node(call)
    }
}

impl Guard {
    /// Asks for what is not confirmed, while lists need it.
    pub(super) fn probe(&mut self, now: Instant) {
        let mut is_probing = false;
        for kind in [Kind::Sandbox, Kind::Container] {
            let wants = match self.mode {
                Mode::Guard => self.lists[kind as usize].wants_probes(&self.settings, now),
                Mode::Shadow => self.shadows[kind as usize].is_rehearsing(),
                Mode::Pass => false,
            };
            let wants = wants && self.rows(kind).complete_since().is_some();
            is_probing |= wants;
            self.refill(kind, wants, now);
        }
        if self.ids.asks_host(is_probing, now) {
            self.actions.push(Action::AskHost);
        }
        let due = self.ids.due(is_probing, now);
        let mut in_question = match due.is_empty() {
            true => 0,
            false => self.reads.ids().filter(|id| self.ids.has(id)).count(),
        };
        for (id, kind) in due {
            let has_room = in_question < QUESTIONS && self.prober.ledger.has_room();
            if has_room && !self.reads.is_outstanding(kind, &id) {
                in_question += 1;
                self.ids.asked(&id, now);
                self.start_read(kind, &id, now);
            }
        }
        let mut room = self.room_for_rows(now);
        while room > 0 && now >= self.prober.next && self.prober.ledger.has_room() {
            room -= 1;
            let Some((kind, id)) = self.prober.pop() else {
                break;
            };
            if !self.reads.is_outstanding(kind, &id) {
                let known = self.sandboxes.len() + self.containers.len();
                // A timer is no finer than a millisecond: what was not asked in time may be now.
                let earliest = now.checked_sub(BURST).unwrap_or(now);
                let pace = PACE.min(ROUND / known.max(1) as u32);
                self.prober.next = self.prober.next.max(earliest) + pace;
                self.start_read(kind, &id, now);
            }
        }
    }

    /// How many calls for rows may be made. Stuck ones take no place, and there is always one for a
    /// witness, by which they are found to be stuck.
    fn room_for_rows(&self, now: Instant) -> usize {
        let Prober { ledger, window, .. } = &self.prober;
        let ours = self.reads.ours();
        let open = ours.filter(|key| !self.prober.is_stuck(key, now)).count();
        let room = window.saturating_sub(open);
        room.max(usize::from(ledger.wants_witness(now).is_some()))
    }

    /// A new round over the ids of a kind, once the last one is over and a while ago.
    fn refill(&mut self, kind: Kind, wants: bool, now: Instant) {
        let queue = &mut self.prober.queues[kind as usize];
        if !wants {
            queue.ids.clear();
            queue.begun = None;
            return;
        }
        if !queue.ids.is_empty() || queue.begun.is_some_and(|begun| now < begun + REFRESH) {
            return;
        }
        let rows = match kind {
            Kind::Sandbox => &self.sandboxes,
            Kind::Container => &self.containers,
        };
        let old = rows
            .iter()
            .filter(|(_, known)| known.age(now) >= REFRESH / 2);
        queue.ids = old.map(|(id, _)| id.clone()).collect();
        queue.begun = Some(now);
    }
}
