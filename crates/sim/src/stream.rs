//! The stream of events: how the runtime serves it, and what goes wrong with it.
//!
//! ```text
//!   changes --> Announcer --StreamFaults: drop, duplicate, swap, late--> who reads (Serving)
//!                                                                          |  a queue each
//!                                                                          v
//!                                                       Reader --when due--> trait, or socket
//! ```
//!
//! Nothing ever waits for a reader: one that stops reading loses what its queue cannot
//! hold, as with containerd 1.7 and CRI-O.

use std::collections::{BTreeMap, VecDeque};

use futures_util::Stream;
use pleg::model::id::PodRef;
use pleg::model::wall_time::WallTime;
use pleg::runtime::{Announced, AnnouncedSandbox, CallError};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use crate::stream_faults::StreamFaults;
use crate::watched::{Change, Known};

/// What one reader's queue holds: some 10,000 containers that come and go at once.
const QUEUE: usize = 1 << 16;

/// How a runtime serves its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serving {
    /// Every reader gets every event, as with containerd 2.
    #[default]
    Broadcast,
    /// Each event goes to one reader, as with containerd 1.7, where one that has gone is
    /// noticed by the event that is lost to it.
    OneReader,
    /// The stream ends as soon as it is open, as with CRI-O unless its pod events are
    /// enabled.
    EndsAtOnce,
    /// There is no such method, as with containerd 1.6.
    Unimplemented,
}

/// An event on its way.
#[derive(Clone, Debug)]
pub(crate) struct StreamEvent {
    pub(crate) change: Change,
    pub(crate) created_at: WallTime,
    /// Whether it says in which sandbox, and how that is.
    pub(crate) with_status: bool,
}

impl StreamEvent {
    /// As the library takes it.
    pub(crate) fn announced(self) -> Announced {
        Announced {
            id: self.change.id,
            created_at: Some(self.created_at),
            sandbox: self.with_status.then_some(self.change.sandbox),
            is_removal: self.change.after.is_none(),
        }
    }
}

/// Tells the world's changes to whoever reads the stream.
#[derive(Default)]
pub(crate) struct Announcer {
    pub(crate) known: Known,
    pub(crate) serving: Serving,
    pub(crate) faults: StreamFaults,
    readers: VecDeque<Sender<(Instant, StreamEvent)>>,
    discarded: usize,
    /// How many events of ids that nobody has were made.
    flooded: usize,
}

impl Announcer {
    /// The number of the first of so many events of ids that nobody has.
    pub(crate) fn count_flood(&mut self, events: usize) -> usize {
        self.flooded += events;
        self.flooded - events
    }

    /// Tells what no change has made.
    pub(crate) fn make(&mut self, change: Change, with_status: bool, created_at: WallTime) {
        let event = StreamEvent {
            change,
            created_at,
            with_status,
        };
        self.send(Instant::now(), event);
    }

    /// Tells a change, the way the faults in force leave it.
    pub(crate) fn tell(&mut self, change: Change, created_at: WallTime) {
        let event = StreamEvent {
            change,
            created_at,
            with_status: true,
        };
        for (late, event) in self.faults.pass(event) {
            self.send(Instant::now() + late, event);
        }
    }

    /// Tells an event that no change has made.
    pub(crate) fn say(&mut self, event: Announced, created_at: WallTime) {
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
            after: None,
            sandbox: event.sandbox.unwrap_or_else(nowhere),
            pod: None,
        };
        self.make(change, with_status, created_at);
    }

    /// Lifts the stream's faults; what was held back is told now.
    pub(crate) fn calm(&mut self) {
        if let Some(event) = std::mem::take(&mut self.faults).held() {
            self.send(Instant::now(), event);
        }
    }

    /// A new reader.
    pub(crate) fn open(&mut self) -> Result<Reader, CallError> {
        let (sender, events) = channel(QUEUE);
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
    pub(crate) fn end(&mut self) {
        self.readers.clear();
    }

    /// How many events were lost because a reader's queue was full.
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
    /// What was taken from the queue and is not due, in the order in which it was told.
    waiting: BTreeMap<(Instant, u64), StreamEvent>,
    taken: u64,
}

impl Reader {
    /// The events as they become due.
    pub(crate) fn stream(self) -> impl Stream<Item = StreamEvent> + Send + 'static {
        let next = async |mut reader: Self| Some((reader.next().await?, reader));
        futures_util::stream::unfold(self, next)
    }

    /// `None` once the stream has ended. What was late then is lost.
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
