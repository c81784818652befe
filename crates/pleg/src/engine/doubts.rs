//! Doubts about inspections that succeeded: an exit code is missing, or the status of an id
//! contradicts the list. Such a pod does not differ, so no relist would cause another inspection.
//!
//! ```text
//!   found --exit code missing-----> inspected again after 0.25 s, 0.5 s ... 5 min until it is there
//!     \-----contradicts the list--> inspected again after 0.25 s ... 10 s until it does not;
//!                                   failing, if lists that were requested since show the same
//! ```
//!
//! Until such a pod is inspected again after newer lists, it is unknown whether the list or the
//! status is right. No list confirms the pod meanwhile. A status that lacks a listed id is
//! incomplete.
//!
//! Both kinds of doubt occur: CRI-O reports an exit code of -1 until its exit file exists, and
//! cri-dockerd updates its list and its statuses one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::limits::{MAX_STATUS_OVERDUE, MAX_WITHHELD_PAUSE, SLOW_AFTER};
use crate::model::backoff::Backoff;
use crate::model::id::{Id, PodUid};
use crate::model::listed::{ContainerState, ListedPod, SandboxState};
use crate::model::status::{ContainerStatus, PodStatus};
use crate::out::coverage::Failing;
use crate::out::failure::InspectError;
use crate::runtime::Rpc;

/// The doubtful ids of each pod, and the contradicted pods.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    pods: BTreeMap<PodUid, BTreeMap<Id, Doubt>>,
    /// The pods whose status contradicts the list.
    contradicted: BTreeMap<PodUid, Contradicted>,
}

/// A pod whose status contradicts the list.
#[derive(Debug)]
struct Contradicted {
    /// When the pod's status first contradicted the list, perhaps in other ids than now.
    first: Instant,
    /// Whether the pod was inspected again after newer lists, which confirm or deny the
    /// contradiction. In a pod that changes all the time each contradiction is a new one: what was
    /// listed is gone when its status is requested.
    is_checked_by_lists: bool,
    /// The last status before the contradiction.
    last_good: Arc<PodStatus>,
}

#[derive(Debug)]
struct Doubt {
    /// Whether the status of the id contradicts the list. Otherwise its exit code is missing.
    contradicts: bool,
    /// When this doubt began.
    first: Instant,
    pauses: Backoff,
    /// When the pod is inspected again; `None` while it is.
    next: Option<Instant>,
    /// The contradiction to report, once newer lists confirm it.
    failing: Option<Failing>,
}

/// How a pod's status relates to its listing.
#[derive(Debug)]
pub(crate) enum Judged {
    /// The status agrees with the listing.
    Agrees,
    /// The status contradicts the listing, and newer lists will show which is right.
    Contradicts,
    /// The status contradicts the listing, and newer lists show the same.
    Fails {
        error: InspectError,
        /// The last status before the contradiction.
        last_good: Arc<PodStatus>,
    },
}

/// Why an id is in doubt.
#[derive(Debug)]
pub(crate) enum DoubtReason {
    LacksExitCode,
    Contradicts(Rpc, Option<Arc<str>>),
}

impl DoubtReason {
    fn contradicts(&self) -> bool {
        matches!(self, Self::Contradicts(..))
    }
}

impl Doubts {
    /// Takes in the status of an inspected pod, and returns how it relates to the listing.
    ///
    /// `contradictions` are [those](contradictions) of this status, and `last_good` is the status
    /// before it. `is_listed_since` returns whether the listing is from lists that were requested
    /// after a given time.
    pub(crate) fn inspected(
        &mut self,
        status: &PodStatus,
        contradictions: Contradictions,
        last_good: Arc<PodStatus>,
        is_listed_since: impl Fn(Instant) -> bool,
        now: Instant,
    ) -> Judged {
        let mut known = self.pods.remove(&status.uid).unwrap_or_default();
        let mut doubts = BTreeMap::new();
        let mut contradicts = false;
        let lacking = lack_exit_code(status).map(|id| (id, DoubtReason::LacksExitCode));
        let found: BTreeMap<Id, DoubtReason> = lacking.chain(contradictions).collect();
        for (id, found) in found {
            let known = known.remove(&id);
            // A doubt for another reason is a new one, with short pauses.
            let known = known.filter(|doubt| doubt.contradicts == found.contradicts());
            let mut doubt = known.unwrap_or_else(|| Doubt::new(found.contradicts(), now));
            doubt.retry(now);
            contradicts |= found.contradicts();
            doubt.failing = match found {
                DoubtReason::Contradicts(call, container) if is_listed_since(doubt.first) => {
                    let since = doubt.first;
                    let known = self.contradicted.get(&status.uid);
                    let unobserved_since = known.map_or(since, |known| known.first);
                    let error = InspectError::Disagrees {
                        call,
                        id: id.clone(),
                    };
                    Some(Failing {
                        id: id.clone(),
                        call,
                        container,
                        pod: Some(status.pod()),
                        error,
                        since,
                        unobserved_since,
                    })
                }
                _ => None,
            };
            doubts.insert(id, doubt);
        }
        let failing = doubts.values().find_map(|doubt| doubt.failing.as_ref());
        let judged = if contradicts {
            let known = self.contradicted.entry(status.uid.clone());
            let contradicted = known.or_insert(Contradicted {
                first: now,
                is_checked_by_lists: false,
                last_good,
            });
            contradicted.is_checked_by_lists |= is_listed_since(contradicted.first);
            match failing {
                Some(failing) => Judged::Fails {
                    error: failing.error.clone(),
                    last_good: contradicted.last_good.clone(),
                },
                None => Judged::Contradicts,
            }
        } else {
            self.contradicted.remove(&status.uid);
            Judged::Agrees
        };
        if !doubts.is_empty() {
            self.pods.insert(status.uid.clone(), doubts);
        }
        judged
    }

    /// Takes in a status after a container's own status call, outside an inspection, showed that
    /// the container has exited. Its exit code may be missing.
    pub(crate) fn exited(&mut self, status: &PodStatus, now: Instant) {
        for id in lack_exit_code(status) {
            let doubts = self.pods.entry(status.uid.clone()).or_default();
            doubts.entry(id).or_insert_with(|| Doubt::new(false, now));
        }
    }

    /// The pod was removed.
    pub(crate) fn forget(&mut self, uid: &PodUid) {
        self.pods.remove(uid);
        self.contradicted.remove(uid);
    }

    /// The pods to be inspected again now.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<PodUid> {
        let pods = self.pods.iter_mut();
        let due = pods.filter_map(|(uid, doubts)| {
            let taken = doubts
                .values_mut()
                .map(|doubt| doubt.next.take_if(|time| now >= *time));
            (taken.flatten().count() > 0).then(|| uid.clone())
        });
        due.collect()
    }

    /// When the next inspection is due.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        self.doubts().filter_map(|doubt| doubt.next).min()
    }

    /// The pods whose status contradicts the list, if newer lists have not confirmed or denied that
    /// yet.
    pub(crate) fn needing_lists(&self) -> impl Iterator<Item = &PodUid> {
        let new = self.contradicted.iter();
        let new = new.filter(|(_, contradicted)| !contradicted.is_checked_by_lists);
        new.map(|(uid, _)| uid)
    }

    /// Whether the status of this pod contradicts the list, and newer lists have not confirmed or
    /// denied that yet.
    pub(crate) fn needs_lists(&self, uid: &PodUid) -> bool {
        self.needing_lists().any(|contradicted| contradicted == uid)
    }

    /// The confirmed contradictions.
    pub(crate) fn failing(&self) -> impl Iterator<Item = Failing> {
        self.doubts().filter_map(|doubt| doubt.failing.clone())
    }

    fn doubts(&self) -> impl Iterator<Item = &Doubt> {
        self.pods.values().flat_map(BTreeMap::values)
    }
}

impl Doubt {
    fn new(contradicts: bool, now: Instant) -> Self {
        // CRI-O reports -1 until the exit file exists, which may never happen.
        let longest = match contradicts {
            true => MAX_STATUS_OVERDUE,
            false => MAX_WITHHELD_PAUSE,
        };
        let mut pauses = Backoff::new(SLOW_AFTER, 2, longest);
        Self {
            contradicts,
            first: now,
            next: Some(now + pauses.next()),
            pauses,
            failing: None,
        }
    }

    /// Plans the next inspection of an id that is still in doubt. The pause grows only after an
    /// inspection that this doubt caused.
    fn retry(&mut self, now: Instant) {
        if self.next.is_none() {
            self.next = Some(now + self.pauses.next());
        }
    }
}

fn lack_exit_code(status: &PodStatus) -> impl Iterator<Item = Id> {
    let containers = status.containers.iter();
    let lacks = containers.filter(|container| container.lacks_exit_code());
    lacks.map(|container: &ContainerStatus| container.id.clone())
}

/// For each id, how its status contradicts the list.
pub(crate) type Contradictions = BTreeMap<Id, DoubtReason>;

/// The listed rows that the status lacks, or that have ended according to the list but not to the
/// status. Only rows that the inspection `requested` and that are still `listed` count: the others
/// may have changed since.
pub(crate) fn contradictions(
    status: &PodStatus,
    requested: &ListedPod,
    listed: Option<&ListedPod>,
) -> Contradictions {
    let is_listed = |id: &Id| listed.is_some_and(|pod| pod.names(id));
    let mut contradictions = Contradictions::new();
    for row in requested.sandboxes.iter().filter(|row| is_listed(&row.id)) {
        let found = status.sandboxes.iter().find(|found| found.id == row.id);
        let agrees = found.is_some_and(|found| {
            row.state != SandboxState::NotReady || found.state != SandboxState::Ready
        });
        if !agrees {
            let reason = DoubtReason::Contradicts(Rpc::PodSandboxStatus, None);
            contradictions.insert(row.id.clone(), reason);
        }
    }
    for row in requested.containers.iter().filter(|row| is_listed(&row.id)) {
        let found = status.container(&row.id).map(|found| found.state);
        let agrees = match row.state {
            ContainerState::Exited => {
                matches!(
                    found,
                    Some(ContainerState::Exited | ContainerState::Unknown)
                )
            }
            _ => found.is_some(),
        };
        if !agrees {
            let name = Some(row.name.clone()).filter(|name| !name.is_empty());
            let reason = DoubtReason::Contradicts(Rpc::ContainerStatus, name);
            contradictions.insert(row.id.clone(), reason);
        }
    }
    contradictions
}
