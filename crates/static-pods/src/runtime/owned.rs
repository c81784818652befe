//! What the lists tell of our sandboxes and containers, a manifest or not.

use cri::v1;
use pleg::model::id::{Id, PodRef};

use super::metadata::{self, Map};
use crate::adopted::Adopted;

/// A sandbox of ours, as its row and its annotations tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedSandbox {
    /// Its id.
    pub id: Id,
    /// Its pod.
    pub pod: Adopted,
    /// Which sandbox of its pod it is, from 0.
    pub attempt: u32,
}

/// A container of ours, as its row tells it.
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
    /// A row of ours; `None` for any other, which a runtime that does not filter may list.
    pub(super) fn read(row: v1::PodSandbox, owner: &str) -> Option<Self> {
        let file = row.annotations.get(metadata::FILE);
        Some(Self {
            pod: Adopted {
                pod: pod(&row.labels, owner)?,
                file: file.cloned().unwrap_or_default().into(),
                termination: metadata::termination(&row.annotations),
            },
            id: row.id.into(),
            attempt: row.metadata?.attempt,
        })
    }
}

impl OwnedContainer {
    /// The same for a container.
    pub(super) fn read(row: v1::Container, owner: &str) -> Option<Self> {
        Some(Self {
            pod: pod(&row.labels, owner)?,
            id: row.id.into(),
            sandbox_id: row.pod_sandbox_id.into(),
        })
    }
}

/// The pod by the labels of what is ours.
fn pod(labels: &Map, owner: &str) -> Option<PodRef> {
    let label = |name: &str| labels.get(name).map(String::as_str);
    (label(metadata::OWNER)? == owner).then_some(())?;
    Some(PodRef {
        uid: label(metadata::POD_UID)?.into(),
        namespace: label(metadata::POD_NAMESPACE)?.into(),
        name: label(metadata::POD_NAME)?.into(),
    })
}
