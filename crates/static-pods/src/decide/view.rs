//! What was seen of a pod, and what may be concluded from it.

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

/// A pod's status as the PLEG's cache has it, and how far it goes.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) status: Arc<PodStatus>,
    /// Begun at this time, or later.
    pub(super) as_of: Option<Instant>,
    pub(super) extent: Extent,
    /// The containers of which nothing new is seen, and why not, as it is told.
    pub(super) unseen: BTreeMap<Id, Why>,
}

/// What a view shows of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All that there was of the pod.
    All,
    /// All that was known of it, or a part. What was created since is not seen, as a list does not
    /// come, or one that is listed was not found.
    Known,
    /// What was known of it, but for the containers that are not seen. An exit of the others is.
    AllButUnseen,
    /// Nothing can be concluded from what is missing in it.
    Unclear,
}

impl View {
    /// The pod is not in the runtime: a look that was begun after `as_of` did not find it
    /// ([`Cache::newer_than`](pleg::out::cache::Cache::newer_than) gives the default entry then).
    pub fn not_found(uid: PodUid, as_of: Instant) -> Self {
        Self {
            status: Arc::new(PodStatus::unknown(uid)),
            // Strictly after, and so is what it shows.
            as_of: Some(as_of + Duration::from_nanos(1)),
            extent: Extent::All,
            unseen: BTreeMap::new(),
        }
    }

    /// What [`Cache::newer_than`](pleg::out::cache::Cache::newer_than) gave for a pod and a time.
    pub fn newer_than(entry: &Entry, uid: &PodUid, time: Instant) -> Self {
        let status = &entry.status;
        let is_default = status.sandboxes.is_empty() && status.containers.is_empty();
        match is_default && !entry.inspected && entry.error.is_none() {
            true => Self::not_found(uid.clone(), time),
            false => entry.into(),
        }
    }

    /// Whether what it shows was seen later.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.as_of > other.as_of
    }
}

impl From<&Entry> for View {
    fn from(entry: &Entry) -> Self {
        let as_of = entry.as_of.map(|as_of| as_of.instant);
        let alone = entry.error.as_ref().and_then(unseen);
        let extent = match &entry.error {
            _ if !entry.inspected => Extent::Unclear,
            None if as_of.is_some() && entry.complete_as_of >= as_of => Extent::All,
            None => Extent::Known,
            Some(_) if alone.is_some() => Extent::AllButUnseen,
            Some(_) => Extent::Unclear,
        };
        let dead = entry.dead.iter().cloned();
        let dead = dead.map(|id| (id, Why::ProcessDead));
        Self {
            status: entry.status.clone(),
            as_of,
            extent,
            unseen: alone.into_iter().chain(dead).collect(),
        }
    }
}

/// The container that alone keeps the pod from being seen, if it is one.
fn unseen(error: &InspectError) -> Option<(Id, Why)> {
    let (id, why) = match error {
        // Then it is not about this container.
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

/// How far what is known of a pod can be trusted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All that the pod has is seen, as of after our last action.
    Complete,
    /// What is new is not seen, but all that the pod has is known: all of it was seen since our
    /// start, and nobody but us creates anything of it. Each id is as it was last seen; that a
    /// container has exited is final.
    KnownIdsOnly,
    /// Neither: nothing is created.
    Blind,
}
