//! The pod status cache: one writer, many readers.
//!
//! A pod's entry is current as of the time at which its last inspection was begun, or, if
//! nothing about it differed, as of the last relist. [`Cache::newer_than`] waits for
//! that. Times are those of the monotonic clock and never go backwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::id::{PodRef, PodUid};
use crate::inspect::InspectError;
use crate::status::PodStatus;

/// What the cache holds for a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The last good status; the default one if no inspection was good yet.
    pub status: Arc<PodStatus>,
    /// Why the newest inspection failed, if it did.
    pub error: Option<InspectError>,
    /// When the newest inspection was begun.
    pub modified: Option<Instant>,
}

impl Entry {
    fn unknown(uid: &PodUid) -> Self {
        Self {
            status: Arc::new(PodStatus::unknown(uid.clone())),
            error: None,
            modified: None,
        }
    }
}

#[derive(Default)]
struct Contents {
    pods: BTreeMap<PodUid, Entry>,
    /// Pods that differ from what the cache holds: no relist vouches for their entry
    /// until they are inspected.
    pending: BTreeSet<PodUid>,
    /// The beginning of the newest relist.
    relisted: Option<Instant>,
}

impl Contents {
    fn newer_than(&self, uid: &PodUid, time: Instant) -> Option<Entry> {
        let vouched = self.relisted.is_some_and(|relisted| relisted > time);
        let vouched = vouched && !self.pending.contains(uid);
        match self.pods.get(uid) {
            Some(entry) if vouched || entry.modified.is_some_and(|modified| modified > time) => {
                Some(entry.clone())
            }
            None if vouched => Some(Entry::unknown(uid)),
            _ => None,
        }
    }
}

/// A reader of the cache. Clones read the same.
#[derive(Clone)]
pub struct Cache {
    contents: Arc<RwLock<Contents>>,
    changed: watch::Receiver<()>,
}

/// Nobody will write the cache any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pod lifecycle event generator has stopped")]
pub struct Stopped;

impl Cache {
    /// The entry of a pod; the default one for a pod that is not known.
    pub fn get(&self, uid: &PodUid) -> Entry {
        let contents = self.read();
        contents
            .pods
            .get(uid)
            .cloned()
            .unwrap_or_else(|| Entry::unknown(uid))
    }

    /// All entries, by UID.
    pub fn all(&self) -> Vec<Entry> {
        self.read().pods.values().cloned().collect()
    }

    /// Waits for an entry that is newer than `time`.
    ///
    /// Dropping the future gives up, so a deadline is `tokio::time::timeout` around it.
    /// For a pod that the runtime does not have this is the default status, as soon as a
    /// relist newer than `time` did not find it.
    pub async fn newer_than(&self, uid: &PodUid, time: Instant) -> Result<Entry, Stopped> {
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if let Some(entry) = self.read().newer_than(uid, time) {
                return Ok(entry);
            }
            changed.changed().await.map_err(|_| Stopped)?;
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().expect("no panic while it is held")
    }
}

/// The writer; there is one.
pub struct CacheWriter {
    contents: Arc<RwLock<Contents>>,
    changed: watch::Sender<()>,
}

/// An empty cache.
pub fn cache() -> (CacheWriter, Cache) {
    let contents = Arc::<RwLock<Contents>>::default();
    let (sender, receiver) = watch::channel(());
    let writer = CacheWriter {
        contents: contents.clone(),
        changed: sender,
    };
    let reader = Cache {
        contents,
        changed: receiver,
    };
    (writer, reader)
}

impl CacheWriter {
    /// Writes what an inspection begun at `begun` found, and returns it as it stands in
    /// the cache: a pod that is ending keeps its addresses.
    pub fn set(&self, uid: &PodUid, mut status: PodStatus, begun: Instant) -> Arc<PodStatus> {
        let mut contents = self.write();
        contents.pending.remove(uid);
        let entry = contents.entry(uid);
        status.keep_ips_of(&entry.status);
        entry.status = Arc::new(status);
        entry.error = None;
        entry.modified = entry.modified.max(Some(begun));
        let status = entry.status.clone();
        drop(contents);
        self.changed.send_replace(());
        status
    }

    /// Notes that an inspection begun at `begun` failed. The last good status stays.
    pub fn set_error(&self, uid: &PodUid, error: InspectError, begun: Instant) {
        let mut contents = self.write();
        let entry = contents.entry(uid);
        entry.error = Some(error);
        entry.modified = entry.modified.max(Some(begun));
        drop(contents);
        self.changed.send_replace(());
    }

    /// Forgets a pod that is gone.
    pub fn remove(&self, uid: &PodUid) {
        let mut contents = self.write();
        contents.pods.remove(uid);
        contents.pending.remove(uid);
        drop(contents);
        self.changed.send_replace(());
    }

    /// Notes that a pod differs from its entry, which nothing vouches for any more. A new
    /// pod is known by name from here on.
    pub fn set_pending(&self, pod: &PodRef) {
        let mut contents = self.write();
        contents.pending.insert(pod.uid.clone());
        if !contents.pods.contains_key(&pod.uid) {
            let status = PodStatus {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                ..PodStatus::unknown(pod.uid.clone())
            };
            contents.entry(&pod.uid).status = Arc::new(status);
        }
    }

    /// Vouches, as of a relist begun at `time`, for every pod that is not pending.
    pub fn relisted(&self, time: Instant) {
        let mut contents = self.write();
        contents.relisted = contents.relisted.max(Some(time));
        drop(contents);
        self.changed.send_replace(());
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents.write().expect("no panic while it is held")
    }
}

impl Contents {
    fn entry(&mut self, uid: &PodUid) -> &mut Entry {
        self.pods
            .entry(uid.clone())
            .or_insert_with(|| Entry::unknown(uid))
    }
}
