//! The pods that an earlier run left, in the runtime or only on this host.

use std::collections::BTreeMap;
use std::sync::Arc;

use pleg::model::id::{PodRef, PodUid};
use serde::{Deserialize, Serialize};

use crate::decide::Termination;
use crate::runtime::OwnedSandbox;
use crate::spec::PodSpec;

/// A pod that an earlier run left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Adopted {
    /// The pod.
    pub pod: PodRef,
    /// The name of its manifest's file.
    pub file: Arc<str>,
    /// How it is ended.
    pub termination: Termination,
}

impl From<&PodSpec> for Adopted {
    fn from(spec: &PodSpec) -> Self {
        Self {
            pod: spec.pod.clone(),
            file: spec.file.clone(),
            termination: spec.into(),
        }
    }
}

/// Merges the pods by UID. The newest sandbox of a pod overrides its note in `noted`. A pod that
/// has only a note had no sandbox when the earlier run ended.
pub fn merge_adopted(
    noted: Vec<Adopted>,
    mut sandboxes: Vec<OwnedSandbox>,
) -> BTreeMap<PodUid, Adopted> {
    sandboxes.sort_by_key(|sandbox| sandbox.attempt);
    let sandboxes = sandboxes.into_iter().map(|sandbox| sandbox.pod);
    let pods = noted.into_iter().chain(sandboxes);
    pods.map(|it| (it.pod.uid.clone(), it)).collect()
}
