//! Subscribers: many, each with a bounded queue, and none ever loses the end.
//!
//! ```text
//!   publish --> queue (bounded) --next()--> consumer
//!                 |  full
//!                 v
//!               gap: pods and a count --> the present state of these pods, from the cache
//! ```
//!
//! A subscriber that falls behind holds nobody up. Its queued events are conflated into
//! "these pods changed", counted, and once it reads again it is told how those pods are
//! now. So intermediate events can be missed, visibly; the end cannot.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::Notify;

use crate::cache::Cache;
use crate::event::Event;
use crate::id::PodUid;
use crate::told::{Record, present_events};
use crate::wall_time::{WallClock, WallTime};

/// How many records a subscriber may be behind; the kubelet's channel holds as many.
pub const QUEUE: usize = 1000;

/// Keeps the generator running for as long as it is held.
pub(crate) type Lifeline = Box<dyn Any + Send + Sync>;

/// Those who are told.
#[derive(Default)]
pub(crate) struct Subscribers {
    queues: Vec<Weak<Shared>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Notify,
}

#[derive(Default)]
struct Queue {
    records: VecDeque<Record>,
    gap: Option<Gap>,
    closed: bool,
}

#[derive(Default)]
struct Gap {
    conflated: u64,
    pods: BTreeSet<PodUid>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no panic while it is held")
    }
}

/// The reading end. The generator runs for as long as there is one; dropping it ends the
/// subscription.
pub struct Subscription {
    _lifeline: Lifeline,
    shared: Arc<Shared>,
    cache: Cache,
    clock: WallClock,
    /// What is told before anything from the queue.
    first: VecDeque<Record>,
}

impl Subscribers {
    /// Adds a subscriber that is told `first` before all else.
    pub(crate) fn subscribe(
        &mut self,
        lifeline: Lifeline,
        cache: Cache,
        first: impl IntoIterator<Item = Record>,
        clock: WallClock,
    ) -> Subscription {
        let shared = Arc::<Shared>::default();
        self.queues.push(Arc::downgrade(&shared));
        Subscription {
            _lifeline: lifeline,
            cache,
            shared,
            clock,
            first: first.into_iter().collect(),
        }
    }

    /// Tells everybody, and gives the number of events that were conflated for it.
    pub(crate) fn publish(&mut self, record: &Record) -> u64 {
        let mut conflated = 0;
        self.queues.retain(|queue| {
            let Some(shared) = queue.upgrade() else {
                return false;
            };
            conflated += shared.lock().push(record.clone());
            shared.arrived.notify_one();
            true
        });
        conflated
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        for shared in self.queues.iter().filter_map(Weak::upgrade) {
            shared.lock().closed = true;
            shared.arrived.notify_one();
        }
    }
}

impl Queue {
    fn push(&mut self, record: Record) -> u64 {
        let conflated = if self.records.len() >= QUEUE {
            self.conflate()
        } else {
            0
        };
        self.records.push_back(record);
        conflated
    }

    /// Turns the queued events into a gap. Of other records the newest of a kind says all.
    fn conflate(&mut self) -> u64 {
        let gap = self.gap.get_or_insert_default();
        let before = gap.conflated;
        let (mut synced, mut health) = (None, None);
        for record in self.records.drain(..) {
            match record {
                Record::Event(event) => {
                    gap.conflated += 1;
                    gap.pods.insert(event.pod.uid);
                }
                Record::Synced { .. } => synced = Some(record),
                Record::Health(_) => health = Some(record),
                // Gaps are made when a queue is read, so none is queued.
                Record::Gap { .. } => {}
            }
        }
        self.records.extend(synced.into_iter().chain(health));
        gap.conflated - before
    }
}

impl Subscription {
    /// The next record; `None` once the generator has stopped and all was told.
    pub async fn next(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.first.pop_front() {
                return Some(record);
            }
            if let Some(gap) = self.take_gap() {
                return Some(gap);
            }
            {
                let mut queue = self.shared.lock();
                if let Some(record) = queue.records.pop_front() {
                    return Some(record);
                }
                if queue.closed {
                    return None;
                }
            }
            self.shared.arrived.notified().await;
        }
    }

    /// The gap if there is one; the present state of its pods is then told next.
    fn take_gap(&mut self) -> Option<Record> {
        let gap = self.shared.lock().gap.take()?;
        let time = (self.clock)();
        for uid in &gap.pods {
            let events = self.present(uid, time);
            self.first.extend(events.into_iter().map(Record::Event));
        }
        Some(Record::Gap {
            time,
            conflated: gap.conflated,
            pods: gap.pods.into_iter().collect(),
        })
    }

    fn present(&self, uid: &PodUid, time: WallTime) -> Vec<Event> {
        present_events(&self.cache.get(uid).status, time)
    }
}
