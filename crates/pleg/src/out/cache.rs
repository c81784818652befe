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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::model::id::{Id, PodUid};
use crate::model::listed::ListedPod;
use crate::model::run_clock::RunClock;
use crate::model::status::{ContainerStatus, PodStatus};
use crate::model::wall_time::Moment;
use crate::out::failure::InspectError;

/// What the cache holds for a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The last good status; of a pod that was never inspected what the lists tell of it.
    pub status: Arc<PodStatus>,
    /// Whether the status is of an inspection, and not only of the lists.
    pub inspected: bool,
    /// Why the newest inspection failed, if it did, or why what it found is not true, or which of
    /// its calls does not return.
    pub error: Option<InspectError>,
    /// The containers that the runtime reports as running although their process is dead, as the
    /// kernel has told for seconds. There is an error then, which may be another one.
    pub dead: BTreeSet<Id>,
    /// As of when the status, or the error beside it, is known.
    pub modified: Option<Instant>,
    /// As of when the status was last confirmed: by an inspection, or by a look that found
    /// nothing changed. What is new in a pod must be known then. Only while it is
    /// [said](crate::out::health::Blind) that this cannot be seen, what confirms all else counts
    /// too; once it can be seen again, this is as of the last time that it was, which is earlier.
    pub as_of: Option<Moment>,
    /// As of when the status is complete: it has every sandbox and container that was there then,
    /// unless it is gone. It stays behind while either of them cannot be listed, and is `None`
    /// while the status lacks one that is listed: that may have been removed since, or the
    /// runtime does not find it for a moment.
    pub complete_as_of: Option<Instant>,
}

impl Entry {
    fn unknown(uid: &PodUid) -> Self {
        Self {
            status: Arc::new(PodStatus::unknown(uid.clone())),
            inspected: false,
            error: None,
            dead: BTreeSet::new(),
            modified: None,
            as_of: None,
            complete_as_of: None,
        }
    }

    /// Its times on the monotonic clock, which readers use.
    fn on_monotonic(self, clock: &RunClock) -> Self {
        let monotonic = |time: Instant| clock.monotonic(time);
        Self {
            modified: self.modified.map(monotonic),
            as_of: self.as_of.map(|as_of| Moment {
                instant: monotonic(as_of.instant),
                ..as_of
            }),
            complete_as_of: self.complete_as_of.map(monotonic),
            ..self
        }
    }

    /// Whether it shows what an inspection has found.
    fn is_good(&self) -> bool {
        self.inspected && self.error.is_none()
    }

    /// A look that was begun then found nothing changed, and nothing new since it was `listed`.
    fn confirm(&mut self, looked: Option<Moment>, listed: Option<Instant>) {
        if self.is_good() {
            self.as_of = later(self.as_of, looked);
            self.complete_as_of = self.complete_as_of.max(listed);
        }
    }
}

/// As of when an inspection confirms a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// It does not.
    No,
    /// As of this moment it is known which sandboxes and containers there are.
    Seen(Moment),
    /// Nothing shows what is new in the pod: this counts for as long as that is said.
    Blindly(Moment),
}

/// As of when that is known which an inspection found.
#[derive(Clone, Copy, Debug)]
pub struct Inspection {
    /// When it was begun, or the look that showed what to inspect.
    pub begun: Moment,
    /// As of when it confirms the pod.
    pub confirmed: Confirmed,
    /// When the lists were begun that showed what to ask for.
    pub listed: Option<Instant>,
    /// The pod differs again, or contradicts the lists, so nothing vouches for it.
    pub differs: bool,
    /// Something that was asked for was not found, and is listed.
    pub lacks_listed: bool,
    /// It found a container running whose process was dead by then, so it confirms nothing.
    pub disproved: bool,
}

/// What a look vouches for: every pod but those that are `pending`.
#[derive(Clone, Debug)]
pub struct Vouch {
    /// When the look was begun.
    pub begun: Moment,
    /// The pods that differ from what the cache holds, fail, or do not answer.
    pub pending: BTreeSet<PodUid>,
    /// Those of them that it has not seen: it does not say what is new in them.
    pub unseen: BTreeSet<PodUid>,
    /// Whether sandboxes were listed: a pod that is not known does not exist then.
    pub sees_new_pods: bool,
    /// Whether containers were listed.
    pub sees_new_containers: bool,
}

#[derive(Default)]
struct Contents {
    /// As they were written: an entry that is read has what is `overdue` and `dead`, too.
    pods: BTreeMap<PodUid, Entry>,
    /// Those of them that have an error.
    failed: BTreeSet<PodUid>,
    /// The pods of which a call does not return that is needed to know them.
    overdue: BTreeMap<PodUid, InspectError>,
    /// The containers whose death the runtime denies.
    dead: BTreeMap<PodUid, BTreeSet<Id>>,
    /// Pods that differ from what the cache holds: no look vouches for their entry
    /// until they are inspected.
    pending: BTreeSet<PodUid>,
    /// Pods whose status lacks what is listed: no look makes them complete, but only an
    /// inspection.
    lacking: BTreeSet<PodUid>,
    /// What was told of pods that were found otherwise: whoever begins to listen is told the same,
    /// and then what all others are.
    told: BTreeMap<PodUid, Arc<ListedPod>>,
    /// The newest look, which vouches for the pods that are known.
    looked: Option<Moment>,
    /// The newest look that would have seen whatever is new.
    seen: Option<Moment>,
    /// Whether it is said that something new cannot be seen.
    blind: bool,
    /// As of when pods were confirmed but for what was new in them.
    known: BTreeMap<PodUid, Moment>,
    /// The beginning of the newest look that would have seen a new pod.
    complete: Option<Instant>,
    /// The same for a new container, and the pods in which that look has not seen one.
    containers_complete: Option<Instant>,
    unseen: BTreeSet<PodUid>,
}

impl Contents {
    fn newer_than(&self, uid: &PodUid, time: Instant) -> Option<Entry> {
        let vouched = !self.pending.contains(uid);
        let newer = |look: Option<Instant>| vouched && look > Some(time);
        match self.pods.get(uid) {
            Some(entry) => {
                let is_seen = newer(self.looked.map(|look| look.instant));
                let has_error = entry.error.is_some() || self.is_doubtful(uid);
                let says_all = has_error || entry.complete_as_of > Some(time);
                let is_inspected = says_all && entry.modified > Some(time);
                (is_seen || is_inspected).then(|| self.entry(uid, entry))
            }
            None => newer(self.complete).then(|| Entry {
                complete_as_of: self.completed(uid),
                ..Entry::unknown(uid)
            }),
        }
    }

    /// When the newest look was begun that would have seen whatever is new.
    fn listed(&self) -> Option<Instant> {
        self.complete.min(self.containers_complete)
    }

    /// When that look was begun by which the status of a pod is complete, if it lacks nothing.
    fn completed(&self, uid: &PodUid) -> Option<Instant> {
        let lacks = self.lacking.contains(uid) || self.unseen.contains(uid);
        self.listed().filter(|_| !lacks)
    }

    /// What was told of an inspected pod.
    fn told(&self, uid: &PodUid) -> Option<Arc<PodStatus>> {
        let entry = self.pods.get(uid).filter(|entry| entry.inspected)?;
        let Some(listed) = self.told.get(uid) else {
            return Some(entry.status.clone());
        };
        let mut told = PodStatus::clone(&entry.status);
        told.keep_parts_of(&PodStatus::from(&**listed), listed);
        told.take_states_of(listed);
        Some(Arc::new(told))
    }

    /// Whether something is known of a pod because of which no look confirms it.
    fn is_doubtful(&self, uid: &PodUid) -> bool {
        self.overdue.contains_key(uid) || self.dead.contains_key(uid)
    }

    /// The entry as far as the last look vouches for it.
    fn entry(&self, uid: &PodUid, entry: &Entry) -> Entry {
        let mut entry = entry.clone();
        entry.error = entry.error.or_else(|| self.overdue.get(uid).cloned());
        if let Some(dead) = self.dead.get(uid) {
            let first = dead.first().cloned();
            let denied = first.map(|id| InspectError::Contradicted { id });
            entry.error = entry.error.or(denied);
            entry.dead = dead.clone();
        }
        let is_pending = self.pending.contains(uid);
        if self.blind {
            let looked = self.looked.filter(|_| !is_pending && entry.is_good());
            entry.as_of = later(entry.as_of, later(self.known.get(uid).copied(), looked));
        }
        if !is_pending {
            entry.confirm(self.seen, self.completed(uid));
        }
        entry
    }

    /// Notes as of when the last look vouches for a pod, for the next one may not.
    fn note_confirmed(&mut self, uid: &PodUid) {
        let (looked, seen, listed) = (self.looked, self.seen, self.completed(uid));
        if !self.pending.contains(uid)
            && !self.is_doubtful(uid)
            && let Some(entry) = self.pods.get_mut(uid)
        {
            entry.confirm(seen, listed);
            let looked = looked.filter(|_| self.blind && entry.is_good());
            if let Some(known) = later(self.known.get(uid).copied(), looked) {
                self.known.insert(uid.clone(), known);
            }
        }
    }
}

fn later(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    [one, other]
        .into_iter()
        .flatten()
        .max_by_key(|moment| moment.instant)
}

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

/// The writer; there is one.
pub struct CacheWriter {
    contents: Arc<RwLock<Contents>>,
    changed: watch::Sender<()>,
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

impl CacheWriter {
    /// Writes what an inspection found, and returns it as it stands in the cache: a pod that is
    /// ending keeps its addresses, and an exit code that was known.
    pub fn set(
        &self,
        uid: &PodUid,
        mut status: PodStatus,
        inspection: Inspection,
    ) -> Arc<PodStatus> {
        let mut contents = self.write();
        contents.note_inspected(uid, inspection);
        let (seen, known) = match inspection.confirmed {
            _ if inspection.disproved => (None, None),
            Confirmed::No => (None, None),
            Confirmed::Seen(seen) => (Some(seen), None),
            Confirmed::Blindly(known) => (None, Some(known)),
        };
        let known = later(known, contents.known.get(uid).copied());
        if let Some(known) = known {
            contents.known.insert(uid.clone(), known);
        }
        let entry = contents.entry_of(uid);
        status.keep_ips_of(&entry.status);
        status.keep_exit_codes_of(&entry.status);
        entry.status = Arc::new(status);
        entry.inspected = true;
        entry.as_of = later(entry.as_of, seen);
        if !inspection.disproved {
            entry.complete_as_of = entry.complete_as_of.max(inspection.listed);
        }
        if inspection.lacks_listed {
            entry.complete_as_of = None;
        }
        // An error that was noted since this was begun tells nothing of how old the status is.
        entry.modified = later(entry.as_of, known).map(|as_of| as_of.instant);
        if inspection.disproved {
            entry.modified = entry.modified.max(Some(inspection.begun.instant));
        }
        let status = entry.status.clone();
        contents.note_error(uid, None);
        drop(contents);
        self.changed.send_replace(());
        status
    }

    /// Notes what has been told of a pod, where that is not what was written last.
    pub(crate) fn keep_told(&self, uid: &PodUid, told: &Arc<ListedPod>) {
        let mut contents = self.write();
        let entry = contents.pods.get(uid);
        if entry.is_none_or(|entry| entry.status.is_as_listed(told)) {
            contents.told.remove(uid);
        } else {
            contents.told.insert(uid.clone(), told.clone());
        }
    }

    /// Writes what an inspection found that contradicts what is `listed`: what it did not find
    /// stays as it was last known, and nothing of it is confirmed.
    pub fn set_in_doubt(
        &self,
        uid: &PodUid,
        mut status: PodStatus,
        (last_good, listed, error): (&PodStatus, &ListedPod, InspectError),
        inspection: Inspection,
    ) -> Arc<PodStatus> {
        let mut contents = self.write();
        contents.note_inspected(uid, inspection);
        let entry = contents.entry_of(uid);
        status.keep_parts_of(last_good, listed);
        status.keep_ips_of(last_good);
        entry.status = Arc::new(status);
        entry.inspected = true;
        entry.modified = entry.modified.max(Some(inspection.begun.instant));
        let status = entry.status.clone();
        contents.note_error(uid, Some(error));
        drop(contents);
        self.changed.send_replace(());
        status
    }

    /// Writes what was found of one container, and returns the pod's status with it.
    pub fn set_container(&self, uid: &PodUid, found: ContainerStatus) -> Option<Arc<PodStatus>> {
        let mut contents = self.write();
        let entry = contents.pods.get_mut(uid)?;
        let mut status = PodStatus::clone(&entry.status);
        let mut containers = status.containers.iter_mut();
        let known = containers.find(|container| container.id == found.id)?;
        *known = found;
        status.keep_exit_codes_of(&entry.status);
        let status = Arc::new(status);
        entry.status = status.clone();
        Some(status)
    }

    /// Notes that an inspection begun at `begun` failed. The last good status stays.
    pub fn set_error(&self, uid: &PodUid, error: InspectError, begun: Instant) {
        let mut contents = self.write();
        // From now on no look vouches for it.
        contents.note_confirmed(uid);
        let Some(entry) = contents.pods.get_mut(uid) else {
            return;
        };
        entry.modified = entry.modified.max(Some(begun));
        contents.note_error(uid, Some(error));
        drop(contents);
        self.changed.send_replace(());
    }

    /// Notes for which pods a call is waited for that does not return: no look confirms what is
    /// known of them.
    pub(crate) fn set_overdue(&self, overdue: BTreeMap<PodUid, InspectError>, now: Instant) {
        self.set_doubts(|contents| &mut contents.overdue, overdue, now);
    }

    /// Notes which containers are dead although the runtime reports them as running. No look and
    /// no inspection confirms what is known of their pods.
    pub(crate) fn set_dead(&self, dead: BTreeMap<PodUid, BTreeSet<Id>>, now: Instant) {
        self.set_doubts(|contents| &mut contents.dead, dead, now);
    }

    /// Replaces all doubts of a kind. From now on no look vouches for a pod whose doubt is new.
    fn set_doubts<Doubt: PartialEq>(
        &self,
        kind: fn(&mut Contents) -> &mut BTreeMap<PodUid, Doubt>,
        doubts: BTreeMap<PodUid, Doubt>,
        now: Instant,
    ) {
        let mut contents = self.write();
        if *kind(&mut contents) == doubts {
            return;
        }
        for (uid, doubt) in &doubts {
            if kind(&mut contents).get(uid) != Some(doubt) {
                contents.note_doubt(uid, now);
            }
        }
        *kind(&mut contents) = doubts;
        drop(contents);
        self.changed.send_replace(());
    }

    /// Notes whether it is said that something new cannot be seen.
    pub(crate) fn set_blind(&self, blind: bool) {
        let mut contents = self.write();
        if contents.blind && !blind {
            contents.known.clear();
        }
        contents.blind = blind;
    }

    /// Forgets a pod that is gone.
    pub fn remove(&self, uid: &PodUid) {
        let mut contents = self.write();
        contents.pods.remove(uid);
        contents.known.remove(uid);
        contents.failed.remove(uid);
        contents.pending.remove(uid);
        contents.lacking.remove(uid);
        contents.told.remove(uid);
        drop(contents);
        self.changed.send_replace(());
    }

    /// Notes that a pod differs from its entry, which nothing vouches for any more. A new
    /// pod that is listed is known from here on, by what the lists tell of it.
    pub fn set_pending(&self, uid: &PodUid, listed: Option<&ListedPod>) {
        let mut contents = self.write();
        contents.note_confirmed(uid);
        contents.pending.insert(uid.clone());
        let is_inspected = contents.pods.get(uid).is_some_and(|entry| entry.inspected);
        if let Some(listed) = listed.filter(|_| !is_inspected) {
            contents.entry_of(uid).status = Arc::new(PodStatus::from(listed));
        }
    }

    /// Vouches for what a look has seen.
    pub fn vouch(&self, vouch: Vouch) {
        let mut contents = self.write();
        // Who is pending from now on was vouched for by the look before.
        for uid in &vouch.pending {
            contents.note_confirmed(uid);
        }
        let begun = vouch.begun.instant;
        if contents.looked.is_some_and(|looked| looked.instant > begun) {
            // Whom a newer look has not seen, an older one does not vouch for.
            contents.pending.extend(vouch.pending);
        } else {
            contents.pending = vouch.pending;
        }
        contents.looked = later(contents.looked, Some(vouch.begun));
        if vouch.sees_new_pods && vouch.sees_new_containers {
            contents.seen = later(contents.seen, Some(vouch.begun));
        }
        if vouch.sees_new_pods {
            contents.complete = contents.complete.max(Some(begun));
        }
        if vouch.sees_new_containers && contents.containers_complete < Some(begun) {
            contents.containers_complete = Some(begun);
            contents.unseen = vouch.unseen;
        }
        drop(contents);
        self.changed.send_replace(());
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents.write().expect("no panic while it is held")
    }
}

impl Contents {
    /// A pod was inspected. A look that was begun later did not wait for it, and so does not
    /// vouch for it: the next one will.
    fn note_inspected(&mut self, uid: &PodUid, inspection: Inspection) {
        let begun = inspection.begun.instant;
        let looked = self.looked.is_some_and(|look| look.instant > begun);
        if inspection.differs || inspection.disproved {
            self.pending.insert(uid.clone());
        } else if !looked {
            self.pending.remove(uid);
        }
        if inspection.lacks_listed {
            self.lacking.insert(uid.clone());
        } else {
            self.lacking.remove(uid);
        }
    }

    /// From now on no look vouches for a pod, and that is news.
    fn note_doubt(&mut self, uid: &PodUid, now: Instant) {
        self.note_confirmed(uid);
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.modified = entry.modified.max(Some(now));
        }
    }

    /// The newest inspection of a known pod failed, or did not.
    fn note_error(&mut self, uid: &PodUid, error: Option<InspectError>) {
        match error {
            Some(_) => self.failed.insert(uid.clone()),
            None => self.failed.remove(uid),
        };
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.error = error;
        }
    }

    fn entry_of(&mut self, uid: &PodUid) -> &mut Entry {
        self.pods
            .entry(uid.clone())
            .or_insert_with(|| Entry::unknown(uid))
    }
}

#[cfg(test)]
mod tests;
