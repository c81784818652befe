//! The runtime's event stream: read for ever, its events taken as hints.
//!
//! ```text
//!   off                                  (mode generic)
//!   opening --1 s without an error, or the first event--> live --ends--> retrying (back-off)
//!      \--Unimplemented, or an end at once--> unsupported                    |
//!            ^                                     |  runtime restarted, or a minute
//!            \-------------------------------------+-------------------------/
//! ```
//!
//! The reader is a task that does nothing else and never waits for us: a reader that
//! stalls blocks containerd 2 itself.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::proof::Proof;
use super::{Generic, Message};
use crate::config::Mode;
use crate::event::{Event, Source};
use crate::id::PodRef;
use crate::records::{Hint, Met};
use crate::runtime::{Announced, AnnouncedSandbox, CallError, Runtime};
use crate::status_report::StreamStatus;

/// containerd answers with the first event only; one that has no stream says so at once.
const OPENING: Duration = Duration::from_secs(1);

/// The first pause before a stream is opened again; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a runtime that has no stream is not asked again, unless it was restarted.
const UNSUPPORTED_PAUSE: Duration = Duration::from_secs(60);

/// What the reader of the stream tells.
pub(super) enum Streamed {
    Announced(Announced),
    Ended(Result<(), CallError>),
}

/// The stream, and what it did.
#[derive(Debug)]
pub(super) struct Streaming {
    state: State,
    /// The pause before the next attempt, if that fails.
    pause: Duration,
    events: u64,
    missed: u64,
    reconnects: u64,
    was_live: bool,
}

#[derive(Debug)]
enum State {
    /// Not wanted.
    Off,
    /// Asked for; nobody said no yet.
    Opening {
        since: Instant,
    },
    Live {
        proof: Proof,
    },
    /// To be opened again then.
    Retrying {
        next: Instant,
    },
    /// The runtime has none; to be asked again then.
    Unsupported {
        next: Instant,
    },
}

impl Streaming {
    pub(super) fn new(mode: Mode, now: Instant) -> Self {
        let state = match mode {
            Mode::Generic => State::Off,
            Mode::Auto | Mode::Evented => State::Retrying { next: now },
        };
        Self {
            state,
            pause: PAUSE,
            events: 0,
            missed: 0,
            reconnects: 0,
            was_live: false,
        }
    }

    /// The proof, while there is a stream that can give one.
    pub(super) fn proof(&mut self) -> Option<&mut Proof> {
        match &mut self.state {
            State::Live { proof } => Some(proof),
            _ => None,
        }
    }

    /// How long to wait for the next relist.
    pub(super) fn period(&self, shortest: Duration, ceiling: Duration) -> Duration {
        match &self.state {
            State::Live { proof } => proof.period(shortest, ceiling),
            _ => shortest,
        }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, State::Live { .. })
    }

    /// When something is to be done about it.
    pub(super) fn alarm(&self) -> Option<Instant> {
        match &self.state {
            State::Off => None,
            State::Opening { since } => Some(*since + OPENING),
            State::Live { proof } => proof.due(),
            State::Retrying { next } | State::Unsupported { next } => Some(*next),
        }
    }

    /// The runtime is there again, or is another one: it is asked for a stream now.
    pub(super) fn runtime_answered(&mut self, now: Instant) {
        if let State::Retrying { next } | State::Unsupported { next } = &mut self.state {
            *next = now;
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
            reconnects: self.reconnects,
        }
    }
}

impl<R: Runtime> Generic<R> {
    /// Does what is due about the stream.
    pub(super) fn drive_stream(&mut self) {
        let now = Instant::now();
        match &mut self.streaming.state {
            State::Opening { since } if now >= *since + OPENING => self.stream_opened(),
            State::Live { proof } => {
                let missed = proof.pass(now);
                if missed > 0 {
                    tracing::info!("the event stream missed {missed} changes");
                    self.streaming.missed += missed;
                    self.hurry();
                }
            }
            // Which version of CRI it is spoken to in is settled first.
            State::Retrying { next } | State::Unsupported { next }
                if now >= *next && self.version.is_some() =>
            {
                self.open_stream();
            }
            _ => {}
        }
    }

    /// Something happened, which a stream that is any good announces.
    pub(super) fn expect_announcement(&mut self, event: &Event) {
        let before = self.lists.good_before;
        if let (Some(proof), Some(id), Some(before)) = (self.streaming.proof(), &event.id, before) {
            proof.happened(id, before, Instant::now());
        }
    }

    /// Nothing that the stream did counts any more, and the next relist is soon.
    pub(super) fn doubt_stream(&mut self) {
        if let Some(proof) = self.streaming.proof() {
            proof.doubt();
            self.hurry();
        }
    }

    /// The next relist is as soon as without a stream.
    fn hurry(&mut self) {
        self.lists.hurry(Instant::now() + self.config.relist_period);
    }

    fn open_stream(&mut self) {
        let reader = read(self.runtime.clone(), self.reports.clone());
        self.tasks.spawn(reader);
        let since = Instant::now();
        self.streaming.state = State::Opening { since };
    }

    fn stream_opened(&mut self) {
        let State::Opening { since } = self.streaming.state else {
            return;
        };
        let proof = Proof::new(since);
        self.streaming.state = State::Live { proof };
        if std::mem::replace(&mut self.streaming.was_live, true) {
            self.streaming.reconnects += 1;
        }
        self.environment.observer.stream_opened();
        // Whatever happened while nobody announced it.
        self.lists.request(Instant::now());
    }

    pub(super) fn on_streamed(&mut self, streamed: Streamed) {
        match streamed {
            Streamed::Announced(announced) => {
                self.stream_opened();
                self.streaming.events += 1;
                self.on_announced(announced);
            }
            Streamed::Ended(result) => self.stream_ended(result),
        }
    }

    fn stream_ended(&mut self, result: Result<(), CallError>) {
        let now = Instant::now();
        let lived = match &self.streaming.state {
            State::Live { proof } => Some(proof.age(now)),
            _ => None,
        };
        if lived > Some(LONGEST_PAUSE) {
            self.streaming.pause = PAUSE;
        }
        let why = match &result {
            Ok(()) => "the runtime ended it".to_owned(),
            Err(error) => error.to_string(),
        };
        self.environment.observer.stream_failed();
        self.streaming.state = match result {
            Err(CallError::Unimplemented(_)) => State::Unsupported {
                next: now + UNSUPPORTED_PAUSE,
            },
            // CRI-O without enable_pod_events.
            Ok(()) if lived.is_none() => State::Unsupported {
                next: now + UNSUPPORTED_PAUSE,
            },
            _ => State::Retrying {
                next: now + self.streaming.pause,
            },
        };
        self.streaming.pause = (self.streaming.pause * 2).min(LONGEST_PAUSE);
        match (&self.streaming.state, self.config.mode) {
            (State::Unsupported { .. }, Mode::Evented) => {
                tracing::warn!("the runtime has no event stream, so pods are relisted: {why}");
            }
            _ => tracing::debug!("the event stream ended: {why}"),
        }
        if lived.is_some() {
            self.hurry();
        }
    }

    fn on_announced(&mut self, announced: Announced) {
        let now = Instant::now();
        let Announced {
            id,
            created_at,
            sandbox,
        } = announced;
        let latency = created_at.map(|created| self.wall_time().since(created));
        self.environment.observer.stream_event(latency);
        if let Some(proof) = self.streaming.proof() {
            proof.heard(&id, now);
        }
        let (pod, met) = match sandbox {
            Some(AnnouncedSandbox { id: sandbox, pod }) if sandbox == id => {
                (Some(pod), Some(Met::Sandbox(id.clone())))
            }
            Some(AnnouncedSandbox { id: sandbox, pod }) => {
                let id = id.clone();
                (Some(pod), Some(Met::Container { id, sandbox }))
            }
            None => (self.records.pod_of(&id), None),
        };
        match pod {
            Some(pod) => {
                let hint = Hint {
                    source: Source::Stream,
                    at: now,
                    announced: created_at,
                    met: met.into_iter().collect(),
                };
                self.hint(&pod, hint);
            }
            // Nobody knows whose it is: the list does, or the sweep asks for it.
            None => {
                self.hinted_ids.insert(id);
                self.hurry();
            }
        }
    }

    pub(super) fn hint(&mut self, pod: &PodRef, hint: Hint) {
        self.records.hint(pod, hint);
        self.take_step(&pod.uid);
    }
}

/// Reads the stream until it ends.
async fn read<R: Runtime>(runtime: Arc<R>, reports: mpsc::UnboundedSender<Message>) {
    let ended = match runtime.announcements().await {
        Ok(mut announcements) => loop {
            match announcements.next().await {
                Some(Ok(announced)) => {
                    // Nobody listens any more when the generator stops, and we with it.
                    let _ = reports.send(Message::Streamed(Streamed::Announced(announced)));
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(()),
            }
        },
        Err(error) => Err(error),
    };
    let _ = reports.send(Message::Streamed(Streamed::Ended(ended)));
}
