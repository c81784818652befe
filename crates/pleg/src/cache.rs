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
    /// A pod of which nothing changes is vouched for by relists alone, which are up to
    /// [`Config::relist_ceiling`](crate::Config::relist_ceiling) apart; who cannot wait asks
    /// for one ([`Pleg::request_relist`](crate::Pleg::request_relist)).
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

    /// Vouches, as of a relist begun at `time`, for every pod but those that are `pending`.
    pub fn relisted(&self, time: Instant, pending: BTreeSet<PodUid>) {
        let mut contents = self.write();
        contents.pending = pending;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{advance, timeout};

    use super::*;

    fn uid() -> PodUid {
        "u".into()
    }

    fn status() -> PodStatus {
        PodStatus {
            name: "p".into(),
            ..PodStatus::unknown(uid())
        }
    }

    /// Whether the cache has something newer than `time` without waiting.
    async fn has_newer(cache: &Cache, time: Instant) -> bool {
        let uid = uid();
        let newer = cache.newer_than(&uid, time);
        timeout(Duration::from_millis(1), newer).await.is_ok()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn nothing_is_newer_than_anything_before_the_first_relist() {
        let (_writer, cache) = cache();
        assert_eq!(cache.get(&uid()), Entry::unknown(&uid()));
        assert!(!has_newer(&cache, Instant::now()).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_as_new_as_its_inspection_or_the_last_relist() {
        let (writer, cache) = cache();
        let first = Instant::now();
        writer.set(&uid(), status(), first + SECOND);
        assert!(has_newer(&cache, first).await);
        assert!(
            !has_newer(&cache, first + SECOND).await,
            "as old is not newer"
        );
        writer.relisted(first + SECOND * 2, BTreeSet::new());
        assert!(has_newer(&cache, first + SECOND).await);
        assert!(!has_newer(&cache, first + SECOND * 2).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_the_runtime_does_not_have_is_as_new_as_the_last_relist() {
        let (writer, cache) = cache();
        let asked = Instant::now();
        writer.relisted(asked + SECOND, BTreeSet::new());
        let entry = cache.newer_than(&uid(), asked).await.unwrap();
        assert_eq!(entry, Entry::unknown(&uid()));
    }

    #[tokio::test(start_paused = true)]
    async fn no_relist_vouches_for_a_pod_that_differs_from_its_entry() {
        let (writer, cache) = cache();
        let asked = Instant::now();
        writer.relisted(asked + SECOND, [uid()].into());
        assert!(!has_newer(&cache, asked).await);
        writer.set(&uid(), status(), asked + SECOND);
        assert!(has_newer(&cache, asked).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_is_released_by_an_inspection_an_error_a_relist_and_a_removal() {
        let failed = || InspectError::Overdue {
            call: crate::runtime::Call::ContainerStatus,
            id: "c".into(),
        };
        type Release = fn(&CacheWriter, Instant, InspectError);
        let releases: [Release; 4] = [
            |writer, now, _| drop(writer.set(&uid(), status(), now)),
            |writer, now, error| writer.set_error(&uid(), error, now),
            |writer, now, _| writer.relisted(now, BTreeSet::new()),
            |writer, now, _| {
                writer.relisted(now, BTreeSet::new());
                writer.remove(&uid());
            },
        ];
        for release in releases {
            let (writer, cache) = cache();
            writer.set(&uid(), status(), Instant::now());
            let asked = Instant::now();
            let waiter = tokio::spawn(async move { cache.newer_than(&uid(), asked).await });
            advance(SECOND).await;
            assert!(!waiter.is_finished());
            release(&writer, Instant::now(), failed());
            assert!(waiter.await.unwrap().is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_can_have_a_deadline_and_learns_that_nobody_writes_any_more() {
        let (writer, cache) = cache();
        let now = Instant::now();
        assert!(
            timeout(SECOND, cache.newer_than(&uid(), now))
                .await
                .is_err()
        );
        drop(writer);
        assert_eq!(cache.newer_than(&uid(), now).await, Err(Stopped));
    }

    #[tokio::test(start_paused = true)]
    async fn times_never_go_backwards() {
        let (writer, cache) = cache();
        let start = Instant::now();
        writer.set(&uid(), status(), start + SECOND * 5);
        writer.set(&uid(), status(), start + SECOND);
        assert_eq!(cache.get(&uid()).modified, Some(start + SECOND * 5));
        writer.relisted(start + SECOND * 9, BTreeSet::new());
        writer.relisted(start + SECOND * 2, BTreeSet::new());
        assert!(has_newer(&cache, start + SECOND * 8).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_kept_beside_the_last_good_status_until_the_next() {
        let (writer, cache) = cache();
        let error = InspectError::Overdue {
            call: crate::runtime::Call::PodSandboxStatus,
            id: "s".into(),
        };
        writer.set(&uid(), status(), Instant::now());
        writer.set_error(&uid(), error.clone(), Instant::now());
        let entry = cache.get(&uid());
        assert_eq!((entry.error, &*entry.status.name), (Some(error), "p"));
        writer.set(&uid(), status(), Instant::now());
        assert_eq!(cache.get(&uid()).error, None);
        writer.remove(&uid());
        assert_eq!(cache.get(&uid()), Entry::unknown(&uid()));
    }
}
