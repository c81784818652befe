//! One pod: the version that was reported, and what was observed since.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::hint::Hint;
use super::interval::{Freshness, Interval};
use super::{Records, Ticket};
use crate::model::event::Source;
use crate::model::id::Id;
use crate::model::listed::{ContainerState, ListedContainer, ListedPod, ListedSandbox, Row};
use crate::model::snapshot::Snapshot;
use crate::model::status::PodStatus;

/// How many ids are remembered with the time of their last observation, so that no older answer
/// overrides it. This is more than the number of calls that may be outstanding.
const MAX_OBSERVED_IDS: usize = 1024;

#[derive(Debug)]
pub(crate) struct Record {
    /// The version up to which all changes were reported; the kubelet's `old`.
    pub(super) committed: Option<Arc<ListedPod>>,
    /// The newest version; the kubelet's `current`.
    pub(super) listed: Option<Arc<ListedPod>>,
    /// The containers whose status shows an exit that the lists do not show yet, and when that status
    /// arrived.
    pub(super) ended: BTreeMap<Id, Instant>,
    /// For each id that was observed individually since the last lists: when that observation ended. Ids
    /// that are not listed were observed as removed.
    pub(super) observed_at: BTreeMap<Id, Instant>,
    /// When the inspection whose changes were last reported was planned.
    pub(super) inspected: Option<Instant>,
    /// How fresh the sandboxes and the containers in `listed` are.
    pub(super) sandboxes: Freshness,
    pub(super) containers: Freshness,
    /// What caused the newest version.
    pub(super) source: Source,
    /// A caller wants the pod inspected although nothing differs.
    pub(super) reinspect: bool,
    /// The last inspection failed, or an observation contradicts what is known: an inspection that begins
    /// from now on must succeed, even if nothing differs.
    pub(super) unconfirmed: bool,
    /// The last inspection was overtaken: the next one inspects the pod as listed, and does not follow the
    /// hint.
    pub(super) overtaken: bool,
    /// The hint to follow: something may have happened that no list shows yet. Boxed, like `inspecting`:
    /// both are absent most of the time, and a node may have thousands of pods.
    pub(super) hint: Option<Box<Hint>>,
    pub(super) inspecting: Option<Box<Inspecting>>,
}

#[derive(Debug)]
pub(crate) struct Inspecting {
    pub(super) ticket: u64,
    pub(super) version: Arc<ListedPod>,
    pub(super) begun: Instant,
    /// When the ids to inspect were chosen: ids that were announced later are not among them.
    pub(super) planned: Instant,
    /// When the lists that `version` is from were requested.
    pub(super) listed: Option<Instant>,
    /// The hint that the inspection follows, if it follows one.
    pub(super) hint: Option<Box<Hint>>,
}

impl Record {
    /// A pod that a list shows for the first time.
    pub(super) fn listed(interval: Interval) -> Self {
        Self::new(Freshness::of(interval), interval.source)
    }

    pub(super) fn new(freshness: Freshness, source: Source) -> Self {
        Self {
            committed: None,
            listed: None,
            ended: BTreeMap::new(),
            observed_at: BTreeMap::new(),
            inspected: None,
            sandboxes: freshness,
            containers: freshness,
            source,
            reinspect: false,
            unconfirmed: false,
            overtaken: false,
            hint: None,
            inspecting: None,
        }
    }

    /// Applies both lists of the pod. A part that was observed after they were requested stays as it
    /// is. Returns whether both parts were
    /// replaced.
    pub(super) fn observe_lists(
        &mut self,
        pod: Option<&Arc<ListedPod>>,
        interval: Interval,
    ) -> bool {
        if self.admits(interval) {
            self.sandboxes = Freshness::of(interval);
            self.containers = Freshness::of(interval);
            self.observed_at.clear();
            self.hint.take_if(|hint| hint.at < interval.begun);
            self.forget_ended(pod.map_or(&[], |pod| &pod.containers), interval);
            let pod = pod.cloned().or_else(|| self.expected());
            self.list(pod, interval.source);
            return true;
        }
        let pod = pod.map(AsRef::as_ref);
        self.observe_list_of::<ListedSandbox>(pod, interval);
        self.observe_list_of::<ListedContainer>(pod, interval);
        false
    }

    /// Applies one list of the pod. If some of its ids were observed after the list was requested, only
    /// adds unknown ids, and requests an inspection if a known id differs.
    pub(super) fn observe_list_of<R: Part>(&mut self, pod: Option<&ListedPod>, interval: Interval) {
        let freshness = R::freshness(self);
        if freshness.admits_list(interval) {
            *freshness = Freshness::of(interval);
            let rows = pod.map(R::of).unwrap_or_default();
            R::received(self, rows, interval);
            self.amend(interval.source, |known| *R::of_mut(known) = rows.to_vec());
        } else if !freshness.is_listed_after(interval.begun) {
            // For ids that were observed since, an inspection decides.
            self.unconfirmed |= self.differs_from_list::<R>(pod);
            if let Some(pod) = pod {
                self.add_unknown::<R>(pod, interval);
            }
        }
    }

    /// Whether both lists of the pod are newer than what is known.
    pub(super) fn admits(&self, interval: Interval) -> bool {
        self.sandboxes.admits_list(interval) && self.containers.admits_list(interval)
    }

    /// An empty version of a removed pod that a hint has named since: it may exist again.
    pub(super) fn expected(&self) -> Option<Arc<ListedPod>> {
        self.hint.as_ref()?;
        let pod = self.listed.as_ref()?.pod.clone();
        Some(Arc::new(ListedPod::empty(pod)))
    }

    /// Whether the next inspection is to follow the hint.
    pub(super) fn follows_hint(&self) -> bool {
        self.hint.is_some() && !self.overtaken
    }

    /// Adds the rows of ids that are unknown, and were not observed as removed since the list was
    /// requested.
    fn add_unknown<R: Part>(&mut self, pod: &ListedPod, interval: Interval) {
        let Some(known) = &self.listed else {
            return;
        };
        let is_new = |id: &Id| !known.names(id) && !self.is_observed_since(id, interval.begun);
        let rows = R::of(pod).iter().filter(|row| is_new(row.id()));
        let rows: Vec<_> = rows.cloned().collect();
        for row in &rows {
            self.note_observed(row.id().clone(), interval.ended);
        }
        if !rows.is_empty() {
            self.amend(interval.source, |pod| {
                R::of_mut(pod).extend(rows);
                pod.sort();
            });
        }
    }

    /// Whether a list shows another state of a known id, or does not show it.
    fn differs_from_list<R: Part>(&self, pod: Option<&ListedPod>) -> bool {
        let rows = pod.map(R::of).unwrap_or_default();
        let known = self.listed.as_deref().map(R::of).unwrap_or_default();
        known.iter().any(|known| {
            let row = rows.iter().find(|row| row.id() == known.id());
            row.is_none_or(|row| row.state() != known.state())
        })
    }

    /// The known state of an id.
    pub(super) fn state_of<R: Part>(&self, id: &Id) -> Option<R::State> {
        let rows = self.listed.as_deref().map(R::of).unwrap_or_default();
        let row = rows.iter().find(|row| row.id() == id)?;
        Some(row.state())
    }

    /// Notes the ids of `before` that an observation which ended at `ended` shows as removed.
    pub(super) fn note_removed(&mut self, before: &ListedPod, ended: Instant) {
        for id in before.ids() {
            if self.listed.as_ref().is_none_or(|pod| !pod.names(id)) {
                self.note_observed(id.clone(), ended);
            }
        }
    }

    /// Notes when an observation of a single id ended.
    pub(super) fn note_observed(&mut self, id: Id, ended: Instant) {
        self.observed_at.insert(id, ended);
        if self.observed_at.len() > MAX_OBSERVED_IDS {
            let oldest = self.observed_at.iter().min_by_key(|(_, ended)| **ended);
            if let Some(id) = oldest.map(|(id, _)| id.clone()) {
                self.observed_at.remove(&id);
            }
        }
    }

    /// Whether an observation of this id ended at `time` or later.
    pub(super) fn is_observed_since(&self, id: &Id, time: Instant) -> bool {
        self.observed_at.get(id).is_some_and(|ended| *ended >= time)
    }

    /// Changes the newest version. If nothing is left of the pod, the pod is removed.
    pub(super) fn amend(&mut self, source: Source, change: impl FnOnce(&mut ListedPod)) {
        if let Some(listed) = &self.listed {
            let mut pod = ListedPod::clone(listed);
            change(&mut pod);
            self.list((!pod.is_empty()).then(|| Arc::new(pod)), source);
        }
    }

    pub(super) fn list(&mut self, pod: Option<Arc<ListedPod>>, source: Source) {
        // cri-dockerd lists a container whose start failed as created, while its status is exited. And
        // a delayed list shows a container as running that has exited since.
        let pod = pod.map(|pod| exited(pod, |id| self.ended.contains_key(id)));
        if self.listed != pod {
            self.source = source;
        }
        // Unchanged pods share one version, so that comparing them is a comparison of pointers.
        self.listed = if pod == self.committed {
            self.committed.clone()
        } else {
            pod
        };
    }

    /// Forgets the exits that a new list shows as well, those of containers that it does not show, and
    /// those of containers that it shows as running, if it was requested after the exit was known: they run
    /// again under the same id.
    fn forget_ended(&mut self, listed: &[Arc<ListedContainer>], interval: Interval) {
        self.ended.retain(|id, known| {
            let row = listed.iter().find(|row| row.id == *id);
            row.is_some_and(|row| match row.state {
                ContainerState::Exited => false,
                ContainerState::Running => interval.begun <= *known,
                ContainerState::Created | ContainerState::Unknown => true,
            })
        });
    }

    /// Applies the exits found by an inspection that ended at `ended`.
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
        let has_ended = |id: &Id| self.ended.contains_key(id);
        inspecting.version = exited(inspecting.version.clone(), has_ended);
        let settled = self.listed.clone().map(|pod| exited(pod, has_ended));
        if settled != self.listed {
            self.source = source.unwrap_or(self.source);
        }
        self.listed = settled;
    }

    /// Whether the inspection with this ticket is under way.
    pub(super) fn is_inspected_by(&self, ticket: &Ticket) -> bool {
        let inspecting = self.inspecting.as_ref();
        inspecting.is_some_and(|it| it.ticket == ticket.number)
    }

    /// Requests an inspection, unless one is under way.
    pub(super) fn retry(&mut self) {
        self.unconfirmed |= self.inspecting.is_none();
    }

    /// Whether the pod needs an inspection even if nothing differs.
    pub(super) fn is_requested(&self) -> bool {
        self.reinspect || self.unconfirmed || self.hint.is_some()
    }

    /// Whether there is something to do now. While an inspection is under way, there is nothing to do until
    /// it ends, unless the pod is removed.
    pub(super) fn wants_step(&self) -> bool {
        let wanted = self.is_requested() || self.listed != self.committed;
        self.listed.is_none() || wanted && self.inspecting.is_none()
    }
}

/// One of the two lists, as a part of a record.
pub(crate) trait Part: Row {
    /// The pods that these rows show.
    fn grouped(records: &Records, rows: &[Arc<Self>], taken: Instant) -> Snapshot;

    /// When the newest list of this kind arrived.
    fn listed(records: &mut Records) -> &mut Option<Instant>;

    /// How fresh this part of a record is.
    fn freshness(record: &mut Record) -> &mut Freshness;

    /// Notes the rows of the pod in a new list.
    fn received(_: &mut Record, _: &[Arc<Self>], _: Interval) {}

    /// Notes the observed state of one id; `None` means that it is removed.
    fn found(_: &mut Record, _: &Id, _: Option<Self::State>, _: Interval) {}
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
}

impl Part for ListedContainer {
    fn grouped(records: &Records, rows: &[Arc<Self>], taken: Instant) -> Snapshot {
        // Some runtimes name the pod of a container only through its sandbox.
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

    fn received(record: &mut Record, rows: &[Arc<Self>], interval: Interval) {
        record.forget_ended(rows, interval);
    }

    fn found(record: &mut Record, id: &Id, state: Option<ContainerState>, interval: Interval) {
        match state {
            Some(ContainerState::Exited) => record.ended.insert(id.clone(), interval.ended),
            _ => record.ended.remove(id),
        };
    }
}

/// Returns the pod with each container that has ended shown as exited.
pub(super) fn exited(pod: Arc<ListedPod>, has_ended: impl Fn(&Id) -> bool) -> Arc<ListedPod> {
    let is_wrong =
        |row: &ListedContainer| row.state != ContainerState::Exited && has_ended(&row.id);
    if !pod.containers.iter().any(|row| is_wrong(row)) {
        return pod;
    }
    let mut pod = Arc::unwrap_or_clone(pod);
    for row in pod.containers.iter_mut().filter(|row| is_wrong(row)) {
        Arc::make_mut(row).state = ContainerState::Exited;
    }
    Arc::new(pod)
}
