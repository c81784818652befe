//! The logs of containers, at the kubelet's paths, where log shippers expect them.
//!
//! ```text
//!   /var/log/pods/<namespace>_<name>_<uid>/<container>/<attempt>.log   written by the runtime
//!                                                     /<attempt>.log.<time>[.gz]    rotated
//!   /var/log/containers/<name>_<namespace>_<container>-<id>.log -> .../<attempt>.log
//! ```
//!
//! All of this is file work that may block, so the caller runs it on a thread of its own.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use pleg::model::id::{Id, PodRef};

use crate::files::{if_exists, is_plain_name, names};

mod compress;
mod rotation;

pub(crate) use rotation::is_due;
pub use rotation::{Limits, Rotated, rotate};

/// The default directory of the pods' logs.
pub const POD_LOGS: &str = "/var/log/pods";

/// The default directory of the links to the logs.
pub const LOG_LINKS: &str = "/var/log/containers";

/// The longest file name of common file systems.
const MAX_FILE_NAME_BYTES: usize = 255;

const SUFFIX: &str = ".log";

/// The log folder of a pod, as it is passed to the runtime.
pub(crate) fn folder_name(root: &Path, pod: &PodRef) -> String {
    let name = format!("{}_{}_{}", pod.namespace, pod.name, pod.uid);
    root.join(name).to_string_lossy().into_owned()
}

/// The path of a container's log in the log folder.
pub(crate) fn file_name(container: &str, attempt: u32) -> String {
    format!("{container}/{attempt}{SUFFIX}")
}

/// The directories of the logs and of the links to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFolders {
    /// The directory of the pods' logs.
    pub pods: PathBuf,
    /// The directory of the links to the logs.
    pub links: PathBuf,
}

impl Default for LogFolders {
    fn default() -> Self {
        Self {
            pods: POD_LOGS.into(),
            links: LOG_LINKS.into(),
        }
    }
}

impl LogFolders {
    /// Creates the folder in which the runtime then writes a container's log.
    pub fn make(&self, pod: &PodRef, container: &str) -> io::Result<()> {
        make_folder(&self.of_pod(pod)?.join(checked_part(container)?))
    }

    /// The path of a container's log.
    pub fn log(&self, pod: &PodRef, container: &str, attempt: u32) -> io::Result<PathBuf> {
        let name = file_name(checked_part(container)?, attempt);
        Ok(self.of_pod(pod)?.join(name))
    }

    /// Creates the link to the log of a container that was started.
    pub fn link(&self, pod: &PodRef, container: &str, attempt: u32, id: &Id) -> io::Result<()> {
        let target = self.log(pod, container, attempt)?;
        let link = self.links.join(link_name(pod, container, id)?);
        if fs::read_link(&link).is_ok_and(|known| known == target) {
            return Ok(());
        }
        make_folder(&self.links)?;
        remove_file(&link)?;
        symlink(target, link)
    }

    /// Removes the logs of one container, including the rotated ones, and the link to them.
    pub fn remove_container(
        &self,
        pod: &PodRef,
        container: &str,
        attempt: u32,
        id: &Id,
    ) -> io::Result<()> {
        remove_file(&self.links.join(link_name(pod, container, id)?))?;
        let folder = self.of_pod(pod)?.join(checked_part(container)?);
        let log = format!("{attempt}{SUFFIX}");
        for name in names(&folder)? {
            let rest = name.strip_prefix(&log);
            if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
                remove_file(&folder.join(name))?;
            }
        }
        Ok(())
    }

    /// Removes all logs of a pod, and the links to them.
    pub fn remove_pod(&self, pod: &PodRef) -> io::Result<()> {
        let folder = self.of_pod(pod)?;
        let prefix = format!("{}_{}_", pod.name, pod.namespace);
        for name in names(&self.links)? {
            let link = self.links.join(&name);
            // Another pod with this name and another UID may have links here too.
            let is_ours = || fs::read_link(&link).is_ok_and(|it| it.starts_with(&folder));
            if name.starts_with(&prefix) && is_ours() {
                remove_file(&link)?;
            }
        }
        if_exists(fs::remove_dir_all(folder))
    }

    fn of_pod(&self, pod: &PodRef) -> io::Result<PathBuf> {
        for part in [&*pod.namespace, &*pod.name, pod.uid.as_str()] {
            checked_part(part)?;
        }
        Ok(folder_name(&self.pods, pod).into())
    }
}

fn link_name(pod: &PodRef, container: &str, id: &Id) -> io::Result<String> {
    let (container, id) = (checked_part(container)?, checked_part(id.as_str())?);
    let mut name = format!(
        "{}_{}_{container}-{id}",
        checked_part(&pod.name)?,
        checked_part(&pod.namespace)?
    );
    while name.len() > MAX_FILE_NAME_BYTES - SUFFIX.len() {
        name.pop();
    }
    Ok(name + SUFFIX)
}

/// Checks that a part of a path cannot lead out of its folder.
fn checked_part(part: &str) -> io::Result<&str> {
    let error = || io::Error::other(format!("{part:?} cannot be part of the name of a log"));
    is_plain_name(part).then_some(part).ok_or_else(error)
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

fn remove_file(path: &Path) -> io::Result<()> {
    if_exists(fs::remove_file(path))
}

#[cfg(test)]
mod tests;
