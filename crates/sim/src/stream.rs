//! The stream of events: how the runtime serves it, with its faults.
//!
//! ```text
//!   changes --> EventSource --StreamFaults: drop, duplicate, swap, delay--> readers (Serving)
//!                                                                           |  a queue each
//!                                                                           v
//!                                                        Reader --when due--> trait, or socket
//! ```
//!
//! Nothing ever waits for a reader: a reader that stops loses the events that do not fit into its
//! queue, as with containerd 1.7 and CRI-O.

use std::collections::{BTreeMap, VecDeque};

use futures_util::Stream;
use pleg::model::id::PodRef;
use pleg::model::listed::ContainerState;
use pleg::model::wall_time::WallTime;
use pleg::runtime::{Announced, AnnouncedSandbox, CallError};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use crate::changes::{Change, Published, State};
use crate::stream_faults::StreamFaults;

/// The capacity of a reader's queue: some 10,000 containers can start and end at once.
const MAX_QUEUED_EVENTS: usize = 1 << 16;

/// How a runtime serves its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serving {
    /// Every reader receives every event, as with containerd 2.
    #[default]
    Broadcast,
    /// Each event goes to one reader, as with containerd 1.7. There, a reader that has closed its
    /// stream is noticed only when an event is sent to it, and that event is lost.
    OneReader,
    /// The stream ends as soon as it is open, as with CRI-O unless its pod events are
    /// enabled.
    EndsAtOnce,
    /// The method is not implemented, as in containerd 1.6.
    Unimplemented,
}

/// An event of the stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamEvent {
    pub(crate) change: Change,
    pub(crate) created_at: WallTime,
    /// Whether the event that is sent includes the sandbox and its status.
    pub(crate) with_status: bool,
}

impl StreamEvent {
    /// The event in the library's form.
    pub(crate) fn announced(self) -> Announced {
        Announced {
            id: self.change.id,
            created_at: Some(self.created_at),
            sandbox: self.with_status.then_some(self.change.sandbox),
            is_removal: self.change.after.is_none(),
        }
    }
}

/// Sends the changes of the world to the readers of the stream.
#[derive(Default)]
pub(crate) struct EventSource {
    pub(crate) published: Published,
    pub(crate) serving: Serving,
    pub(crate) faults: StreamFaults,
    readers: VecDeque<Sender<(Instant, StreamEvent)>>,
    discarded: usize,
    /// The number of unknown ids that floods have used so far.
    flooded: usize,
}

impl EventSource {
    /// Reserves numbers for this many events with unknown ids, and returns the first one.
    pub(crate) fn reserve_numbers(&mut self, events: usize) -> usize {
        self.flooded += events;
        self.flooded - events
    }

    /// Sends an event without applying faults.
    pub(crate) fn send_unfiltered(
        &mut self,
        change: Change,
        with_status: bool,
        created_at: WallTime,
    ) {
        let event = StreamEvent {
            change,
            created_at,
            with_status,
        };
        self.send(Instant::now(), event);
    }

    /// Applies the faults of the stream to the event of a change, and sends the result.
    pub(crate) fn publish(&mut self, change: Change, created_at: WallTime) {
        let event = StreamEvent {
            change,
            created_at,
            with_status: true,
        };
        for (delay, event) in self.faults.apply(event) {
            self.send(Instant::now() + delay, event);
        }
    }

    /// Sends an event that is not caused by any change. Its time is `now` unless it has one.
    pub(crate) fn inject(&mut self, event: Announced, now: WallTime) {
        let with_status = event.sandbox.is_some();
        let nowhere = || AnnouncedSandbox {
            id: "".into(),
            pod: PodRef {
                uid: "".into(),
                namespace: "".into(),
                name: "".into(),
            },
        };
        let change = Change {
            id: event.id,
            before: None,
            after: (!event.is_removal).then_some(State::Container(ContainerState::Running)),
            sandbox: event.sandbox.unwrap_or_else(nowhere),
            pod: None,
        };
        self.send_unfiltered(change, with_status, event.created_at.unwrap_or(now));
    }

    /// Lifts the faults of the stream, and sends an event that waits to be swapped.
    pub(crate) fn lift_faults(&mut self) {
        if let Some(event) = std::mem::take(&mut self.faults).swapped() {
            self.send(Instant::now(), event);
        }
    }

    /// Opens the stream for a new reader.
    pub(crate) fn open(&mut self) -> Result<Reader, CallError> {
        let (sender, events) = channel(MAX_QUEUED_EVENTS);
        match self.serving {
            Serving::Broadcast | Serving::OneReader => self.readers.push_back(sender),
            Serving::EndsAtOnce => drop(sender),
            Serving::Unimplemented => {
                let why = "unknown method GetContainerEvents";
                return Err(CallError::Unimplemented(why.into()));
            }
        }
        Ok(Reader {
            events,
            waiting: BTreeMap::new(),
            taken: 0,
        })
    }

    /// Ends all streams.
    pub(crate) fn end_streams(&mut self) {
        self.readers.clear();
    }

    /// The number of events that were lost because a reader's queue was full.
    pub(crate) fn discarded(&self) -> usize {
        self.discarded
    }

    fn send(&mut self, due: Instant, event: StreamEvent) {
        let readers = match self.serving {
            Serving::OneReader => self.readers.len().min(1),
            _ => self.readers.len(),
        };
        for _ in 0..readers {
            let Some(reader) = self.readers.pop_front() else {
                break;
            };
            match reader.try_send((due, event.clone())) {
                Ok(()) => self.readers.push_back(reader),
                Err(TrySendError::Full(_)) => {
                    self.discarded += 1;
                    self.readers.push_back(reader);
                }
                Err(TrySendError::Closed(_)) => {}
            }
        }
    }
}

/// One reader's end of the stream.
pub(crate) struct Reader {
    events: Receiver<(Instant, StreamEvent)>,
    /// Events taken from the queue, by the time at which they are due, then in the order in which they were
    /// sent.
    waiting: BTreeMap<(Instant, u64), StreamEvent>,
    taken: u64,
}

impl Reader {
    /// The events as they become due.
    pub(crate) fn stream(self) -> impl Stream<Item = StreamEvent> + Send + 'static {
        let next = async |mut reader: Self| Some((reader.next().await?, reader));
        futures_util::stream::unfold(self, next)
    }

    /// The next event; `None` once the stream has ended. Events that are due by then are delivered first; the
    /// others are lost.
    async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            while let Ok(event) = self.events.try_recv() {
                self.take(event);
            }
            let first = self.waiting.first_entry();
            let due = first.as_ref().map(|first| first.key().0);
            if let Some(first) = first
                && first.key().0 <= Instant::now()
            {
                return Some(first.remove());
            }
            tokio::select! {
                biased;
                event = self.events.recv() => self.take(event?),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    fn take(&mut self, (due, event): (Instant, StreamEvent)) {
        self.waiting.insert((due, self.taken), event);
        self.taken += 1;
    }
}
