//! Requests the status of each id, while lists need it.
//!
//! ```text
//!   rows --those not confirmed recently--> queue --if the ledger has room--> reads
//!   ids  --those without a row---------------------if the ledger has room--> reads
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use base::About;
use base::id::Id;
use base::ledger::{Key, Ledger, Places};
use tokio::time::Instant;

use super::per_kind::PerKind;
use super::{Action, Guard, Mode, Outcome};
use crate::wire::Kind;

/// The shortest time between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_millis(600);

/// The time between two calls, and the longest time in which a sweep starts all its calls: with more
/// rows, the time between two calls is shorter.
const CALL_INTERVAL: Duration = Duration::from_millis(1);
const MAX_SWEEP_TIME: Duration = Duration::from_secs(2);

/// How many calls for ids without a row may be outstanding. The rest of the room is for rows.
const MAX_UNKNOWN_ID_CALLS: usize = 24;

/// How many calls for rows may be outstanding. The window grows by one after an answer within
/// `FAST_ANSWER`, and is halved after a slower one: a slow runtime may serve only a few calls at once, and
/// the kubelet's calls wait behind those of the guard.
const MIN_WINDOW: usize = 2;
const MAX_WINDOW: usize = 64;
const FAST_ANSWER: Duration = Duration::from_millis(500);

/// How much delay the prober makes up for: a timer is no finer than a millisecond.
const MAX_CATCH_UP: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(super) struct Prober {
    pub(super) ledger: Ledger,
    queues: PerKind<Queue>,
    /// When the next call may be made.
    next: Instant,
    /// How many calls for rows may be outstanding.
    window: usize,
}

/// The ids of one kind whose status the sweep is still to request.
#[derive(Clone, Debug, Default)]
struct Queue {
    ids: VecDeque<Id>,
    begun: Option<Instant>,
}

impl Prober {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            ledger: Ledger::new(Places::default(), now),
            queues: PerKind::default(),
            next: now,
            window: MIN_WINDOW,
        }
    }

    /// Records that a call is sent. Returns whether the ledger tracks it: not if it already tracks another
    /// call with this key.
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

    /// Adapts the window to the time that a status call of the guard itself has taken.
    pub(super) fn note_duration(&mut self, took: Duration) {
        self.window = match took < FAST_ANSWER {
            true => self.window + 1,
            false => self.window / 2,
        }
        .clamp(MIN_WINDOW, MAX_WINDOW);
    }

    pub(super) fn ended(&mut self, key: &Key, outcome: &Outcome, now: Instant) {
        match outcome {
            Outcome::Lost => self.ledger.lost(key),
            Outcome::NotFound | Outcome::Failed | Outcome::GivenUp | Outcome::Undecodable => {
                self.ledger.failed(key, now)
            }
            Outcome::Messages(_) => self.ledger.answered(key, now),
        };
    }

    pub(super) fn alarm(&self, now: Instant) -> Option<Instant> {
        let waits = self.queues.iter().any(|queue| !queue.ids.is_empty());
        let next = (waits && self.ledger.has_room()).then_some(self.next);
        let begun = self.queues.iter().filter_map(|queue| queue.begun);
        begun
            .map(|begun| begun + SWEEP_INTERVAL)
            .chain(next)
            .chain(self.ledger.alarm(now))
            .filter(|time| *time > now)
            .min()
    }

    /// The next id of the sweep that began first, so that neither kind waits forever.
    fn pop(&mut self) -> Option<(Kind, Id)> {
        let kinds = Kind::BOTH.into_iter();
        let waiting = kinds.filter(|kind| !self.queues[*kind].ids.is_empty());
        let first = waiting.min_by_key(|kind| self.queues[*kind].begun)?;
        let id = self.queues[first].ids.pop_front()?;
        Some((first, id))
    }
}

/// The ledger's description of a call with this key.
pub(super) fn about(key: &Key) -> About {
    let (call, id) = key.clone();
    About {
        id,
        ..About::node(call)
    }
}

impl Guard {
    /// Requests the status of ids that are not confirmed, while lists need it.
    pub(super) fn probe(&mut self, now: Instant) {
        let mut is_probing = false;
        for kind in Kind::BOTH {
            let wants = match self.mode {
                Mode::Guard => self.lists[kind].wants_probes(&self.settings, now),
                Mode::Shadow => self.shadows[kind].is_rehearsing(),
                Mode::Pass => false,
            };
            let wants = wants && self.rows[kind].complete_since().is_some();
            is_probing |= wants;
            self.refill(kind, wants, now);
        }
        if self.ids.needs_host_ids(is_probing, now) {
            self.actions.push(Action::ListHostIds);
        }
        let due = self.ids.due(is_probing, now);
        let mut outstanding = match due.is_empty() {
            true => 0,
            false => self.reads.ids().filter(|id| self.ids.has(id)).count(),
        };
        for (id, kind) in due {
            let has_room = outstanding < MAX_UNKNOWN_ID_CALLS && self.prober.ledger.has_room();
            if has_room && !self.reads.is_outstanding(kind, &id) {
                outstanding += 1;
                self.ids.note_request(&id, now);
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
                let known = self.rows.sandboxes.len() + self.rows.containers.len();
                let earliest = now.checked_sub(MAX_CATCH_UP).unwrap_or(now);
                let interval = CALL_INTERVAL.min(MAX_SWEEP_TIME / known.max(1) as u32);
                self.prober.next = self.prober.next.max(earliest) + interval;
                self.start_read(kind, &id, now);
            }
        }
    }

    /// How many calls for rows may be sent now. Stuck calls do not count. While the ledger needs a witness
    /// there is room for at least one, because only witnesses show which calls are stuck.
    fn room_for_rows(&self, now: Instant) -> usize {
        let Prober { ledger, window, .. } = &self.prober;
        let ours = self.reads.ours();
        let open = ours.filter(|key| !self.prober.is_stuck(key, now)).count();
        let room = window.saturating_sub(open);
        room.max(usize::from(ledger.wants_witness(now).is_some()))
    }

    /// Begins the next sweep over the ids of a kind, if the last one is finished and began long enough
    /// ago. Unless lists want it, drops the sweep.
    fn refill(&mut self, kind: Kind, wants: bool, now: Instant) {
        let queue = &mut self.prober.queues[kind];
        if !wants {
            *queue = Queue::default();
            return;
        }
        if queue.ids.is_empty()
            && queue
                .begun
                .is_none_or(|begun| now >= begun + SWEEP_INTERVAL)
        {
            let rows = self.rows[kind].iter();
            let old = rows.filter(|(_, known)| known.age(now) >= SWEEP_INTERVAL / 2);
            queue.ids = old.map(|(id, _)| id.clone()).collect();
            queue.begun = Some(now);
        }
    }
}
