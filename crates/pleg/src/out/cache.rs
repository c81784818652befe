//! The pod status cache: one writer, many readers.
//!
//! A pod's entry is current as of the beginning of its last inspection, or, if nothing differed, as of
//! the last relist. **Only lists show what is new in a pod**: an inspection that follows a hint covers
//! the known ids, so it confirms the pod as of the lists that showed these ids. While lists are
//! unavailable, and this is reported, it confirms the pod as of its own beginning. An entry also contains
//! the time as of which it is complete. [`Cache::newer_than`] waits for both times.
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
//! # let environment = pleg::Environment::new("sim", sim.clock());
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), Default::default(), environment);
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

/// A reader of the cache. Clones read the same cache.
#[derive(Clone)]
pub struct Cache {
    contents: Arc<RwLock<Contents>>,
    changed: watch::Receiver<()>,
    clock: RunClock,
}

/// The engine has stopped: the cache will not change any more.
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
        let entries = entries.map(|(uid, entry)| contents.entry(uid, entry));
        entries
            .map(|entry| entry.on_monotonic(&self.clock))
            .collect()
    }

    /// How many of the pods with an error match.
    pub(crate) fn count_failed(&self, matches: impl Fn(&PodUid) -> bool) -> usize {
        let contents = self.read();
        contents.failed.keys().filter(|uid| matches(uid)).count()
    }

    /// The last reported status of each pod that was ever inspected, by UID.
    pub(crate) fn all_reported(&self) -> VecDeque<Arc<PodStatus>> {
        let contents = self.read();
        let uids = contents.pods.keys();
        uids.filter_map(|uid| contents.reported(uid)).collect()
    }

    /// The last reported status of one pod, if it was ever inspected.
    pub(crate) fn reported(&self, uid: &PodUid) -> Option<Arc<PodStatus>> {
        self.read().reported(uid)
    }

    /// Waits for an entry that is newer than `time`.
    ///
    /// The entry contains each container that was started before `time`, unless it was removed. There are
    /// two exceptions: while sandboxes or containers cannot be listed, and if the pod's containers are
    /// removed continuously. Then [`Entry::complete_as_of`] is not newer than `time`. An entry with an
    /// [error](Entry::error) shows the last known status.
    ///
    /// This may wait for the next relist, even if a hint about the pod has arrived since. Relists are up to
    /// [`Config::relist_ceiling`](crate::Config::relist_ceiling) apart. A caller that cannot wait can
    /// request a relist ([`Pleg::request_relist`](crate::Pleg::request_relist)).
    ///
    /// Dropping the future cancels it; wrap it in `tokio::time::timeout` for a deadline. For a pod that
    /// the runtime does not have, the result is the default entry, as soon as a pass that is newer than
    /// `time` did not find the pod. While sandboxes cannot be listed, nothing shows that a pod does not
    /// exist, and this waits.
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

    /// Waits until a pass or an inspection has ended since the last call of this function returned.
    pub async fn changed(&mut self) -> Result<(), Stopped> {
        self.changed.changed().await.map_err(|_| Stopped)
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().expect("no panic while it is held")
    }
}

/// An empty cache. The writer uses times of the run clock, readers use times of the monotonic clock.
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
