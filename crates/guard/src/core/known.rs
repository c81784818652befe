//! The known state of one sandbox or container, and the evidence for it.
//!
//! A container is created, runs, and has exited; it never goes back, so the furthest of these states that the
//! runtime has reported is the newest. For a sandbox, and for a container in an unknown state, the answer that
//! was requested last counts. If two calls for a sandbox were outstanding at the same time and their answers
//! differ, the sandbox is not ready, and its status is requested again.

use std::time::Duration;

use tokio::time::Instant;

use crate::wire::Kind;
use crate::wire::row::{CREATED, Row, rises};

/// The confirmation of a restored row is dated this long before the restart, so that it confirms nothing
/// now.
const BEFORE_RESTART: Duration = Duration::from_nanos(1);

/// When a call was requested, and when its answer arrived.
pub(crate) type Interval = (Instant, Instant);

/// A row, and the evidence for it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) row: Row,
    /// When the runtime first reported the row: a list that was requested earlier may lack it.
    first_reported: Instant,
    /// When the newest call whose answer contained the row was requested.
    confirmed: Instant,
    /// When the last answer that contained the row arrived.
    answered: Instant,
    /// When the last call that changes it was answered: answers that were requested before do not confirm
    /// it.
    changed: Instant,
    /// When it was last started, or may have been.
    started: Instant,
    /// How often its status has failed since it was confirmed.
    failing: Failing,
    /// The first answer that lacks the row since the last one that contained it.
    missing: Option<Interval>,
}

/// How often a status has failed in succession.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    No,
    /// When the error arrived.
    Once(Instant),
    Repeatedly,
}

impl Known {
    pub(super) fn new(row: Row, (requested, answered): Interval) -> Self {
        Self {
            row,
            first_reported: answered,
            confirmed: requested,
            answered,
            changed: requested,
            started: requested,
            failing: Failing::No,
            missing: None,
        }
    }

    /// A row that an earlier guard process saved. Only a call that is requested at `now` or later confirms
    /// it.
    pub(super) fn restored(row: Row, now: Instant) -> Self {
        let before = now.checked_sub(BEFORE_RESTART).unwrap_or(now);
        Self {
            changed: now,
            started: now,
            ..Self::new(row, (before, now))
        }
    }

    /// Whether its state is confirmed as of `since`, and as of its last change.
    pub(crate) fn is_confirmed(&self, since: Instant) -> bool {
        self.confirmed >= since && self.is_unchanged()
    }

    /// Whether an answer has lacked it since the last answer that contained it.
    pub(crate) fn is_missing(&self) -> bool {
        self.missing.is_some()
    }

    /// Whether it was not changed, and not missing, since it was confirmed.
    fn is_unchanged(&self) -> bool {
        self.confirmed >= self.changed && self.missing.is_none()
    }

    /// Whether the runtime first reported it at this time or later.
    pub(crate) fn is_new_since(&self, time: Instant) -> bool {
        self.first_reported >= time
    }

    /// Whether it was last known as created, and may have been started since. A running container must not
    /// be reported as created to a kubelet.
    pub(crate) fn may_have_started(&self, kind: Kind) -> bool {
        kind == Kind::Container && self.row.state == CREATED && self.confirmed < self.started
    }

    /// Whether its status is failing: the runtime has answered at least twice in succession with an error.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing == Failing::Repeatedly
    }

    /// How long ago it was confirmed; [`Duration::MAX`] if it has changed since, or is missing.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        match self.is_unchanged() {
            true => now.saturating_duration_since(self.confirmed),
            false => Duration::MAX,
        }
    }

    /// Applies the state in an answer. Returns whether the known state has changed.
    pub(super) fn set_state(
        &mut self,
        kind: Kind,
        state: i32,
        (requested, answered): Interval,
    ) -> bool {
        let known = self.row.state;
        let is_later = requested >= self.confirmed;
        self.row.state = match kind {
            _ if rises(kind, known) && rises(kind, state) => known.max(state),
            // Of two answers whose calls were outstanding at the same time either may be the newer one.
            // A sandbox seldom becomes ready again; its status is requested once more.
            Kind::Sandbox if state != known && requested < self.answered => {
                self.changed = answered;
                known.max(state)
            }
            // Any other state may follow: the call that was requested later counts.
            _ if is_later => state,
            _ => known,
        };
        self.confirmed = requested.max(self.confirmed);
        self.answered = answered.max(self.answered);
        self.failing = Failing::No;
        self.missing.take_if(|missing| requested > missing.0);
        self.row.state != known
    }

    /// Records an answer that lacks it. Returns whether it is gone: an earlier answer lacked it too, and
    /// this one was requested after that.
    pub(super) fn note_missing(&mut self, interval: Interval) -> bool {
        // It was first reported after this answer was requested, or a call that was requested later found
        // it.
        if self.first_reported.max(self.confirmed) >= interval.0 {
            return false;
        }
        let (_, answered) = *self.missing.get_or_insert(interval);
        interval.0 >= answered && interval.1 > answered
    }

    /// Applies the row of another answer, which differs at most in its state. Returns whether that has changed.
    pub(super) fn replace(&mut self, kind: Kind, row: Row, interval: Interval) -> bool {
        let has_changed = self.set_state(kind, row.state, interval);
        let state = self.row.state;
        self.row = Row { state, ..row };
        has_changed
    }

    /// Records that a call that changes it was answered: answers that were requested before do not confirm
    /// it.
    pub(super) fn note_change(&mut self, now: Instant) {
        self.changed = self.changed.max(now);
    }

    /// Records that it was started, or may have been.
    pub(super) fn note_start(&mut self, now: Instant) {
        self.started = now;
    }

    /// Records that its status call failed with an error that shows nothing about its state.
    pub(super) fn note_failure(&mut self, (requested, answered): Interval) {
        if self.confirmed < requested {
            self.failing = match self.failing {
                Failing::No => Failing::Once(answered),
                Failing::Once(before) if requested < before => self.failing,
                Failing::Once(_) | Failing::Repeatedly => Failing::Repeatedly,
            };
        }
    }
}
