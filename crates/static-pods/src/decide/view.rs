//! The observed state of a pod, and what can be concluded from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::{Id, PodUid};
use pleg::model::status::PodStatus;
use pleg::out::cache::Entry;
use pleg::out::failure::InspectError;
use pleg::runtime::{CallError, Rpc};
use tokio::time::Instant;

use super::why::Why;

/// The status of a pod in the PLEG's cache, and how complete it is.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) status: Arc<PodStatus>,
    pub(super) as_of: Option<Instant>,
    pub(super) extent: Extent,
    /// The unobserved containers, and why they are not observed.
    pub(super) unobserved: BTreeMap<Id, Why>,
}

/// How much of a pod a view contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The view contains everything that existed.
    Complete,
    /// The view contains what was known before. Newer containers may be missing, because a list is
    /// overdue or fails, or because a listed container was not found. If a container is unobserved,
    /// the view adds only the exits of the other containers.
    KnownIds,
    /// It is unknown how much the view contains: nothing can be concluded from what is missing.
    Unclear,
}

impl View {
    /// A complete view, as of a time just after `as_of`, of a pod that is not in the runtime. For
    /// such a pod, [`Cache::newer_than`](pleg::out::cache::Cache::newer_than) returns the default
    /// entry.
    pub fn not_found(uid: PodUid, as_of: Instant) -> Self {
        Self {
            status: Arc::new(PodStatus::unknown(uid)),
            // `newer_than` returns only entries that are strictly newer than the time.
            as_of: Some(as_of + Duration::from_nanos(1)),
            extent: Extent::Complete,
            unobserved: BTreeMap::new(),
        }
    }

    /// The view of an entry that [`Cache::newer_than`](pleg::out::cache::Cache::newer_than)
    /// returned for a pod and a time.
    pub fn newer_than(entry: &Entry, uid: &PodUid, time: Instant) -> Self {
        let status = &entry.status;
        let is_default = status.sandboxes.is_empty() && status.containers.is_empty();
        match is_default && !entry.inspected && entry.error.is_none() {
            true => Self::not_found(uid.clone(), time),
            false => entry.into(),
        }
    }

    /// Whether this view is as of a later time than `other`.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.as_of > other.as_of
    }
}

impl From<&Entry> for View {
    fn from(entry: &Entry) -> Self {
        let as_of = entry.as_of.map(|as_of| as_of.instant);
        let alone = entry.error.as_ref().and_then(unobserved);
        let is_clear = entry.inspected && (entry.error.is_none() || alone.is_some());
        let has_all = entry.error.is_none() && as_of.is_some() && entry.complete_as_of >= as_of;
        let extent = match is_clear {
            true if has_all => Extent::Complete,
            true => Extent::KnownIds,
            false => Extent::Unclear,
        };
        let dead = entry.dead.iter().map(|id| (id.clone(), Why::ProcessDead));
        Self {
            status: entry.status.clone(),
            as_of,
            extent,
            unobserved: alone.into_iter().chain(dead).collect(),
        }
    }
}

/// The unobserved container and the reason, if the pod is not observed because of one container.
fn unobserved(error: &InspectError) -> Option<(Id, Why)> {
    let (id, why) = match error {
        // The runtime is unreachable, which is not the container's fault.
        InspectError::Failed {
            error: CallError::Unavailable(_),
            ..
        } => return None,
        InspectError::Overdue {
            call: Rpc::ContainerStatus,
            id,
        } => (id, Why::StatusStuck),
        InspectError::Failed {
            call: Rpc::ContainerStatus,
            id,
            ..
        } => (id, Why::StatusFails),
        InspectError::Disagrees {
            call: Rpc::ContainerStatus,
            id,
        } => (id, Why::StatusContradictsList),
        InspectError::Contradicted { id } => (id, Why::ProcessDead),
        _ => return None,
    };
    Some((id.clone(), why))
}

/// How much of a pod is known for certain now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Everything that belongs to the pod is observed as of a time after our last operation on it.
    Complete,
    /// The ids of everything that exists are known, because there was a complete view since this run
    /// started, and only this run creates containers of the pod. The known states may be old.
    KnownIdsOnly,
    /// It is not known what exists, so nothing is created.
    Blind,
}
