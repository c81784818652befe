//! The core: what was reported of each pod, and what is known to differ from it.
//!
//! ```text
//!   observe(Snapshot) --> plan(pod) --> Inspect --> commit: the record advances, its changes are returned
//!                              |                \-> defer:  nothing changes, the same difference is found again
//!                              \------> Removed: nothing to inspect, the record is dropped
//!   hint(pod) ---> plan(pod) ---> Inspect --> inspected: the result counts as the newer listing
//! ```
//!
//! There is no IO here and no clock. A record advances only by a commit, and a commit returns its
//! changes once. So no event is lost when an inspection fails, and none is reported twice. A pod whose
//! inspection is under way is not planned again. If it changes meanwhile, the difference is found after
//! the commit.
//!
//! ```
//! use pleg::model::event::Source;
//! use pleg::model::snapshot::Snapshot;
//! use pleg::records::diff::Happening;
//! use pleg::records::{Records, Step};
//! use pleg::runtime::Runtime;
//! use tokio::time::Instant;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), pleg::runtime::CallError> {
//! let runtime = sim::Sim::new();
//! runtime.run("web-0", &["app"]);
//! let sandboxes = runtime.list_sandboxes().await?.rows;
//! let containers = runtime.list_containers().await?.rows;
//! let snapshot = Snapshot::new(Instant::now(), &sandboxes, &containers);
//!
//! let mut records = Records::default();
//! records.observe(&snapshot, Instant::now(), Source::Relist);
//! let mut happened = Vec::new();
//! for uid in records.unsettled() {
//!     if let Step::Inspect { ticket, .. } = records.plan(&uid, Instant::now()) {
//!         let commit = records.commit(&ticket);
//!         happened.extend(commit.into_iter().flat_map(|commit| commit.changes));
//!     }
//! }
//! assert!(happened.iter().all(|change| change.happening == Happening::Started));
//! assert_eq!(happened.len(), 2, "a container and its sandbox");
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use crate::model::event::Source;
use crate::model::id::{Id, PodUid};
use crate::model::listed::{ContainerState, ListedContainer, ListedPod};
use crate::model::snapshot::ListedPods;
use crate::records::diff::{Change, diff};
use crate::records::gone::Gone;

pub mod diff;
mod gone;
mod hint;
mod interval;
mod observe;
mod record;

pub use hint::{Hint, NamedId};
pub use interval::Interval;
pub(crate) use interval::just_after;
pub(crate) use record::Part;
use record::{Inspecting, Record, exited};

/// The records of all pods.
#[derive(Debug, Default)]
pub struct Records {
    /// Boxed, because a map of large values leaves much of its memory unused.
    pods: BTreeMap<PodUid, Box<Record>>,
    /// The snapshot that all records match, and the interval of the last relist that returned it. On a
    /// quiet node each relist returns the same snapshot again, and nothing has to be done.
    as_of: Option<(Arc<ListedPods>, Interval)>,
    /// The removed pods: a delayed list may still show them.
    gone: Gone,
    /// The removed pods that the last list shows: it is older than their removal, or they exist again.
    gone_and_listed: BTreeSet<PodUid>,
    /// When the newest list of each kind arrived. A status that was requested earlier does not
    /// add a pod that the list does not show.
    sandboxes_listed: Option<Instant>,
    containers_listed: Option<Instant>,
    /// The pods for which [`Self::plan`] has something to do.
    unsettled: BTreeSet<PodUid>,
    /// The pods whose inspection is under way.
    inspecting: BTreeSet<PodUid>,
    tickets: u64,
}

/// Identifies one inspection. It is void once the pod is removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// The pod that is inspected.
    pub uid: PodUid,
    /// Identifies the inspection among those of all pods.
    pub number: u64,
}

/// What to do about a pod.
#[derive(Debug)]
pub enum Step {
    /// Nothing differs, or its inspection is under way.
    Nothing,
    /// Inspect it as it is listed here, then [`Records::commit`] or [`Records::defer`].
    Inspect {
        /// Identifies the inspection.
        ticket: Ticket,
        /// What to inspect.
        pod: Arc<ListedPod>,
        /// The time as of which this version is known.
        begun: Instant,
    },
    /// The pod is removed, and its record is dropped. These are its last changes.
    Removed(Commit),
}

/// What happened in a pod up to the version that was inspected.
#[derive(Debug)]
pub struct Commit {
    /// The version that was reported before; `None` for a new pod.
    pub before: Option<Arc<ListedPod>>,
    /// The version that is reported now; `None` for a removed pod.
    pub after: Option<Arc<ListedPod>>,
    /// What happened between the two.
    pub changes: Vec<Change>,
    /// Whether a caller requested the inspection.
    pub reinspected: bool,
    /// What caused the inspection.
    pub source: Source,
    /// The time as of which the version, or the removal, is known.
    pub begun: Instant,
    /// The hint that caused the inspection, if one did.
    pub hint: Option<Hint>,
    /// When the previous inspection was planned, if there was one: the changes are not older.
    pub since: Option<Instant>,
    /// When the lists that determined the ids to inspect were requested. Other ids were inspected only if
    /// a hint named them.
    pub listed: Option<Instant>,
}

impl Records {
    /// Requests an inspection of a pod even if nothing differs. Does nothing if the pod is unknown.
    pub fn request_reinspect(&mut self, uid: &PodUid) {
        if let Some(record) = self.pods.get_mut(uid) {
            record.reinspect = true;
            note(&mut self.unsettled, uid, record);
        }
    }

    /// Requests an inspection of a pod because a call about it failed, unless one is under way.
    pub fn retry(&mut self, uid: &PodUid) {
        if let Some(record) = self.pods.get_mut(uid) {
            record.retry();
            note(&mut self.unsettled, uid, record);
        }
    }

    /// The pods for which [`Self::plan`] has something to do, by UID.
    pub fn unsettled(&self) -> Vec<PodUid> {
        self.unsettled.iter().cloned().collect()
    }

    /// The time as of which a record's newest version is known.
    fn begun(&self, record: &Record) -> Instant {
        let observed = record.sandboxes.any.max(record.containers.any);
        match &self.as_of {
            Some((_, snapshot)) => observed.max(snapshot.begun),
            None => observed,
        }
    }

    /// Returns what to do about a pod: begins an inspection, or drops the record of a removed pod. `now` is
    /// the beginning of an inspection that follows a hint.
    pub fn plan(&mut self, uid: &PodUid, now: Instant) -> Step {
        self.unsettled.remove(uid);
        let Some(record) = self.pods.get(uid) else {
            return Step::Nothing;
        };
        if !record.wants_step() {
            return Step::Nothing;
        }
        let begun = self.begun(record);
        match record.listed.clone() {
            Some(listed) if record.follows_hint() => self.begin(uid, listed, now),
            Some(listed) if !listed.is_empty() => self.begin(uid, listed, begun),
            _ => self.remove(uid, begun),
        }
    }

    fn remove(&mut self, uid: &PodUid, begun: Instant) -> Step {
        self.inspecting.remove(uid);
        let Some(record) = self.pods.remove(uid) else {
            return Step::Nothing;
        };
        // A pod that only a hint named was never observed.
        if record.committed.is_some() {
            self.gone.insert(uid.clone(), begun);
        }
        Step::Removed(Commit {
            changes: diff(record.committed.as_deref(), None),
            before: record.committed,
            after: None,
            reinspected: record.reinspect,
            source: record.source,
            begun,
            hint: None,
            since: record.inspected,
            listed: None,
        })
    }

    fn begin(&mut self, uid: &PodUid, listed: Arc<ListedPod>, begun: Instant) -> Step {
        let lists = self.listed_at(uid);
        let Some(record) = self.pods.get_mut(uid) else {
            return Step::Nothing;
        };
        let follows = record.follows_hint();
        let differs = || !diff(record.committed.as_deref(), Some(&listed)).is_empty();
        if !record.is_requested() && !differs() {
            // The versions do not differ in anything that needs an inspection.
            record.committed = Some(listed);
            return Step::Nothing;
        }
        let hint = record.hint.take_if(|_| follows);
        record.overtaken = false;
        record.unconfirmed = false;
        let listed = match &hint {
            Some(hint) => hint.extend(&listed),
            None => listed,
        };
        self.tickets += 1;
        self.inspecting.insert(uid.clone());
        record.inspecting = Some(Box::new(Inspecting {
            ticket: self.tickets,
            version: listed.clone(),
            begun,
            planned: begun,
            listed: lists,
            hint,
        }));
        Step::Inspect {
            ticket: Ticket {
                uid: uid.clone(),
                number: self.tickets,
            },
            pod: listed,
            begun,
        }
    }

    /// Returns what a planned inspection that begins only now has to inspect: the pod as listed now.
    /// `None` for a void ticket, and for a pod that no list shows any more.
    pub fn start(&mut self, ticket: &Ticket) -> Option<Arc<ListedPod>> {
        let lists = self.listed_at(&ticket.uid);
        let begun = self.begun(self.pods.get(&ticket.uid)?);
        let record = self.pods.get_mut(&ticket.uid)?;
        let listed = record.listed.clone().filter(|pod| !pod.is_empty())?;
        let inspecting = record.inspecting.as_mut();
        let inspecting = inspecting.filter(|it| it.ticket == ticket.number)?;
        inspecting.listed = lists;
        inspecting.version = match &inspecting.hint {
            Some(hint) => hint.extend(&listed),
            None => {
                (inspecting.begun, inspecting.planned) = (begun, begun);
                listed
            }
        };
        Some(inspecting.version.clone())
    }

    /// Commits a successful inspection: all changes up to the inspected version are returned, once.
    /// `None` for a void ticket.
    pub fn commit(&mut self, ticket: &Ticket) -> Option<Commit> {
        let (record, inspected) = self.end(ticket)?;
        let before = record.committed.replace(inspected.version.clone());
        let commit = Commit {
            changes: diff(before.as_deref(), Some(&inspected.version)),
            before,
            after: Some(inspected.version),
            reinspected: std::mem::take(&mut record.reinspect),
            source: record.source,
            begun: inspected.begun,
            hint: inspected.hint.map(|hint| *hint),
            since: record.inspected.replace(inspected.planned),
            listed: inspected.listed,
        };
        if record.wants_step() {
            self.unsettled.insert(ticket.uid.clone());
        }
        Some(commit)
    }

    /// Ends a failed inspection: the next plan requests another one. Returns the time as of which the
    /// version is known; `None` for a void ticket.
    pub fn defer(&mut self, ticket: &Ticket) -> Option<Instant> {
        let (record, inspected) = self.end(ticket)?;
        // The pod is inspected again as listed: the failed id may be one that only a hint named.
        record.retry();
        self.unsettled.insert(ticket.uid.clone());
        Some(inspected.begun)
    }

    fn end(&mut self, ticket: &Ticket) -> Option<(&mut Record, Inspecting)> {
        let record = self.pods.get_mut(&ticket.uid)?;
        let inspecting = record
            .inspecting
            .take_if(|inspecting| inspecting.ticket == ticket.number)?;
        self.inspecting.remove(&ticket.uid);
        Some((record, *inspecting))
    }

    /// The pods of which something is still to be inspected or reported.
    pub fn pending(&self) -> BTreeSet<PodUid> {
        self.unsettled.union(&self.inspecting).cloned().collect()
    }

    /// Whether something of the pod is still to be inspected or reported.
    pub fn is_pending(&self, uid: &PodUid) -> bool {
        self.unsettled.contains(uid) || self.inspecting.contains(uid)
    }

    /// Whether the newest version differs from the reported one.
    pub fn differs(&self, uid: &PodUid) -> bool {
        let record = self.pods.get(uid);
        record.is_some_and(|record| record.listed != record.committed)
    }

    /// The pods that were removed while a list that shows them was outstanding. The next list decides
    /// whether they exist again.
    pub(crate) fn gone_and_listed(&self) -> &BTreeSet<PodUid> {
        &self.gone_and_listed
    }

    /// The pods whose inspection is under way.
    pub fn inspecting(&self) -> &BTreeSet<PodUid> {
        &self.inspecting
    }

    /// Commits the exit of a single container at once, while other calls of its pod may be outstanding.
    /// `None` if the exit was reported before, or the container is not known to have run.
    pub fn commit_exit(&mut self, uid: &PodUid, id: &Id, interval: Interval) -> Option<Commit> {
        self.observe_one::<ListedContainer>(uid, id, Some(ContainerState::Exited), interval);
        let record = self.pods.get_mut(uid)?;
        let before = record.committed.clone()?;
        let has = |pod: &ListedPod, state| {
            let mut rows = pod.containers.iter();
            rows.any(|row| row.id == *id && row.state == state)
        };
        let listed = record.listed.as_ref()?;
        if !has(&before, ContainerState::Running) || !has(listed, ContainerState::Exited) {
            return None;
        }
        let after = exited(before.clone(), |exited| exited == id);
        record.committed = Some(after.clone());
        if record.listed.as_deref() == Some(&*after) {
            record.listed = Some(after.clone());
        }
        // An inspection that is under way was planned while the container ran.
        if let Some(inspecting) = &mut record.inspecting {
            inspecting.version = exited(inspecting.version.clone(), |exited| exited == id);
        }
        note(&mut self.unsettled, uid, record);
        Some(Commit {
            changes: diff(Some(&before), Some(&after)),
            before: Some(before),
            after: Some(after),
            reinspected: false,
            source: interval.source,
            begun: interval.begun,
            hint: None,
            since: record.inspected,
            listed: None,
        })
    }

    /// The number of the newest inspection that was planned.
    pub fn newest_ticket(&self) -> u64 {
        self.tickets
    }

    /// When the lists that the pod was last taken from were requested: the earlier of the two times.
    fn listed_at(&self, uid: &PodUid) -> Option<Instant> {
        if let Some((_, observed)) = &self.as_of {
            return Some(observed.begun);
        }
        let record = self.pods.get(uid)?;
        record.sandboxes.list.min(record.containers.list)
    }

    /// Whether both lists that the pod was last taken from were requested after `time`.
    pub(crate) fn is_listed_since(&self, uid: &PodUid, time: Instant) -> bool {
        self.listed_at(uid) > Some(time)
    }

    /// Whether this pod is known.
    pub fn knows(&self, uid: &PodUid) -> bool {
        self.pods.contains_key(uid)
    }

    /// The pod as last observed; `None` if only a hint has named it.
    pub fn listed_as(&self, uid: &PodUid) -> Option<&ListedPod> {
        let listed = self.pods.get(uid)?.listed.as_deref()?;
        (!listed.is_empty()).then_some(listed)
    }

    /// Whether the pod, as last observed, contains this id.
    pub fn is_listed(&self, uid: &PodUid, id: &Id) -> bool {
        self.listed_as(uid).is_some_and(|pod| pod.names(id))
    }

    /// Whether containers of this sandbox of the pod are listed.
    pub fn has_container_in(&self, uid: &PodUid, sandbox: &Id) -> bool {
        let listed = self.listed_as(uid);
        listed.is_some_and(|pod| pod.containers.iter().any(|row| row.sandbox_id == *sandbox))
    }

    /// All pods as last reported, by UID.
    pub fn committed(&self) -> impl Iterator<Item = &Arc<ListedPod>> {
        let pods = self.pods.values();
        pods.filter_map(|record| record.committed.as_ref())
    }

    /// All pods as last observed, by UID.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<ListedPod>> {
        let pods = self.pods.values();
        let listed = pods.filter_map(|record| record.listed.as_ref());
        // An empty pod is known only from a hint.
        listed.filter(|pod| !pod.is_empty())
    }
}

/// Updates the set of pods for which there is something to do.
fn note(unsettled: &mut BTreeSet<PodUid>, uid: &PodUid, record: &Record) {
    if record.wants_step() {
        unsettled.insert(uid.clone());
    } else {
        unsettled.remove(uid);
    }
}
