//! What is known of one pod: what was told, and what was seen since.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::Records;
use super::hint::Hint;
use super::look::{Freshness, Look};
use crate::model::event::Source;
use crate::model::id::Id;
use crate::model::listed::{
    ContainerState, ListedContainer, ListedPod, ListedSandbox, Row, SandboxState,
};
use crate::model::snapshot::Snapshot;
use crate::model::status::PodStatus;

/// Of how many ids it is remembered when they were looked at, so that no older answer undoes that: more
/// than calls may be outstanding.
const MOST_LOOKED_AT: usize = 1024;

#[derive(Debug)]
pub(crate) struct Record {
    /// The listing up to which everything was told; the kubelet's `old`.
    pub(super) committed: Option<Arc<ListedPod>>,
    /// The newest listing; the kubelet's `current`.
    pub(super) listed: Option<Arc<ListedPod>>,
    /// Containers whose status said that they have exited, while a list did not, and when that was
    /// known.
    pub(super) ended: BTreeMap<Id, Instant>,
    /// When the last look at each single id ended since the last list: those that are not listed it
    /// found gone.
    pub(super) looked_at: BTreeMap<Id, Instant>,
    /// When the inspection was begun by which something was told last.
    pub(super) inspected: Option<Instant>,
    /// How fresh the listing's sandboxes are, and its containers.
    pub(super) sandboxes: Freshness,
    pub(super) containers: Freshness,
    /// What made us look.
    pub(super) source: Source,
    /// Somebody wants the pod inspected although nothing differs.
    pub(super) reinspect: bool,
    /// The last inspection came to nothing, and may have left an error: one must be good,
    /// though nothing differs.
    pub(super) failed: bool,
    /// A look other than the inspection under way says otherwise than what is known: unlike a
    /// failure, that stands when this inspection is good.
    pub(super) contradicted: bool,
    /// The last look was overtaken: what is listed meanwhile comes first.
    pub(super) overtaken: bool,
    /// Something may have happened that is not listed yet.
    pub(super) hint: Option<Hint>,
    pub(super) inspecting: Option<Inspecting>,
}

#[derive(Debug)]
pub(crate) struct Inspecting {
    pub(super) ticket: u64,
    pub(super) version: Arc<ListedPod>,
    pub(super) begun: Instant,
    /// When it was said what to ask for: ids that were announced since are not in it.
    pub(super) planned: Instant,
    /// When the lists were begun that `version` is of.
    pub(super) listed: Option<Instant>,
    /// The hint that it follows, if no list asked for it.
    pub(super) hint: Option<Hint>,
}

impl Record {
    /// A pod that a list shows for the first time.
    pub(super) fn listed(look: Look) -> Self {
        Self::new(Freshness::of(look), look.source)
    }

    pub(super) fn new(freshness: Freshness, source: Source) -> Self {
        Self {
            committed: None,
            listed: None,
            ended: BTreeMap::new(),
            looked_at: BTreeMap::new(),
            inspected: None,
            sandboxes: freshness,
            containers: freshness,
            source,
            reinspect: false,
            failed: false,
            contradicted: false,
            overtaken: false,
            hint: None,
            inspecting: None,
        }
    }

    /// Takes in both lists of the pod. A part of it that was looked at since they were begun
    /// stays as it is; says whether there was none.
    pub(super) fn look(&mut self, pod: Option<&Arc<ListedPod>>, look: Look) -> bool {
        if self.admits(look) {
            self.sandboxes = Freshness::of(look);
            self.containers = Freshness::of(look);
            self.looked_at.clear();
            self.hint.take_if(|hint| hint.at < look.begun);
            self.forget_ended(pod.map_or(&[], |pod| &pod.containers), look);
            let pod = pod.cloned().or_else(|| self.expected());
            self.list(pod, look.source);
            return true;
        }
        let pod = pod.map(AsRef::as_ref);
        self.look_at_list::<ListedSandbox>(pod, look);
        self.look_at_list::<ListedContainer>(pod, look);
        false
    }

    /// Takes in one list of the pod. Where ids of it were looked at since it was begun, it
    /// says nothing new of them; it still tells of those that nobody has asked for.
    pub(super) fn look_at_list<R: Part>(&mut self, pod: Option<&ListedPod>, look: Look) {
        let freshness = R::freshness(self);
        if freshness.admits_list(look) {
            *freshness = Freshness::of(look);
            let rows = pod.map(R::of).unwrap_or_default();
            R::came(self, rows, look);
            self.amend(look.source, |known| *R::of_mut(known) = rows.to_vec());
        } else if !freshness.is_listed_after(look.begun) {
            // Of ids that were looked at since, an inspection tells which of both is so.
            self.contradicted |= self.is_otherwise::<R>(pod);
            if let Some(pod) = pod {
                self.meet::<R>(pod, look);
            }
        }
    }

    /// Whether a list of the whole pod says something newer.
    pub(super) fn admits(&self, look: Look) -> bool {
        self.sandboxes.admits_list(look) && self.containers.admits_list(look)
    }

    /// A pod that is gone, and of which a hint has come since: it may be there again.
    pub(super) fn expected(&self) -> Option<Arc<ListedPod>> {
        self.hint.as_ref()?;
        let pod = self.listed.as_ref()?.pod.clone();
        Some(Arc::new(ListedPod::empty(pod)))
    }

    /// Whether the next inspection is to follow the hint.
    pub(super) fn follows_hint(&self) -> bool {
        self.hint.is_some() && !self.overtaken
    }

    /// Adds the rows of ids that are new to us, and were not found gone since the list was begun.
    fn meet<R: Part>(&mut self, pod: &ListedPod, look: Look) {
        let Some(known) = &self.listed else {
            return;
        };
        let is_new = |id: &Id| !known.names(id) && !self.is_looked_at_since(id, look.begun);
        let rows = R::of(pod).iter().filter(|row| is_new(row.id()));
        let rows: Vec<_> = rows.cloned().collect();
        for row in &rows {
            self.note_look(row.id().clone(), look.ended);
        }
        if !rows.is_empty() {
            self.amend(look.source, |pod| {
                R::of_mut(pod).extend(rows);
                pod.sort();
            });
        }
    }

    /// Whether a list tells another state of an id that is known, or does not have it.
    fn is_otherwise<R: Part>(&self, pod: Option<&ListedPod>) -> bool {
        let rows = pod.map(R::of).unwrap_or_default();
        let known = self.listed.as_deref().map(R::of).unwrap_or_default();
        known.iter().any(|known| {
            let row = rows.iter().find(|row| row.id() == known.id());
            row.is_none_or(|row| row.state() != known.state())
        })
    }

    /// The state of an id as it is known.
    pub(super) fn state_of<R: Part>(&self, id: &Id) -> Option<R::State> {
        let rows = self.listed.as_deref().map(R::of).unwrap_or_default();
        let row = rows.iter().find(|row| row.id() == id)?;
        Some(row.state())
    }

    /// Notes which ids of `before` a look that ended at `ended` found gone.
    pub(super) fn note_removed(&mut self, before: &ListedPod, ended: Instant) {
        let names = |id: &Id| self.listed.as_ref().is_some_and(|pod| pod.names(id));
        let sandboxes = before.sandboxes.iter().map(|row| &row.id);
        let containers = before.containers.iter().map(|row| &row.id);
        let gone = sandboxes.chain(containers).filter(|id| !names(id));
        let gone: Vec<_> = gone.cloned().collect();
        for id in gone {
            self.note_look(id, ended);
        }
    }

    /// Notes when a look at a single id ended.
    pub(super) fn note_look(&mut self, id: Id, ended: Instant) {
        self.looked_at.insert(id, ended);
        if self.looked_at.len() > MOST_LOOKED_AT {
            let oldest = self.looked_at.iter().min_by_key(|(_, ended)| **ended);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.and_then(|id| self.looked_at.remove(&id));
        }
    }

    /// Whether a look at this id ended at that time or later.
    pub(super) fn is_looked_at_since(&self, id: &Id, time: Instant) -> bool {
        self.looked_at.get(id).is_some_and(|ended| *ended >= time)
    }

    /// Changes the listing; a pod of which nothing is left is gone.
    pub(super) fn amend(&mut self, source: Source, change: impl FnOnce(&mut ListedPod)) {
        if let Some(listed) = &self.listed {
            let mut pod = ListedPod::clone(listed);
            change(&mut pod);
            self.list((!pod.is_empty()).then(|| Arc::new(pod)), source);
        }
    }

    pub(super) fn list(&mut self, pod: Option<Arc<ListedPod>>, source: Source) {
        // cri-dockerd lists a container as created whose start failed, and its status says that it
        // exited; and a list that was held up tells of one as running that has exited since.
        let pod = pod.map(|pod| end_rows(pod, &self.ended));
        if self.listed != pod {
            self.source = source;
        }
        // One version of an unchanged pod is kept, not one for each look.
        self.listed = if pod == self.committed {
            self.committed.clone()
        } else {
            pod
        };
    }

    /// A list has come: who is not in it, or has exited in it too, need not be remembered, nor who
    /// runs in one that was asked for later, which runs again under its id.
    fn forget_ended(&mut self, listed: &[Arc<ListedContainer>], look: Look) {
        self.ended.retain(|id, known| {
            let row = listed.iter().find(|row| row.id == *id);
            row.is_some_and(|row| match row.state {
                ContainerState::Exited => false,
                ContainerState::Running => look.begun <= *known,
                ContainerState::Created | ContainerState::Unknown => true,
            })
        });
    }

    /// An inspection that has `ended` then has told how these containers are.
    pub(super) fn found(&mut self, found: &PodStatus, ended: Instant) {
        let Some(inspecting) = &mut self.inspecting else {
            return;
        };
        let source = inspecting.hint.as_ref().map(|hint| hint.source);
        for row in &inspecting.version.containers {
            match found.container(&row.id).map(|status| status.state) {
                Some(ContainerState::Exited) if row.state != ContainerState::Exited => {
                    self.ended.insert(row.id.clone(), ended);
                }
                Some(ContainerState::Running) => {
                    self.ended.remove(&row.id);
                }
                _ => {}
            }
        }
        inspecting.version = end_rows(inspecting.version.clone(), &self.ended);
        let listed = self.listed.take();
        let settled = listed.clone().map(|pod| end_rows(pod, &self.ended));
        if settled != listed {
            self.source = source.unwrap_or(self.source);
        }
        self.listed = settled;
    }

    /// Whether the pod is to be inspected although nothing differs.
    pub(super) fn is_asked_for(&self) -> bool {
        self.reinspect || self.failed || self.contradicted || self.hint.is_some()
    }

    /// A pod that is being inspected waits for the end of it, unless it is gone.
    pub(super) fn wants_step(&self) -> bool {
        let wanted = self.is_asked_for() || self.listed != self.committed;
        self.listed.is_none() || wanted && self.inspecting.is_none()
    }
}

/// One of the two lists, as a part of a record.
pub(crate) trait Part: Row {
    /// The pods by these rows alone.
    fn grouped(records: &Records, rows: &[Arc<Self>], taken: Instant) -> Snapshot;

    /// When the newest list of them had come.
    fn listed(records: &mut Records) -> &mut Option<Instant>;

    /// How fresh this part of a record is.
    fn freshness(record: &mut Record) -> &mut Freshness;

    /// The list has come, with these rows of the pod.
    fn came(record: &mut Record, rows: &[Arc<Self>], look: Look);

    /// A look at one id has told how it is; `None` says that it is gone.
    fn found(record: &mut Record, id: &Id, state: Option<Self::State>, look: Look);
}

impl Part for ListedSandbox {
    fn grouped(_: &Records, rows: &[Arc<Self>], taken: Instant) -> Snapshot {
        Snapshot::new(taken, rows, &[])
    }

    fn listed(records: &mut Records) -> &mut Option<Instant> {
        &mut records.sandboxes_listed
    }

    fn freshness(record: &mut Record) -> &mut Freshness {
        &mut record.sandboxes
    }

    fn came(_: &mut Record, _: &[Arc<Self>], _: Look) {}

    fn found(_: &mut Record, _: &Id, _: Option<SandboxState>, _: Look) {}
}

impl Part for ListedContainer {
    fn grouped(records: &Records, rows: &[Arc<Self>], taken: Instant) -> Snapshot {
        // Whose a container is, its sandbox tells.
        let known = records
            .listed()
            .flat_map(|pod| pod.sandboxes.iter().cloned());
        Snapshot::new(taken, &known.collect::<Vec<_>>(), rows)
    }

    fn listed(records: &mut Records) -> &mut Option<Instant> {
        &mut records.containers_listed
    }

    fn freshness(record: &mut Record) -> &mut Freshness {
        &mut record.containers
    }

    fn came(record: &mut Record, rows: &[Arc<Self>], look: Look) {
        record.forget_ended(rows, look);
    }

    fn found(record: &mut Record, id: &Id, state: Option<ContainerState>, look: Look) {
        match state {
            Some(ContainerState::Exited) => record.ended.insert(id.clone(), look.ended),
            _ => record.ended.remove(id),
        };
    }
}

/// The pod with these containers exited.
fn end_rows(pod: Arc<ListedPod>, ended: &BTreeMap<Id, Instant>) -> Arc<ListedPod> {
    let is_wrong =
        |row: &ListedContainer| row.state != ContainerState::Exited && ended.contains_key(&row.id);
    if !pod.containers.iter().any(|row| is_wrong(row)) {
        return pod;
    }
    let mut settled = ListedPod::clone(&pod);
    for row in settled.containers.iter_mut().filter(|row| is_wrong(row)) {
        Arc::make_mut(row).state = ContainerState::Exited;
    }
    Arc::new(settled)
}
