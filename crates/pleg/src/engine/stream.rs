//! The state of the event stream.
//!
//! ```text
//!   off                                  (mode generic)
//!   opening --1 s without an error, or the first event--> live --ends--> retrying
//!    ^ |\--another error--> retrying                                         |
//!    | \---Unimplemented, or an end at once--> unsupported                   |
//!    |                                              |                        |
//!    \--30 s later, or when the runtime is back-----+------------------------/
//!                                 after a back-off, or when the runtime is back
//! ```

use std::time::Duration;

use tokio::time::Instant;

use super::limits::{MAX_RETRY_PAUSE, MAX_WITHHELD_PAUSE, SLOW_AFTER, SUSPECT_AFTER};
use super::losses::Losses;
use super::stream_trust::StreamTrust;
use crate::config::Mode;
use crate::model::backoff::Backoff;
use crate::model::id::Id;
use crate::out::status_report::StreamStatus;
use crate::out::words::counted;
use crate::runtime::{CallError, NoConnection};

/// The stream, and its counters.
#[derive(Debug)]
pub(super) struct Streaming {
    state: State,
    /// The pauses before the stream is opened again.
    pauses: Backoff,
    /// The losses of the connection soon after the stream was opened. The stream is withheld because of
    /// them: it may crash the runtime, and pods are observed without it.
    losses: Losses,
    events: u64,
    /// How many changes the stream did not announce.
    missed: u64,
    /// How many times the stream was opened.
    opened: u64,
}

#[derive(Debug)]
enum State {
    /// The stream is not wanted.
    Off,
    /// The stream was requested and is not refused yet. A runtime without a stream refuses at once, but
    /// containerd answers only with the first event.
    Opening {
        since: Instant,
    },
    Live {
        trust: StreamTrust,
    },
    /// The stream is opened again at `next`, or earlier if the runtime answers, but not while the stream
    /// is withheld after losses.
    Retrying {
        next: Instant,
    },
    /// The runtime has no stream. It is requested again at `next`.
    Unsupported {
        next: Instant,
    },
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// The stream is opened now.
    Open,
    /// The stream was not refused: it is open.
    Opened,
}

impl Streaming {
    pub(super) fn new(mode: Mode, now: Instant) -> Self {
        let state = match mode {
            Mode::Generic => State::Off,
            Mode::Auto | Mode::Evented => State::Retrying { next: now },
        };
        Self {
            state,
            pauses: Backoff::new(SLOW_AFTER, 2, MAX_RETRY_PAUSE),
            losses: Losses::new(MAX_WITHHELD_PAUSE),
            events: 0,
            missed: 0,
            opened: 0,
        }
    }

    /// Advances to `now`. Returns what is due.
    pub(super) fn advance(&mut self, now: Instant) -> Due {
        match &mut self.state {
            State::Opening { since } if now >= *since + SUSPECT_AFTER => Due::Opened,
            State::Retrying { next } | State::Unsupported { next } if now >= *next => {
                self.state = State::Opening { since: now };
                Due::Open
            }
            State::Live { trust } => {
                let missed = trust.advance(now);
                if missed > 0 {
                    let missed = counted(missed, "change");
                    tracing::info!("the event stream did not announce {missed}");
                }
                self.missed += missed as u64;
                Due::Nothing
            }
            _ => Due::Nothing,
        }
    }

    /// Marks a stream that was opening as open. Returns whether it was opening.
    pub(super) fn mark_open(&mut self) -> bool {
        let State::Opening { since } = self.state else {
            return false;
        };
        let trust = StreamTrust::new(since);
        self.state = State::Live { trust };
        self.opened += 1;
        true
    }

    /// Takes in an event about this id.
    pub(super) fn announced(&mut self, id: &Id, now: Instant) {
        self.events += 1;
        if let Some(trust) = self.trust() {
            trust.on_announced(id, now);
        }
    }

    /// Takes in the end or the refusal of the stream, and plans when it is opened again.
    pub(super) fn ended(&mut self, result: &Result<(), CallError>, now: Instant) {
        let lived = match &self.state {
            State::Live { trust } => Some(trust.age(now)),
            _ => None,
        };
        if lived > Some(MAX_RETRY_PAUSE) {
            self.pauses.reset();
            self.losses.forget();
        }
        let is_lost =
            matches!(result, Err(CallError::Unavailable(why)) if why.cause == NoConnection::Lost);
        // If there is no connection at all, the stream is not the cause.
        if is_lost {
            self.losses.count(now);
        }
        let pause = self.pauses.next();
        let is_unsupported = match result {
            Err(error) => matches!(error, CallError::Unimplemented(_)),
            // CRI-O without `enable_pod_events`.
            Ok(()) => lived.is_none(),
        };
        self.state = if is_unsupported {
            let next = now + MAX_RETRY_PAUSE;
            State::Unsupported { next }
        } else {
            let next = self.losses.postponed(now + pause);
            State::Retrying { next }
        };
    }

    /// How much longer the stream is withheld after losses, although the runtime may be reachable.
    pub(super) fn withheld_for(&self, now: Instant) -> Option<Duration> {
        let until = self.losses.until().filter(|until| *until > now)?;
        Some(until - now)
    }

    pub(super) fn is_unsupported(&self) -> bool {
        matches!(self.state, State::Unsupported { .. })
    }

    /// The trust, while the stream is live.
    pub(super) fn trust(&mut self) -> Option<&mut StreamTrust> {
        match &mut self.state {
            State::Live { trust } => Some(trust),
            _ => None,
        }
    }

    /// The pause before the next relist.
    pub(super) fn period(
        &self,
        shortest: Duration,
        ceiling: Duration,
        is_all_watched: bool,
    ) -> Duration {
        match &self.state {
            State::Live { trust } => trust.period(shortest, ceiling, is_all_watched),
            _ => shortest,
        }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, State::Live { .. })
    }

    /// When something is next due.
    pub(super) fn alarm(&self) -> Option<Instant> {
        match &self.state {
            State::Off => None,
            State::Opening { since } => Some(*since + SUSPECT_AFTER),
            State::Live { trust } => trust.due(),
            State::Retrying { next } | State::Unsupported { next } => Some(*next),
        }
    }

    /// Makes the stream due, because the runtime answers again or is another one: now, or when the pause
    /// after losses ends.
    pub(super) fn runtime_answered(&mut self, now: Instant) {
        match &mut self.state {
            State::Retrying { next } => *next = self.losses.postponed(now),
            State::Unsupported { next } => *next = now,
            State::Off | State::Opening { .. } | State::Live { .. } => {}
        }
    }

    pub(super) fn status(&self) -> StreamStatus {
        let state = match &self.state {
            State::Off => "off",
            State::Live { .. } => "live",
            State::Opening { .. } | State::Retrying { .. } => "retrying",
            State::Unsupported { .. } => "unsupported",
        };
        StreamStatus {
            state: state.to_owned(),
            events: self.events,
            missed: self.missed,
            reconnects: self.opened.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_stream_that_lasted_the_first_pause_is_short_again() {
        let mut now = Instant::now();
        let mut stream = Streaming::new(Mode::Evented, now);
        let lost = CallError::unavailable(NoConnection::Lost, "reset");
        for _ in 0..5 {
            assert_eq!(stream.advance(now), Due::Open);
            assert!(stream.mark_open());
            now += MAX_RETRY_PAUSE + SLOW_AFTER;
            stream.ended(&Err(lost.clone()), now);
            assert_eq!(stream.alarm(), Some(now + SLOW_AFTER));
            now += SLOW_AFTER;
        }
    }

    #[test]
    fn a_withheld_stream_that_finds_no_connection_is_opened_as_soon_as_the_runtime_answers() {
        let mut now = Instant::now();
        let mut stream = Streaming::new(Mode::Evented, now);
        let lost = CallError::unavailable(NoConnection::Lost, "reset");
        for withheld in [None, Some(1), Some(4), Some(16)] {
            assert_eq!(stream.advance(now), Due::Open);
            now += SUSPECT_AFTER;
            assert!(stream.mark_open());
            stream.ended(&Err(lost.clone()), now);
            assert_eq!(stream.withheld_for(now), withheld.map(Duration::from_secs));
            now += Duration::from_secs(withheld.unwrap_or(1));
        }
        assert_eq!(stream.advance(now), Due::Open);
        stream.ended(&Err(CallError::connection_refused()), now);
        assert_eq!(stream.withheld_for(now), None);
        stream.runtime_answered(now);
        assert_eq!(stream.advance(now), Due::Open);
    }
}
