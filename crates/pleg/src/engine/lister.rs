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
//! A list is *late* when it is answered after its limit once, and *slow* when that happens each
//! time. Neither list waits for the other one.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::{MAX_LIST_OVERDUE, MAX_RETRY_PAUSE, SLOW_PAUSE_DIVISOR};
use crate::model::wall_time::Moment;
use crate::runtime::CallError;

/// When one list is requested, and how it was answered.
#[derive(Debug)]
pub(crate) struct Lister {
    state: State,
    /// When it is wanted, if that is before the pause ends; while it is outstanding, again.
    wanted: Option<Instant>,
    last: Last,
    pub(super) punctuality: Punctuality,
    /// How long its last successful call took.
    pub(super) took: Duration,
    /// When it last failed, or its connection was lost.
    pub(super) failed_at: Option<Instant>,
    /// When the newest answer was requested that was taken in.
    pub(super) known_as_of: Option<Instant>,
    /// Whether it was overdue or failed, and was not answered since. What is new stays unobserved
    /// until it is answered, even if the outstanding call ends.
    pub(super) was_unavailable: bool,
    /// As of when pods were last observed without this list, because it was unavailable. Only a
    /// list that is requested later shows what was new then, and ends this.
    pub(super) observed_without: Option<Instant>,
}

#[derive(Debug)]
enum State {
    Waiting {
        /// Since when it waits.
        since: Instant,
        /// When it is due unless it is wanted earlier, once that is planned.
        next: Option<Instant>,
        /// It is never sent earlier, whatever wants it: there was no connection.
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
    /// It took this long, for the first time.
    Late(Duration),
    /// It takes this long, and was late each time.
    Slow(Duration),
}

impl Punctuality {
    /// How long a list took that was not in time.
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

    /// Makes it due by `time`, or again by then.
    pub(super) fn make_due_by(&mut self, time: Instant) {
        self.wanted = Some(self.wanted.map_or(time, |other| other.min(time)));
    }

    /// Makes it due, unless it is known as of a later time than `after`, or will be.
    pub(super) fn request(&mut self, after: Instant) {
        let is_enough = match self.state {
            State::Waiting { .. } => self.known_as_of > Some(after),
            State::Outstanding { begun } => begun.instant >= after,
        };
        if !is_enough {
            self.make_due_by(after);
        }
    }

    /// If it waits, it is not sent before `time`, even if it is wanted.
    pub(super) fn postpone(&mut self, time: Instant) {
        if let State::Waiting { earliest, .. } = &mut self.state {
            *earliest = time.max(*earliest);
        }
    }

    /// It is sent now.
    pub(super) fn sent(&mut self, now: Moment) {
        self.state = State::Outstanding { begun: now };
        self.wanted = None;
    }

    /// It has ended. [`Self::plan`] decides when it is due.
    fn ended(&mut self, now: Instant) {
        self.state = State::Waiting {
            since: now,
            next: None,
            earliest: now,
        };
    }

    /// It was answered after `took`. `overdue` is the limit for that. A list that was sent `beside` an
    /// outstanding one may be delayed by it: a list that is in time does not become late so.
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

    /// It failed with an error that is evidence about the list. Returns whether the error is new.
    pub(super) fn failed(&mut self, error: &CallError, now: Instant) -> bool {
        self.ended(now);
        let failing = Last::Failing(error.clone());
        self.failed_at = Some(now);
        std::mem::replace(&mut self.last, failing) != self.last
    }

    /// The connection was lost before the answer.
    pub(super) fn lost(&mut self, error: &CallError, now: Instant) {
        self.ended(now);
        self.failed_at = Some(now);
        self.last = Last::Lost(error.clone());
    }

    /// Decides when it is due, if it waits, or whether it is due earlier. `shortest` is the shortest
    /// period between two lists, and `period` the current one, which is longer while changes are
    /// announced.
    pub(super) fn plan(&mut self, shortest: Duration, period: Duration) {
        let State::Waiting { since, next, .. } = &mut self.state else {
            return;
        };
        let pause = match (&self.last, self.punctuality) {
            // The runtime would produce it for nothing each time, at a high cost.
            (Last::Failing(CallError::TooLarge(_)), _) => MAX_RETRY_PAUSE.max(shortest),
            (Last::Failing(_) | Last::Lost(_), _) => shortest,
            (Last::None, _) => return,
            (_, Punctuality::InTime) => period,
            // What happened while it was late is requested at once, but only one time.
            (_, Punctuality::Late(_)) => Duration::ZERO,
            // Although changes are announced, a slow list is retried after its own duration.
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

    /// Why it fails although there is a connection, if it does.
    pub(super) fn failure(&self) -> Option<&CallError> {
        match &self.last {
            Last::Failing(error) => Some(error),
            _ => None,
        }
    }

    pub(super) fn is_too_large(&self) -> bool {
        matches!(self.failure(), Some(CallError::TooLarge(_)))
    }

    /// How the connection was lost before the answer.
    pub(super) fn loss(&self) -> Option<&CallError> {
        match &self.last {
            Last::Lost(error) => Some(error),
            _ => None,
        }
    }

    /// Whether it waits and was answered in time, so that it is requested together with the other
    /// list.
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

    /// When a list is due that was requested at `start`, and took this many seconds each time.
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
