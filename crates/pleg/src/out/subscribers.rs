//! Subscribers: each has a bounded queue, and always receives the final state.
//!
//! ```text
//!   publish --> queue (bounded) --next()--> consumer
//!                 |  full
//!                 v
//!               gap: pods and a count --> the present state of these pods, from the cache
//! ```
//!
//! A slow subscriber delays no other. Its queued events are merged into "these pods changed" and
//! counted. When it reads again it receives the present state of those pods. So it may miss intermediate
//! events, which is reported, but never the final state.
//!
//! ```
//! use std::time::Duration;
//!
//! use pleg::out::record::Record;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), pleg::out::cache::Stopped> {
//! let sim = sim::Sim::new();
//! sim.run("web-0", &["app"]);
//! # let environment = pleg::Environment::new("sim", sim.clock());
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), Default::default(), environment);
//! tokio::time::sleep(Duration::from_secs(1)).await;
//!
//! let mut records = pleg.subscribe().await?;
//! let mut initial = 0;
//! while let Some(Record::Event(event)) = records.next().await {
//!     assert!(event.initial);
//!     initial += 1;
//! }
//! assert_eq!(initial, 2, "a container and its sandbox run");
//! # Ok(())
//! # }
//! ```

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::Notify;

use crate::model::event::Event;
use crate::model::id::PodUid;
use crate::model::status::PodStatus;
use crate::model::wall_time::WallClock;
use crate::out::cache::Cache;
use crate::out::record::{Record, present_events};

/// How many records a subscriber may be behind: as many as the kubelet's channel holds.
const MAX_QUEUED_RECORDS: usize = 1000;

/// A gap with more pods than this does not name them: the present state of every pod follows.
const MAX_PODS_IN_GAP: usize = 256;

/// Keeps the generator running for as long as it is held.
pub(crate) type Lifeline = Box<dyn Any + Send + Sync>;

/// All subscribers.
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

/// Merged events.
#[derive(Default)]
struct Gap {
    conflated: u64,
    /// The pods of these events, at most one more than are named.
    pods: BTreeSet<PodUid>,
}

impl Gap {
    fn add(&mut self, uid: PodUid) {
        self.conflated += 1;
        if !self.has_too_many_pods() {
            self.pods.insert(uid);
        }
    }

    fn has_too_many_pods(&self) -> bool {
        self.pods.len() > MAX_PODS_IN_GAP
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no panic while it is held")
    }
}

/// The reading end of a subscription. The engine runs while there is one; dropping it ends the
/// subscription.
pub struct Subscription {
    _lifeline: Lifeline,
    shared: Arc<Shared>,
    cache: Cache,
    clock: WallClock,
    /// The pods whose present state is delivered before anything else. Their events are made one pod at a
    /// time.
    present: VecDeque<Arc<PodStatus>>,
    /// The remaining events of the pod that is being delivered.
    events: VecDeque<Event>,
    /// The records that are delivered after `present` and `events`, and before the queue.
    first: VecDeque<Record>,
}

impl Subscribers {
    /// Adds a subscriber. It receives the state in the cache, then the records in `then`, then what is
    /// published. `lifeline` is held until the subscription ends.
    pub(crate) fn subscribe(
        &mut self,
        lifeline: Lifeline,
        cache: Cache,
        then: Vec<Record>,
        clock: WallClock,
    ) -> Subscription {
        let shared = Arc::<Shared>::default();
        // Remove subscribers that were dropped, even if nothing is published.
        self.queues.retain(|queue| queue.strong_count() > 0);
        self.queues.push(Arc::downgrade(&shared));
        Subscription {
            _lifeline: lifeline,
            present: cache.all_reported(),
            cache,
            shared,
            clock,
            events: VecDeque::new(),
            first: then.into(),
        }
    }

    /// Delivers a record to all subscribers. Returns the number of events that were merged to make
    /// room for it.
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
    /// Adds a record. Returns the number of events that were merged to make room for it.
    fn push(&mut self, record: Record) -> u64 {
        // Only the newest health counts: each report names everything that is stuck.
        if matches!(record, Record::Health(_)) {
            self.records
                .retain(|record| !matches!(record, Record::Health(_)));
        }
        let conflated = match self.records.len() < MAX_QUEUED_RECORDS {
            true => 0,
            false => self.conflate(),
        };
        self.records.push_back(record);
        conflated
    }

    /// Turns the queued events into a gap, and returns their number. Of other records, the newest of each
    /// kind is kept.
    fn conflate(&mut self) -> u64 {
        let gap = self.gap.get_or_insert_default();
        let before = gap.conflated;
        let (mut synced, mut health) = (None, None);
        for record in self.records.drain(..) {
            match record {
                Record::Event(event) => gap.add(event.pod.uid),
                Record::Synced { .. } => synced = Some(record),
                Record::Health(_) => health = Some(record),
                // Gaps are made when a queue is read, and never queued.
                Record::Gap { .. } => {}
            }
        }
        self.records.extend(synced.into_iter().chain(health));
        gap.conflated - before
    }
}

impl Subscription {
    /// The next record; `None` once the engine has stopped and everything was delivered.
    pub async fn next(&mut self) -> Option<Record> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Record::Event(event));
            }
            if let Some(status) = self.present.pop_front() {
                let time = (self.clock)();
                self.events = present_events(&status, time).into();
                continue;
            }
            if let Some(record) = self.first.pop_front() {
                return Some(record);
            }
            if let Some(gap) = self.take_gap() {
                return Some(gap);
            }
            {
                let mut queue = self.shared.lock();
                let record = queue.records.pop_front();
                if record.is_some() || queue.closed {
                    return record;
                }
            }
            self.shared.arrived.notified().await;
        }
    }

    /// The gap, if there is one; the present state of its pods is delivered next.
    fn take_gap(&mut self) -> Option<Record> {
        let gap = self.shared.lock().gap.take()?;
        let all = gap.has_too_many_pods();
        let pods = if all { BTreeSet::new() } else { gap.pods };
        self.present = match all {
            true => self.cache.all_reported(),
            false => pods
                .iter()
                .filter_map(|uid| self.cache.reported(uid))
                .collect(),
        };
        Some(Record::Gap {
            time: (self.clock)(),
            conflated: gap.conflated,
            pods: pods.into_iter().collect(),
            all,
        })
    }
}
