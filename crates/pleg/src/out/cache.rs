//! The pod status cache: one writer, many readers.
//!
//! A pod's entry is current as of the time at which its last inspection was begun, or, if
//! nothing about it differed, as of the last relist. **What is new in a pod only the lists show**:
//! an inspection that follows a hint looks at what was known, so it confirms the pod as of those
//! lists. While lists are not to be had, and that is said, it confirms the pod as of itself; an entry
//! also says as of when it is complete. [`Cache::newer_than`] waits for both.
//!
//! ```
//! use std::time::Duration;
//!
//! use tokio::time::{Instant, timeout};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sim = sim::Sim::new();
//! sim.run("web-0", &["app"]);
//! let uid = sim.world().pod("web-0").pod.uid.clone();
//! # let environment = pleg::Environment { endpoint: "sim".into(), clock: sim.clock(), observer: std::sync::Arc::new(pleg::NoObserver), ids: pleg::no_ids(), kernel: None };
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), pleg::Config::default(), environment);
//!
//! let newer = pleg.cache().newer_than(&uid, Instant::now());
//! let entry = timeout(Duration::from_secs(10), newer).await??;
//! assert_eq!(entry.status.containers.len(), 1);
//! assert!(entry.error.is_none());
//! # Ok(())
//! # }
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, RwLock, RwLockReadGuard};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::model::id::PodUid;
use crate::model::run_clock::RunClock;
use crate::model::status::PodStatus;

mod contents;
mod entry;
mod writer;

use contents::Contents;
pub use entry::{Confirmation, Confirmed, Entry, Inspection};
pub use writer::CacheWriter;

/// A reader of the cache. Clones read the same.
#[derive(Clone)]
pub struct Cache {
    contents: Arc<RwLock<Contents>>,
    changed: watch::Receiver<()>,
    clock: RunClock,
}

/// Nobody will write the cache any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pod lifecycle event generator has stopped")]
pub struct Stopped;

impl Cache {
    /// The entry of a pod; the default one for a pod that is not known.
    pub fn get(&self, uid: &PodUid) -> Entry {
        let contents = self.read();
        match contents.pods.get(uid) {
            Some(entry) => contents.entry(uid, entry).on_monotonic(&self.clock),
            None => Entry::unknown(uid),
        }
    }

    /// All entries, by UID.
    pub fn all(&self) -> Vec<Entry> {
        let contents = self.read();
        let entries = contents.pods.iter();
        entries
            .map(|(uid, entry)| contents.entry(uid, entry).on_monotonic(&self.clock))
            .collect()
    }

    /// How many of the pods that have an error are such.
    pub(crate) fn count_failed(&self, is_such: impl Fn(&PodUid) -> bool) -> usize {
        let contents = self.read();
        contents.failed.iter().filter(|uid| is_such(uid)).count()
    }

    /// What was told of all pods that were ever inspected, by UID.
    pub(crate) fn all_told(&self) -> VecDeque<Arc<PodStatus>> {
        let contents = self.read();
        let told = contents.pods.keys().filter_map(|uid| contents.told(uid));
        told.collect()
    }

    /// The same of a single one.
    pub(crate) fn told(&self, uid: &PodUid) -> Option<Arc<PodStatus>> {
        self.read().told(uid)
    }

    /// Waits for an entry that is newer than `time`, with whatever was created before.
    ///
    /// Whoever has started a container by then finds it in the answer, unless it is gone. Only
    /// while sandboxes or containers cannot be listed, or in a pod of which containers are removed
    /// all the time, there are answers that may lack some of them: then
    /// [`Entry::complete_as_of`] is not newer than `time`. An answer with an
    /// [error](Entry::error) shows what was known before.
    ///
    /// So an answer may have to wait for the next relist, also if a hint has told of the pod since.
    /// Relists are up to [`Config::relist_ceiling`](crate::Config::relist_ceiling) apart; who
    /// cannot wait asks for one ([`Pleg::request_relist`](crate::Pleg::request_relist)).
    ///
    /// Dropping the future gives up, so a deadline is `tokio::time::timeout` around it.
    /// For a pod that the runtime does not have this is the default status, as soon as a
    /// look newer than `time` did not find it; while sandboxes cannot be listed, nothing
    /// says that a pod does not exist, and this waits.
    pub async fn newer_than(&self, uid: &PodUid, time: Instant) -> Result<Entry, Stopped> {
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if let Some(entry) = self.read().newer_than(uid, self.clock.at(time)) {
                return Ok(entry.on_monotonic(&self.clock));
            }
            changed.changed().await.map_err(|_| Stopped)?;
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().expect("no panic while it is held")
    }
}

/// An empty cache. It is written in times of this clock, and read in times of the monotonic one.
pub fn cache(clock: RunClock) -> (CacheWriter, Cache) {
    let contents = Arc::<RwLock<Contents>>::default();
    let (sender, receiver) = watch::channel(());
    let writer = CacheWriter {
        contents: contents.clone(),
        changed: sender,
    };
    let reader = Cache {
        contents,
        changed: receiver,
        clock,
    };
    (writer, reader)
}

#[cfg(test)]
mod tests;
