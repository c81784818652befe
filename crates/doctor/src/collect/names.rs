//! The pod and the name of a container or sandbox.

use std::collections::{BTreeMap, BTreeSet};

use causes::finding::PodName;
use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::out::pods::PodReport;

use super::bounded::bounded;

/// What a container or sandbox is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub pod: Option<PodName>,
    /// A sandbox has none.
    pub container: Option<String>,
}

/// The names of all containers and sandboxes of these pods.
pub(super) fn names(pods: &[PodReport]) -> BTreeMap<Id, Named> {
    let mut names = BTreeMap::new();
    for PodReport { status, .. } in pods {
        let pod = Some(pod_name(&status.pod()));
        for sandbox in &status.sandboxes {
            let named = Named {
                pod: pod.clone(),
                container: None,
            };
            names.insert(sandbox.id.clone(), named);
        }
        for container in &status.containers {
            let named = Named {
                pod: pod.clone(),
                container: Some(bounded(&container.name)),
            };
            names.insert(container.id.clone(), named);
        }
    }
    names
}

/// The containers that are listed as running in pods without a sandbox that is ready.
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
