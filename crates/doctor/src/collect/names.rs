//! The pods and names of containers and sandboxes.

use std::collections::{BTreeMap, BTreeSet};

use causes::finding::PodName;
use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::out::pods::PodReport;

use super::bounded::bounded;

/// The pod and the name of a container or sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub pod: Option<PodName>,
    /// The container's name; a sandbox has none.
    pub container: Option<String>,
}

/// The names of all containers and sandboxes of these pods.
pub(super) fn names(pods: &[PodReport]) -> BTreeMap<Id, Named> {
    let mut names = BTreeMap::new();
    for PodReport { status, .. } in pods {
        let pod = Some(pod_name(&status.pod()));
        let named = |container| Named {
            pod: pod.clone(),
            container,
        };
        let sandboxes = status.sandboxes.iter();
        names.extend(sandboxes.map(|sandbox| (sandbox.id.clone(), named(None))));
        let containers = status.containers.iter();
        names.extend(containers.map(|it| (it.id.clone(), named(Some(bounded(&it.name))))));
    }
    names
}

/// The containers that are listed as running in pods that have sandboxes, but none that is ready.
pub(super) fn running_without_sandbox(pods: &[PodReport]) -> BTreeSet<Id> {
    let ended = pods.iter().map(|pod| &pod.status).filter(|pod| {
        let mut sandboxes = pod.sandboxes.iter();
        !pod.sandboxes.is_empty() && sandboxes.all(|it| it.state != SandboxState::Ready)
    });
    let containers = ended.flat_map(|pod| &pod.containers);
    let running = containers.filter(|it| it.state == ContainerState::Running);
    running.map(|it| it.id.clone()).collect()
}

/// A pod as findings name it.
pub(super) fn pod_name(pod: &PodRef) -> PodName {
    PodName {
        uid: Some(bounded(pod.uid.as_str())),
        namespace: Some(bounded(&pod.namespace)),
        name: Some(bounded(&pod.name)),
    }
}
