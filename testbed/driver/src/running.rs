//! Finds a running container by its name while ListContainers is stuck.
//!
//! Tests kill a container at this time. Each running container has a cgroup below that of the pod, named
//! after its id, and ContainerStatus returns the name of the container.

use std::path::PathBuf;
use std::time::Duration;

use cri::v1::ContainerStatusResponse;

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::kubelet;
use crate::pods::newest;

/// During the status lock one status call is stuck. The others are answered within a millisecond.
const STATUS_LIMIT: Duration = Duration::from_secs(1);

impl Driver {
    /// The id of the running container of this name. Calls ListPodSandbox and ContainerStatus, but not
    /// ListContainers.
    pub async fn running_container(&self, pod: &str, container: &str) -> Result<String> {
        let found = newest(self.sandboxes().await?, pod)?;
        let quick = self.clone().with_deadline(STATUS_LIMIT);
        let mut missing = Error::NoContainer {
            pod: found.name.clone(),
            kind: "running container",
            container: container.into(),
        };
        for id in ids_below(&self.cgroup(&found.uid)) {
            match quick.container_status(&id, false).await {
                Ok(answer) if is_named(&answer, container) => return Ok(id),
                // It may be the requested container.
                Err(error @ Error::NoAnswer { .. }) => missing = error,
                // Another container, or the sandbox, which has a cgroup but no container status.
                Ok(_) | Err(_) => {}
            }
        }
        Err(missing)
    }
}

fn is_named(answer: &ContainerStatusResponse, name: &str) -> bool {
    let status = answer.status.as_ref();
    status
        .and_then(|status| status.labels.get(kubelet::CONTAINER_NAME))
        .is_some_and(|label| label == name)
}

/// The directories below `cgroup`, in the v2 hierarchy or the first v1 hierarchy that has it.
fn ids_below(cgroup: &str) -> Vec<String> {
    let root = PathBuf::from("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(&root).into_iter().flatten().flatten();
    std::iter::once(root)
        .chain(hierarchies.map(|entry| entry.path()))
        .filter_map(|hierarchy| {
            std::fs::read_dir(hierarchy.join(cgroup.trim_start_matches('/'))).ok()
        })
        .map(|folder| {
            folder
                .flatten()
                .filter(|entry| entry.path().is_dir())
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect::<Vec<_>>()
        })
        .find(|ids| !ids.is_empty())
        .unwrap_or_default()
}
