//! Our sandboxes and containers, as read from the runtime's lists.

use cri::v1;
use pleg::model::id::{Id, PodRef};

use super::metadata::{self, Map};
use crate::adopted::Adopted;

/// A sandbox of ours, from its list item and its annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedSandbox {
    /// Its pod.
    pub pod: Adopted,
    /// Its attempt, counted from 0.
    pub attempt: u32,
}

/// A container of ours, from its list item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedContainer {
    /// Its id.
    pub id: Id,
    /// The sandbox that it runs in.
    pub sandbox_id: Id,
    /// Its pod.
    pub pod: PodRef,
}

impl OwnedSandbox {
    /// Reads a row; `None` if the sandbox is not ours, because a runtime may ignore the filter.
    pub(super) fn read(row: v1::PodSandbox, owner: &str) -> Option<Self> {
        let file = row.annotations.get(metadata::FILE);
        Some(Self {
            pod: Adopted {
                pod: pod(&row.labels, owner)?,
                file: file.cloned().unwrap_or_default().into(),
                termination: metadata::termination(&row.annotations),
            },
            attempt: row.metadata?.attempt,
        })
    }
}

impl OwnedContainer {
    /// Reads a row; `None` if the container is not ours, because a runtime may ignore the filter.
    pub(super) fn read(row: v1::Container, owner: &str) -> Option<Self> {
        Some(Self {
            pod: pod(&row.labels, owner)?,
            id: row.id.into(),
            sandbox_id: row.pod_sandbox_id.into(),
        })
    }
}

/// The pod in the labels; `None` if the labels are not ours.
fn pod(labels: &Map, owner: &str) -> Option<PodRef> {
    let label = |name: &str| labels.get(name).map(String::as_str);
    (label(metadata::OWNER)? == owner).then_some(())?;
    Some(PodRef {
        uid: label(metadata::POD_UID)?.into(),
        namespace: label(metadata::POD_NAMESPACE)?.into(),
        name: label(metadata::POD_NAME)?.into(),
    })
}
