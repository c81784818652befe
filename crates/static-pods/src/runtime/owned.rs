//! What the lists tell of our sandboxes and containers, a manifest or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use cri::v1;
use pleg::model::id::{Id, PodRef, PodUid};

use super::metadata::{self, Map};
use crate::decide::Termination;

/// A sandbox of ours, as its row and its annotations tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedSandbox {
    /// Its id.
    pub id: Id,
    /// Its pod.
    pub pod: PodRef,
    /// Which sandbox of its pod it is, from 0.
    pub attempt: u32,
    /// The file that the manifest was in.
    pub file: Arc<str>,
    /// How the pod is ended.
    pub termination: Termination,
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

/// A pod that an earlier run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Which pod.
    pub pod: PodRef,
    /// The file that its manifest was in.
    pub file: Arc<str>,
    /// How it is ended.
    pub termination: Termination,
}

/// The pods of the sandboxes that were listed, by UID: of each one, its newest sandbox tells.
pub fn adopted(mut sandboxes: Vec<OwnedSandbox>) -> BTreeMap<PodUid, Adopted> {
    sandboxes.sort_by_key(|sandbox| sandbox.attempt);
    let pods = sandboxes.into_iter().map(|sandbox| {
        let OwnedSandbox {
            pod,
            file,
            termination,
            ..
        } = sandbox;
        let adopted = Adopted {
            pod,
            file,
            termination,
        };
        (adopted.pod.uid.clone(), adopted)
    });
    pods.collect()
}

impl OwnedSandbox {
    /// A row of ours; `None` for any other, which a runtime that does not filter may list.
    pub(super) fn read(row: v1::PodSandbox, owner: &str) -> Option<Self> {
        let file = row.annotations.get(metadata::FILE);
        Some(Self {
            pod: pod(&row.labels, owner)?,
            id: row.id.into(),
            attempt: row.metadata?.attempt,
            file: file.cloned().unwrap_or_default().into(),
            termination: metadata::termination(&row.annotations),
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
