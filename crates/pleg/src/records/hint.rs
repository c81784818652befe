//! Hints: something may have happened in this pod, so inspect it now.
//!
//! ```text
//!   hint(pod) --> plan(pod) --> Inspect: known ids and hinted ids --> inspected(PodStatus)
//!                                                                          |
//!                        commit <-- the result counts as the newer listing /
//! ```
//!
//! An inspection that follows a hint does not wait for a list. Its result is both the newer listing
//! and the status. Hints about a pod whose inspection is under way cause one more inspection.

use std::sync::Arc;

use tokio::time::Instant;

use super::interval::{Freshness, Interval};
use super::record::{Part, Record};
use super::{Records, Ticket, note};
use crate::model::event::Source;
use crate::model::id::{Id, PodRef};
use crate::model::listed::{
    ContainerState, ListedContainer, ListedPod, ListedSandbox, SandboxState,
};
use crate::model::status::{PodStatus, Status};
use crate::model::wall_time::WallTime;

/// How many ids one hint may name. No pod produces more at once; a list shows the others.
const MAX_HINTED_IDS: usize = 32;

/// Something may have happened in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Where the hint is from.
    pub source: Source,
    /// When it arrived.
    pub at: Instant,
    /// The time in the runtime's event, if the hint is an event.
    pub announced: Option<WallTime>,
    /// The ids that it names, known or not.
    pub named: Vec<NamedId>,
    /// The ids that may have been removed. Only a list shows that any other listed id was removed.
    pub removed: Vec<Id>,
}

/// An id that a hint names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedId {
    /// A sandbox.
    Sandbox(Id),
    /// A container.
    Container {
        /// Its id.
        id: Id,
        /// The sandbox that it runs in.
        sandbox: Id,
    },
}

impl Hint {
    /// A hint of the kernel: a process of the pod exited, or has another PID.
    pub(crate) fn of_kernel(at: Instant) -> Self {
        Self {
            source: Source::Kernel,
            at,
            announced: None,
            named: Vec::new(),
            removed: Vec::new(),
        }
    }

    /// Merges a newer hint into this one, so that one inspection follows both. The source and the times are
    /// those of the newer hint.
    fn join(&mut self, newer: Self) {
        extend(&mut self.named, newer.named);
        extend(&mut self.removed, newer.removed);
        self.source = newer.source;
        self.at = newer.at;
        self.announced = newer.announced;
    }

    /// The pod with a row for each hinted id that is not listed. The status will fill in the rest.
    pub(super) fn extend(&self, listed: &Arc<ListedPod>) -> Arc<ListedPod> {
        let mut pod = ListedPod::clone(listed);
        for named in &self.named {
            match named {
                NamedId::Sandbox(id) | NamedId::Container { id, .. } if pod.names(id) => {}
                NamedId::Sandbox(id) => pod.sandboxes.push(Arc::new(ListedSandbox {
                    id: id.clone(),
                    pod: Some(pod.pod.clone()),
                    state: SandboxState::Unknown,
                    attempt: 0,
                    created_at: None,
                })),
                NamedId::Container { id, sandbox } => {
                    pod.containers.push(Arc::new(ListedContainer {
                        id: id.clone(),
                        sandbox_id: sandbox.clone(),
                        pod: Some(pod.pod.clone()),
                        name: "".into(),
                        state: ContainerState::Unknown,
                        attempt: 0,
                        created_at: None,
                    }))
                }
            }
        }
        Arc::new(pod)
    }
}

impl Records {
    /// Records a hint. [`Self::plan`] then returns an inspection of the pod, known or not.
    pub fn hint(&mut self, pod: &PodRef, hint: Hint) {
        if !self.pods.contains_key(&pod.uid) {
            self.amended();
        }
        let record = self.pods.entry(pod.uid.clone());
        let record = record.or_insert_with(|| {
            Box::new(Record {
                listed: Some(Arc::new(ListedPod::empty(pod.clone()))),
                ..Record::new(Freshness::hinted(hint.at), hint.source)
            })
        });
        match &mut record.hint {
            Some(known) => known.join(hint),
            none => *none = Some(Box::new(hint)),
        }
        note(&mut self.unsettled, &pod.uid, record);
    }

    /// The pod in which the id is listed.
    pub fn pod_of(&self, id: &Id) -> Option<PodRef> {
        let pod = self.listed().find(|pod| pod.names(id))?;
        Some(pod.pod.clone())
    }

    /// Applies the result of a successful inspection whose calls were sent at `begun` or later.
    ///
    /// If it followed a hint, the result is the newer listing and can be committed, unless something
    /// newer is known or nothing is left of the pod, which makes the ticket void. If it did
    /// not follow a hint, only the exits that the lists do not show yet are applied.
    pub fn inspected(
        &mut self,
        ticket: &Ticket,
        found: &PodStatus,
        begun: Instant,
        ended: Instant,
    ) {
        let record = self.pods.get_mut(&ticket.uid);
        let Some(record) = record.filter(|record| record.is_inspected_by(ticket)) else {
            return;
        };
        record.found(found, ended);
        let Some(hint) = record.inspecting.as_ref().and_then(|it| it.hint.clone()) else {
            return;
        };
        self.amended();
        let Some(record) = self.pods.get_mut(&ticket.uid) else {
            return;
        };
        let interval = Interval {
            begun,
            ended,
            source: hint.source,
        };
        let is_newer =
            record.sandboxes.admits_all(interval) && record.containers.admits_all(interval);
        let agrees = || {
            record.listed.is_some()
                && agree(record, &record.sandboxes, &found.sandboxes, interval)
                && agree(record, &record.containers, &found.containers, interval)
        };
        if is_newer || agrees() {
            let Some(inspecting) = record.inspecting.as_mut() else {
                return;
            };
            let version = inspecting.version.clone();
            let known = record.listed.clone();
            let is_known = |id: &Id| known.as_ref().is_some_and(|pod| pod.names(id));
            let stays = |id: &Id| is_known(id) && !hint.removed.contains(id);
            let found = as_found(&version, found, stays);
            record.sandboxes.all(interval);
            record.containers.all(interval);
            inspecting.version = Arc::new(found.clone());
            inspecting.begun = begun;
            let mut listed = found;
            if let Some(known) = &record.listed {
                listed.extend_beyond(known, &version);
            }
            let listed = match listed.is_empty() {
                true => record.expected(),
                false => Some(Arc::new(listed)),
            };
            if listed.is_none() {
                record.inspecting = None;
            }
            record.list(listed, interval.source);
            // An id that only the hint names may exist although it was not found once: a list decides.
            let is_reported = |id: &Id| is_known(id) || hint.removed.contains(id);
            let mut before = ListedPod::clone(&version);
            before.sandboxes.retain(|row| is_reported(&row.id));
            before.containers.retain(|row| is_reported(&row.id));
            record.note_removed(&before, ended);
        } else {
            // Another observation overlaps this one, and differs: neither is known to be newer.
            record.inspecting = None;
            record.retry();
            record.overtaken = true;
            let newer = record.hint.replace(hint);
            if let (Some(both), Some(newer)) = (&mut record.hint, newer) {
                both.join(*newer);
            }
        }
        if record.inspecting.is_none() {
            self.inspecting.remove(&ticket.uid);
        }
        note(&mut self.unsettled, &ticket.uid, record);
    }
}

/// Adds what is new, up to [`MAX_HINTED_IDS`].
fn extend<T: PartialEq>(known: &mut Vec<T>, newer: Vec<T>) {
    for it in newer {
        if !known.contains(&it) && known.len() < MAX_HINTED_IDS {
            known.push(it);
        }
    }
}

/// Whether statuses agree with what was observed of single ids meanwhile, so that it does not
/// matter which is newer. During sweeps some id of the pod is requested all the time.
fn agree<S: Status<Listed: Part>>(
    record: &Record,
    part: &Freshness,
    statuses: &[S],
    interval: Interval,
) -> bool {
    statuses.iter().all(|status| {
        let id = status.id();
        match record.state_of::<S::Listed>(id) {
            Some(known) => known == status.state(),
            // It is new, and not removed since, if no list and no status call that overlaps
            // `interval` has shown that it does not exist.
            None => part.admits_one(interval) && !record.is_observed_since(id, interval.begun),
        }
    })
}

/// The pod as an inspection found it. Rows that were not found are removed, unless a row `stays`
/// because the runtime has not reported its removal.
fn as_found(version: &ListedPod, found: &PodStatus, stays: impl Fn(&Id) -> bool) -> ListedPod {
    let sandboxes = version.sandboxes.iter().filter_map(|row| {
        let mut statuses = found.sandboxes.iter();
        let Some(status) = statuses.find(|status| status.id == row.id) else {
            return stays(&row.id).then(|| row.clone());
        };
        Some(Arc::new(ListedSandbox {
            state: status.state,
            attempt: status.attempt,
            created_at: status.created_at,
            ..ListedSandbox::clone(row)
        }))
    });
    let sandboxes: Vec<_> = sandboxes.collect();
    // The runtime removes a sandbox's containers with it.
    let was_there = |id: &Id| version.sandboxes.iter().any(|row| row.id == *id);
    let is_gone = |id: &Id| was_there(id) && !sandboxes.iter().any(|row| row.id == *id);
    let containers = version.containers.iter().filter_map(|row| {
        let Some(status) = found.container(&row.id) else {
            let stays = stays(&row.id) && !is_gone(&row.sandbox_id);
            return stays.then(|| row.clone());
        };
        Some(Arc::new(ListedContainer {
            name: status.name.clone(),
            state: status.state,
            attempt: status.attempt,
            created_at: status.created_at,
            ..ListedContainer::clone(row)
        }))
    });
    let mut pod = ListedPod {
        pod: version.pod.clone(),
        containers: containers.collect(),
        sandboxes,
    };
    pod.sort();
    pod
}
