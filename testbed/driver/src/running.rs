//! Finding a running container by its name while ListContainers hangs.
//!
//! A test wants to kill one at exactly that time. The kernel shows it: below the
//! pod's cgroup there is one per running container, named by its id, and ContainerStatus shows
//! the name that goes with it.

use std::path::PathBuf;
use std::time::Duration;

use cri::v1::ContainerStatusResponse;

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::kubelet;
use crate::pods::newest;

/// Under the status lock the status of one container hangs; the others answer in a millisecond.
const STATUS_LIMIT: Duration = Duration::from_secs(1);

impl Driver {
    /// The id of the running container of that name; asks for the list of sandboxes and for
    /// single statuses, never for the list of containers.
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
                // It may be the one that is wanted.
                Err(error @ Error::NoAnswer { .. }) => missing = error,
                // Another container; or the sandbox, which has a cgroup too, and no container status.
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

/// The folders below `cgroup`, in whichever hierarchy has it (v2 first, else any of v1).
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
