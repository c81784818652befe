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
    /// The name of the manifest file.
    pub file: Arc<str>,
    /// How to end the pod.
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

/// Merges both lists of pods by UID. The newest sandbox of a pod overrides the pod's entry in
/// `noted`. A pod that is only in `noted` had no sandbox when the earlier run ended.
pub fn merge_adopted(
    noted: Vec<Adopted>,
    mut sandboxes: Vec<OwnedSandbox>,
) -> BTreeMap<PodUid, Adopted> {
    sandboxes.sort_by_key(|sandbox| sandbox.attempt);
    let sandboxes = sandboxes.into_iter().map(|sandbox| sandbox.pod);
    let pods = noted.into_iter().chain(sandboxes);
    pods.map(|it| (it.pod.uid.clone(), it)).collect()
}
