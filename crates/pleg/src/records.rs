//! The heart: what was told about each pod, and what is known to differ from it.
//!
//! ```text
//!   observe(Snapshot) --> plan(pod) --> Inspect --> commit: the record advances, these changes happened
//!                              |                \-> defer:  nothing moves, the same difference is found again
//!                              \------> Removed: nothing to inspect, the record goes
//! ```
//!
//! There is no IO here and no clock. A record advances only by a commit, and the changes
//! that a commit gives are given once; so no event is lost when an inspection fails, and
//! none is told twice. A pod that is being inspected is not planned again; when it has
//! changed meanwhile, the difference is found after the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use crate::diff::{Change, diff};
use crate::event::Source;
use crate::id::{Id, PodUid};
use crate::listed::{ListedContainer, ListedPod, ListedSandbox};
use crate::snapshot::{ListedPods, Snapshot};
use crate::status::{ContainerStatus, SandboxStatus};

/// The records of all pods.
#[derive(Debug, Default)]
pub struct Records {
    pods: BTreeMap<PodUid, Record>,
    /// The snapshot that all records are as of, and when it was last taken: the same one
    /// again says nothing new, and on a quiet node that is all there is to a relist.
    as_of: Option<(Arc<ListedPods>, Instant)>,
    /// Pods that are gone, and when the look was begun that found it so: an older one, of
    /// a list that was held up, may still show them.
    gone: BTreeMap<PodUid, Instant>,
    /// The pods for which there is something to do.
    unsettled: BTreeSet<PodUid>,
    /// The pods whose inspection is under way.
    inspecting: BTreeSet<PodUid>,
    tickets: u64,
}

#[derive(Debug)]
struct Record {
    /// The listing up to which everything was told; the kubelet's `old`.
    committed: Option<Arc<ListedPod>>,
    /// The newest listing; the kubelet's `current`.
    listed: Option<Arc<ListedPod>>,
    /// How fresh the listing's sandboxes are, and its containers.
    sandboxes: Freshness,
    containers: Freshness,
    /// What made us look.
    source: Source,
    /// Somebody wants the pod inspected although nothing differs.
    reinspect: bool,
    inspecting: Option<Inspecting>,
}

/// When the looks were begun that a part of a listing is of.
#[derive(Clone, Copy, Debug)]
struct Freshness {
    /// The last one at the whole part: an older look at a single id knows less.
    whole: Instant,
    /// The last one at anything in it: an older look at the whole knows less.
    any: Instant,
}

impl Freshness {
    fn new(begun: Instant) -> Self {
        Self {
            whole: begun,
            any: begun,
        }
    }
}

#[derive(Debug)]
struct Inspecting {
    ticket: u64,
    version: Arc<ListedPod>,
    begun: Instant,
}

/// Names one inspection. It is void once the pod is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// The pod that is inspected.
    pub uid: PodUid,
    number: u64,
}

/// What is to be done about a pod.
#[derive(Debug)]
pub enum Step {
    /// Nothing differs, or its inspection is under way.
    Nothing,
    /// Inspect it as it is listed here, then [`Records::commit`] or [`Records::defer`].
    Inspect {
        /// Names the inspection.
        ticket: Ticket,
        /// What to inspect.
        pod: Arc<ListedPod>,
    },
    /// The pod is gone: this was its end, and its record is no more.
    Removed(Commit),
}

/// What happened in a pod up to the version that was inspected.
#[derive(Debug)]
pub struct Commit {
    /// The version that everything was told up to before; `None` for a new pod.
    pub before: Option<Arc<ListedPod>>,
    /// The version up to which everything is told now; `None` for a pod that is gone.
    pub after: Option<Arc<ListedPod>>,
    /// What happened in between.
    pub changes: Vec<Change>,
    /// Somebody had asked for the inspection.
    pub reinspected: bool,
    /// What made us look.
    pub source: Source,
    /// When the look was begun.
    pub begun: Instant,
}

impl Records {
    /// Takes in what is listed now. A pod that was looked at after the snapshot was begun
    /// is left as it is known: the older look knows less.
    pub fn observe(&mut self, snapshot: &Snapshot, source: Source) {
        let taken = snapshot.taken;
        if let Some((pods, looked)) = &mut self.as_of
            && Arc::ptr_eq(pods, &snapshot.pods)
        {
            *looked = taken;
            return;
        }
        let mut all = true;
        for uid in snapshot.pods.keys() {
            if self.is_gone(uid, taken) {
                all = false;
            } else if !self.pods.contains_key(uid) {
                self.pods.insert(uid.clone(), Record::new(taken));
            }
        }
        self.gone.retain(|_, begun| *begun > taken);
        for (uid, record) in &mut self.pods {
            all &= record.look(snapshot.pods.get(uid), taken, source);
            note(&mut self.unsettled, uid, record);
        }
        self.as_of = all.then(|| (snapshot.pods.clone(), taken));
    }

    /// Takes in all sandboxes while the containers cannot be listed.
    pub fn observe_sandboxes(
        &mut self,
        rows: &[Arc<ListedSandbox>],
        begun: Instant,
        source: Source,
    ) {
        let listed = Snapshot::new(begun, rows, &[]);
        self.observe_part(
            &listed,
            source,
            |record| &mut record.sandboxes,
            |pod, listed| {
                pod.sandboxes = listed
                    .map(|listed| listed.sandboxes.clone())
                    .unwrap_or_default();
            },
        );
    }

    /// Takes in all containers while the sandboxes cannot be listed.
    pub fn observe_containers(
        &mut self,
        rows: &[Arc<ListedContainer>],
        begun: Instant,
        source: Source,
    ) {
        let known = self.listed().flat_map(|pod| pod.sandboxes.iter().cloned());
        let known: Vec<_> = known.collect();
        let listed = Snapshot::new(begun, &known, rows);
        self.observe_part(
            &listed,
            source,
            |record| &mut record.containers,
            |pod, listed| {
                pod.containers = listed
                    .map(|listed| listed.containers.clone())
                    .unwrap_or_default();
            },
        );
    }

    fn observe_part(
        &mut self,
        listed: &Snapshot,
        source: Source,
        part: impl Fn(&mut Record) -> &mut Freshness,
        take: impl Fn(&mut ListedPod, Option<&ListedPod>),
    ) {
        self.amended();
        for (uid, pod) in &*listed.pods {
            if self.is_gone(uid, listed.taken) {
                continue;
            }
            let record = self.pods.entry(uid.clone());
            let record = record.or_insert_with(|| Record::new(listed.taken));
            if record.listed.is_none() {
                record.listed = Some(Arc::new(ListedPod::empty(pod.pod.clone())));
            }
        }
        for (uid, record) in &mut self.pods {
            let freshness = part(record);
            if listed.taken >= freshness.any {
                *freshness = Freshness::new(listed.taken);
                record.amend(source, |pod| {
                    take(pod, listed.pods.get(uid).map(AsRef::as_ref))
                });
            }
            note(&mut self.unsettled, uid, record);
        }
    }

    /// Takes in a look at one container, by its id; `None` says that it is gone.
    pub fn observe_container(
        &mut self,
        uid: &PodUid,
        id: &Id,
        status: Option<&ContainerStatus>,
        begun: Instant,
        source: Source,
    ) {
        self.observe_one(
            uid,
            begun,
            source,
            |record| &mut record.containers,
            |pod| {
                pod.containers.retain_mut(|row| {
                    if row.id == *id
                        && let Some(status) = status
                    {
                        Arc::make_mut(row).state = status.state;
                    }
                    row.id != *id || status.is_some()
                });
            },
        );
    }

    /// Takes in a look at one sandbox, by its id; `None` says that it is gone.
    pub fn observe_sandbox(
        &mut self,
        uid: &PodUid,
        id: &Id,
        status: Option<&SandboxStatus>,
        begun: Instant,
        source: Source,
    ) {
        self.observe_one(
            uid,
            begun,
            source,
            |record| &mut record.sandboxes,
            |pod| {
                pod.sandboxes.retain_mut(|row| {
                    if row.id == *id
                        && let Some(status) = status
                    {
                        Arc::make_mut(row).state = status.state;
                    }
                    row.id != *id || status.is_some()
                });
            },
        );
    }

    fn observe_one(
        &mut self,
        uid: &PodUid,
        begun: Instant,
        source: Source,
        part: impl Fn(&mut Record) -> &mut Freshness,
        take: impl FnOnce(&mut ListedPod),
    ) {
        self.amended();
        let Some(record) = self.pods.get_mut(uid) else {
            return;
        };
        let freshness = part(record);
        if begun >= freshness.whole {
            freshness.any = freshness.any.max(begun);
            record.amend(source, take);
        }
        note(&mut self.unsettled, uid, record);
    }

    /// Whether a look newer than this one found the pod gone.
    fn is_gone(&self, uid: &PodUid, looked: Instant) -> bool {
        self.gone.get(uid).is_some_and(|begun| *begun > looked)
    }

    /// The records are no longer those of one snapshot.
    fn amended(&mut self) {
        if let Some((_, looked)) = self.as_of.take() {
            for record in self.pods.values_mut() {
                for part in [&mut record.sandboxes, &mut record.containers] {
                    part.whole = part.whole.max(looked);
                    part.any = part.any.max(looked);
                }
            }
        }
    }

    /// Wants a pod inspected at the next occasion although nothing differs. A pod that is
    /// not known has nothing to inspect.
    pub fn request_reinspect(&mut self, uid: &PodUid) {
        if let Some(record) = self.pods.get_mut(uid) {
            record.reinspect = true;
            self.unsettled.insert(uid.clone());
        }
    }

    /// The pods for which [`Self::plan`] has something to do, by UID.
    pub fn unsettled(&self) -> Vec<PodUid> {
        self.unsettled.iter().cloned().collect()
    }

    /// When the look was begun that a record's listing is of.
    fn looked(&self, record: &Record) -> Instant {
        let looked = record.sandboxes.any.max(record.containers.any);
        match &self.as_of {
            Some((_, snapshot)) => looked.max(*snapshot),
            None => looked,
        }
    }

    /// Says what is to be done about a pod, and notes that it is being done.
    pub fn plan(&mut self, uid: &PodUid) -> Step {
        self.unsettled.remove(uid);
        let Some(record) = self.pods.get(uid) else {
            return Step::Nothing;
        };
        if !record.wants_step() {
            return Step::Nothing;
        }
        let begun = self.looked(record);
        match record.listed.clone() {
            None => self.remove(uid, begun),
            Some(listed) => self.begin(uid, listed, begun),
        }
    }

    fn remove(&mut self, uid: &PodUid, begun: Instant) -> Step {
        self.inspecting.remove(uid);
        let Some(record) = self.pods.remove(uid) else {
            return Step::Nothing;
        };
        self.gone.insert(uid.clone(), begun);
        Step::Removed(Commit {
            changes: diff(record.committed.as_deref(), None),
            before: record.committed,
            after: None,
            reinspected: record.reinspect,
            source: record.source,
            begun,
        })
    }

    fn begin(&mut self, uid: &PodUid, listed: Arc<ListedPod>, begun: Instant) -> Step {
        let Some(record) = self.pods.get_mut(uid) else {
            return Step::Nothing;
        };
        if !record.reinspect && diff(record.committed.as_deref(), Some(&listed)).is_empty() {
            // Rows differ by what is no event: taken over as it is.
            record.committed = Some(listed);
            return Step::Nothing;
        }
        self.tickets += 1;
        self.inspecting.insert(uid.clone());
        record.inspecting = Some(Inspecting {
            ticket: self.tickets,
            version: listed.clone(),
            begun,
        });
        Step::Inspect {
            ticket: Ticket {
                uid: uid.clone(),
                number: self.tickets,
            },
            pod: listed,
        }
    }

    /// The inspection was good: everything up to the inspected version is told now.
    /// `None` for a ticket that is void.
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
        };
        if record.wants_step() {
            self.unsettled.insert(ticket.uid.clone());
        }
        Some(commit)
    }

    /// The inspection failed: nothing moves, and the next plan finds the same difference.
    /// Gives when the look was begun; `None` for a ticket that is void.
    pub fn defer(&mut self, ticket: &Ticket) -> Option<Instant> {
        let (_, inspected) = self.end(ticket)?;
        self.unsettled.insert(ticket.uid.clone());
        Some(inspected.begun)
    }

    fn end(&mut self, ticket: &Ticket) -> Option<(&mut Record, Inspecting)> {
        let record = self.pods.get_mut(&ticket.uid)?;
        let inspecting = record
            .inspecting
            .take_if(|inspecting| inspecting.ticket == ticket.number)?;
        self.inspecting.remove(&ticket.uid);
        Some((record, inspecting))
    }

    /// The pods that differ from what was told of them.
    pub fn pending(&self) -> BTreeSet<PodUid> {
        self.unsettled.union(&self.inspecting).cloned().collect()
    }

    /// The pods whose inspection is under way.
    pub fn inspecting(&self) -> &BTreeSet<PodUid> {
        &self.inspecting
    }

    /// All pods as they were told, by UID.
    pub fn committed(&self) -> impl Iterator<Item = &Arc<ListedPod>> {
        self.pods
            .values()
            .filter_map(|record| record.committed.as_ref())
    }

    /// All pods as they are listed, by UID.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<ListedPod>> {
        self.pods
            .values()
            .filter_map(|record| record.listed.as_ref())
    }
}

/// Keeps the set of those for whom there is something to do.
fn note(unsettled: &mut BTreeSet<PodUid>, uid: &PodUid, record: &Record) {
    if record.wants_step() {
        unsettled.insert(uid.clone());
    } else {
        unsettled.remove(uid);
    }
}

impl Record {
    fn new(looked: Instant) -> Self {
        Self {
            committed: None,
            listed: None,
            sandboxes: Freshness::new(looked),
            containers: Freshness::new(looked),
            source: Source::Relist,
            reinspect: false,
            inspecting: None,
        }
    }

    /// Takes in a look, unless a newer one is known.
    fn look(&mut self, pod: Option<&Arc<ListedPod>>, begun: Instant, source: Source) -> bool {
        if begun < self.sandboxes.any || begun < self.containers.any {
            return false;
        }
        self.sandboxes = Freshness::new(begun);
        self.containers = Freshness::new(begun);
        self.list(pod.cloned(), source);
        true
    }

    /// Changes the listing; a pod of which nothing is left is gone.
    fn amend(&mut self, source: Source, change: impl FnOnce(&mut ListedPod)) {
        if let Some(listed) = &self.listed {
            let mut pod = ListedPod::clone(listed);
            change(&mut pod);
            let gone = pod.sandboxes.is_empty() && pod.containers.is_empty();
            self.list((!gone).then(|| Arc::new(pod)), source);
        }
    }

    fn list(&mut self, pod: Option<Arc<ListedPod>>, source: Source) {
        self.source = source;
        // One version of an unchanged pod is kept, not one for each look.
        self.listed = if pod == self.committed {
            self.committed.clone()
        } else {
            pod
        };
    }

    /// A pod that is being inspected waits for the end of it, unless it is gone.
    fn wants_step(&self) -> bool {
        let differs = self.reinspect || self.listed != self.committed;
        self.listed.is_none() || differs && self.inspecting.is_none()
    }
}
