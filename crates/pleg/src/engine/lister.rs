//! One list: when it is requested next, and how it was answered.
//!
//! ```text
//!   waiting --due--> outstanding --good--> known as of its request --\
//!      ^                  |------error---> failing with it ----------|
//!      |                  \--connection--> lost ---------------------|
//!      \------------ a pause, which depends on the answer -----------/
//!
//!   answered:  in time --slow once--> late --slow again--> slow --in time again--> in time
//! ```
//!
//! A list is *late* after one answer that exceeded its limit, and *slow* once the next answer
//! exceeds it too. Neither list waits for the other one.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::{MAX_LIST_OVERDUE, MAX_RETRY_PAUSE, SLOW_PAUSE_DIVISOR};
use crate::model::wall_time::Moment;
use crate::runtime::CallError;

/// When one list is requested, and how it was answered.
#[derive(Debug)]
pub(crate) struct Lister {
    state: State,
    /// The time by which a component wants the list, if it does. If the list is outstanding then,
    /// it becomes due again when it ends.
    wanted: Option<Instant>,
    last: Last,
    pub(super) punctuality: Punctuality,
    /// How long the last successful call took. A call that the other list may have delayed does not
    /// count.
    pub(super) took: Duration,
    /// When the list last failed, or its connection was lost.
    pub(super) failed_at: Option<Instant>,
    /// When the newest answer that has been taken in was requested.
    pub(super) known_as_of: Option<Instant>,
    /// Whether the list was unavailable, and has not been answered since. What is new stays
    /// unobserved until the list is answered, even if the outstanding call ends.
    pub(super) was_unavailable: bool,
    /// The newest time as of which pods were observed without this list, because it was
    /// unavailable. Cleared by an answer that was requested at that time or later, because it shows
    /// what was new then.
    pub(super) observed_without: Option<Instant>,
}

#[derive(Debug)]
enum State {
    Waiting {
        /// When the wait began.
        since: Instant,
        /// When the list is due, unless it is wanted earlier; `None` until that is planned.
        next: Option<Instant>,
        /// The list is not sent before this time, even if it is wanted: it waits after lost
        /// connections.
        earliest: Instant,
    },
    Outstanding {
        begun: Moment,
    },
}

/// The result of the last call.
#[derive(Debug, PartialEq, Eq)]
enum Last {
    None,
    Good,
    Failing(CallError),
    /// The connection was lost, which is no evidence about the list.
    Lost(CallError),
}

/// How punctual the last answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Punctuality {
    InTime,
    /// The last answer took this long, and the one before it was in time.
    Late(Duration),
    /// The last answer took this long, and the one before it exceeded the limit too.
    Slow(Duration),
}

impl Punctuality {
    /// How long the last answer took, if it was not in time.
    pub(super) fn delay(self) -> Option<Duration> {
        match self {
            Self::InTime => None,
            Self::Late(took) | Self::Slow(took) => Some(took),
        }
    }

    /// How long the next call may take before it is stuck. `overdue` is the limit of a list that is
    /// in time.
    pub(super) fn stuck_after(self, overdue: Duration) -> Duration {
        match self {
            // A list that took longer than any slow list takes was stuck, which says nothing about
            // the next one.
            Self::Late(took) if took >= MAX_LIST_OVERDUE => overdue,
            Self::InTime => overdue,
            Self::Late(took) | Self::Slow(took) => overdue.max(twice(took)),
        }
    }
}

/// How long a list that was late may take before it is stuck.
pub(super) fn twice(late: Duration) -> Duration {
    (late * 2).min(MAX_LIST_OVERDUE)
}

impl Lister {
    /// A list that is due at `due`.
    pub(super) fn new(due: Instant) -> Self {
        Self {
            state: State::Waiting {
                since: due,
                next: Some(due),
                earliest: due,
            },
            wanted: None,
            last: Last::None,
            punctuality: Punctuality::InTime,
            took: Duration::ZERO,
            failed_at: None,
            known_as_of: None,
            was_unavailable: false,
            observed_without: None,
        }
    }

    /// When it is due; `None` while it is outstanding.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { next, earliest, .. } => {
                let next = self.wanted.into_iter().chain(next).min();
                Some(next.map_or(earliest, |next| next.max(earliest)))
            }
            State::Outstanding { .. } => None,
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| now >= due)
    }

    /// When it was sent, if it is outstanding.
    pub(super) fn begun(&self) -> Option<Moment> {
        match self.state {
            State::Waiting { .. } => None,
            State::Outstanding { begun } => Some(begun),
        }
    }

    pub(super) fn is_outstanding(&self) -> bool {
        self.begun().is_some()
    }

    /// Makes the list due by `time`. If it is outstanding, it becomes due again when it ends.
    pub(super) fn make_due_by(&mut self, time: Instant) {
        self.wanted = Some(self.wanted.map_or(time, |other| other.min(time)));
    }

    /// Makes the list due, unless its contents are known as of a time later than `after`, or its
    /// outstanding call was sent at `after` or later.
    pub(super) fn request(&mut self, after: Instant) {
        let is_enough = match self.state {
            State::Waiting { .. } => self.known_as_of > Some(after),
            State::Outstanding { begun } => begun.instant >= after,
        };
        if !is_enough {
            self.make_due_by(after);
        }
    }

    /// Delays a waiting list: it is not sent before `time`, even if it is wanted.
    pub(super) fn postpone(&mut self, time: Instant) {
        if let State::Waiting { earliest, .. } = &mut self.state {
            *earliest = time.max(*earliest);
        }
    }

    /// Records that the list is sent now.
    pub(super) fn sent(&mut self, now: Moment) {
        self.state = State::Outstanding { begun: now };
        self.wanted = None;
    }

    /// Records that the call has ended. [`Self::plan`] decides when the next one is due.
    fn ended(&mut self, now: Instant) {
        self.state = State::Waiting {
            since: now,
            next: None,
            earliest: now,
        };
    }

    /// Records that the list was answered after `took`. `overdue` is the limit for that. A call
    /// that was sent `beside` the outstanding call of the other list may be delayed by it, so it
    /// does not make a list late that was in time.
    pub(super) fn received(
        &mut self,
        took: Duration,
        overdue: Duration,
        beside: bool,
        now: Instant,
    ) {
        self.ended(now);
        self.last = Last::Good;
        self.was_unavailable = false;
        self.punctuality = match self.punctuality {
            _ if took < overdue => Punctuality::InTime,
            Punctuality::InTime if beside => Punctuality::InTime,
            Punctuality::InTime => Punctuality::Late(took),
            Punctuality::Late(_) | Punctuality::Slow(_) => Punctuality::Slow(took),
        };
        if !beside {
            self.took = took;
        }
    }

    /// Records an error that is evidence about the list. Returns whether the error is new.
    pub(super) fn failed(&mut self, error: &CallError, now: Instant) -> bool {
        self.ended(now);
        let failing = Last::Failing(error.clone());
        self.failed_at = Some(now);
        std::mem::replace(&mut self.last, failing) != self.last
    }

    /// Records that the connection was lost before the answer.
    pub(super) fn lost(&mut self, error: &CallError, now: Instant) {
        self.ended(now);
        self.failed_at = Some(now);
        self.last = Last::Lost(error.clone());
    }

    /// Plans when a waiting list is due, perhaps earlier than was planned before. `shortest` is the
    /// shortest period between two lists, and `period` the current one, which is longer while
    /// changes are announced.
    pub(super) fn plan(&mut self, shortest: Duration, period: Duration) {
        let State::Waiting { since, next, .. } = &mut self.state else {
            return;
        };
        let pause = match (&self.last, self.punctuality) {
            // The runtime would produce the list again at a high cost, and it could not be
            // received.
            (Last::Failing(CallError::TooLarge(_)), _) => MAX_RETRY_PAUSE.max(shortest),
            (Last::Failing(_) | Last::Lost(_), _) => shortest,
            (Last::None, _) => return,
            (_, Punctuality::InTime) => period,
            // A late list is requested again at once, to show what changed meanwhile, but only
            // once.
            (_, Punctuality::Late(_)) => Duration::ZERO,
            // Even while changes are announced, a slow list waits no longer than it took (or than the
            // shortest period, if that is longer).
            (_, Punctuality::Slow(took)) => period
                .min(shortest.max(took))
                .max(took / SLOW_PAUSE_DIVISOR),
        };
        let planned = *since + pause;
        *next = Some(next.map_or(planned, |next| next.min(planned)));
    }

    /// An answer that was requested at `requested` has been taken in.
    pub(super) fn taken_in(&mut self, requested: Instant) {
        self.observed_without.take_if(|time| *time <= requested);
        self.known_as_of = Some(requested);
    }

    /// The error of a list that fails although there is a connection.
    pub(super) fn failure(&self) -> Option<&CallError> {
        match &self.last {
            Last::Failing(error) => Some(error),
            _ => None,
        }
    }

    pub(super) fn is_too_large(&self) -> bool {
        matches!(self.failure(), Some(CallError::TooLarge(_)))
    }

    /// The error of the last call, if its connection was lost.
    pub(super) fn loss(&self) -> Option<&CallError> {
        match &self.last {
            Last::Lost(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the list is requested together with the other one: it waits, and was last answered
    /// in time.
    pub(super) fn goes_along(&self) -> bool {
        !self.is_outstanding() && self.last == Last::Good && self.punctuality == Punctuality::InTime
    }

    pub(super) fn is_slow(&self) -> bool {
        matches!(self.punctuality, Punctuality::Slow(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wall_time::WallTime;

    const SECOND: Duration = Duration::from_secs(1);

    /// When a list is due that was first requested at `start`, after calls that took this many
    /// seconds each.
    fn due_after(took: &[u32], start: Instant) -> Option<Instant> {
        let mut lister = Lister::new(start);
        let mut now = start;
        for took in took {
            lister.sent(Moment {
                instant: now,
                wall: WallTime::from_unix_nanos(1).expect("a time"),
            });
            now += SECOND * *took;
            lister.received(SECOND * *took, SECOND * 2, false, now);
            lister.plan(SECOND, SECOND);
        }
        lister.due()
    }

    #[test]
    fn after_a_list_that_is_slow_again_there_is_a_pause_of_a_quarter_of_its_duration() {
        let start = Instant::now();
        let at = |seconds| Some(start + SECOND * seconds);
        assert_eq!(due_after(&[1], start), at(2), "the period");
        assert_eq!(due_after(&[8], start), at(8), "at once, the first time");
        assert_eq!(due_after(&[8, 8], start), at(18));
        assert_eq!(due_after(&[8, 8, 1], start), at(18), "the period again");
    }
}
