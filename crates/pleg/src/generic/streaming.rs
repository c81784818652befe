//! The runtime's event stream: read for ever, its events taken as hints.
//!
//! The reader is a task that does nothing else and never waits for us: a reader that
//! stalls blocks containerd 2 itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::stream::Due;
use super::{Generic, Message};
use crate::config::Mode;
use crate::event::{Event, Source};
use crate::id::PodRef;
use crate::records::{Commit, Hint, Met};
use crate::runtime::{Announced, AnnouncedSandbox, CallError, Runtime};

/// How many events may wait to be taken in. The reader never waits, so what is more is
/// left to the next relist.
const MOST_UNREAD: usize = 10_000;

/// As many ids without a pod are remembered for the next sweep.
const MOST_HINTED: usize = 256;

/// What the reader of the stream tells.
pub(super) enum Streamed {
    /// More came than could be taken in: some are not told.
    Flooded,
    Announced(Announced),
    Ended(Result<(), CallError>),
}

impl<R: Runtime> Generic<R> {
    /// Does what is due about the stream.
    pub(super) fn drive_stream(&mut self) {
        // Which version of CRI it is spoken to in is settled first.
        if self.version.is_none() {
            return;
        }
        let now = Instant::now();
        match self.streaming.pass(now) {
            Due::Nothing => {}
            Due::Open => {
                self.streaming.opening(now);
                let unread = self.streaming.unread.clone();
                let reader = read(self.runtime.clone(), self.reports.clone(), unread);
                self.tasks.spawn(reader);
            }
            Due::Opened => self.stream_opened(),
            Due::Missed(missed) => {
                tracing::info!("the event stream missed {missed} changes");
                self.hurry();
            }
        }
    }

    /// Something happened, which a stream that is any good announces.
    pub(super) fn expect_announcement(&mut self, event: &Event, commit: &Commit) {
        let listed = self.lists.good_before(commit.begun);
        if let (Some(proof), Some(id), Some(listed)) = (self.streaming.proof(), &event.id, listed) {
            proof.happened(id, commit.since, listed, Instant::now());
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

    fn stream_opened(&mut self) {
        if self.streaming.opened() {
            self.environment.observer.stream_opened();
            // Whatever happened while nobody announced it.
            self.lists.request(Instant::now());
        }
    }

    pub(super) fn on_streamed(&mut self, streamed: Streamed) {
        match streamed {
            Streamed::Flooded => {
                tracing::debug!("the event stream brings more than can be taken in");
                self.doubt_stream();
            }
            Streamed::Announced(announced) => {
                self.streaming.unread.fetch_sub(1, Ordering::Relaxed);
                self.stream_opened();
                self.on_announced(announced);
            }
            Streamed::Ended(result) => self.stream_ended(result),
        }
    }

    fn stream_ended(&mut self, result: Result<(), CallError>) {
        self.environment.observer.stream_failed();
        let was_live = self.streaming.ended(&result, Instant::now());
        let why = match result {
            Ok(()) => "the runtime ended it".to_owned(),
            Err(error) => error.to_string(),
        };
        if self.streaming.is_unsupported() && self.config.mode == Mode::Evented {
            tracing::warn!("the runtime has no event stream, so pods are relisted: {why}");
        } else {
            tracing::debug!("the event stream ended: {why}");
        }
        if was_live {
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
        self.streaming.announced(&id, now);
        let (pod, met) = match sandbox {
            Some(AnnouncedSandbox { id: sandbox, pod }) if sandbox == id => {
                (Some(pod), vec![Met::Sandbox(sandbox)])
            }
            Some(AnnouncedSandbox { id: sandbox, pod }) => {
                let container = Met::Container {
                    id: id.clone(),
                    sandbox: sandbox.clone(),
                };
                (Some(pod), vec![Met::Sandbox(sandbox), container])
            }
            None => (self.records.pod_of(&id), Vec::new()),
        };
        match pod {
            Some(pod) => {
                let hint = Hint {
                    source: Source::Stream,
                    at: now,
                    announced: created_at,
                    met,
                };
                self.hint(&pod, hint);
            }
            // Nobody knows whose it is: the list does, or the sweep asks for it.
            None => {
                if self.hinted_ids.len() < MOST_HINTED {
                    self.hinted_ids.insert(id, now);
                }
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
async fn read<R: Runtime>(
    runtime: Arc<R>,
    reports: mpsc::UnboundedSender<Message>,
    unread: Arc<AtomicUsize>,
) {
    let mut flooded = false;
    let ended = match runtime.announcements().await {
        Ok(mut announcements) => loop {
            match announcements.next().await {
                Some(Ok(announced)) => {
                    let floods = unread.load(Ordering::Relaxed) >= MOST_UNREAD;
                    let message = match floods {
                        false => Streamed::Announced(announced),
                        true if flooded => continue,
                        true => Streamed::Flooded,
                    };
                    unread.fetch_add(usize::from(!floods), Ordering::Relaxed);
                    flooded = floods;
                    // Nobody listens any more when the generator stops, and we with it.
                    let _ = reports.send(Message::Streamed(message));
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(()),
            }
        },
        Err(error) => Err(error),
    };
    let _ = reports.send(Message::Streamed(Streamed::Ended(ended)));
}
