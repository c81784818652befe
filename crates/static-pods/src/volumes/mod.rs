//! The files of a pod on the host: its volumes, and its `/etc/hosts`.
//!
//! ```text
//!   <root>/pods/<uid>.json                                    a note of the pod, for the next run
//!   <root>/pods/<uid>/volumes/<name>                          emptyDir, on disk or a tmpfs
//!                    /volume-subpaths/<volume>/<container>/N  bind mount of a checked subPath
//!                    /etc-hosts                               /etc/hosts of its containers
//! ```
//!
//! All of this is file work that may block, so the caller runs it on a thread of its own. Each step
//! can be repeated, for example by the next run after a kill: what exists already is not changed.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use pleg::model::id::PodUid;

use crate::files::is_plain_name;
use crate::spec::{ContainerSpec, Mount, Network, PodSpec, Volume};

mod empty_dir;
mod error;
mod host_path;
mod hosts;
mod mounts;
mod note;
mod remove;
mod sub_path;

pub(crate) use error::VolumeError;
pub use note::read_notes;

/// The default directory of the pods' volumes.
pub const DEFAULT_ROOT: &str = "/var/lib/pleg/run";

/// The path of the `hosts` file in a container.
const ETC_HOSTS: &str = "/etc/hosts";

/// A path of the host that is mounted in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMount {
    /// The path in the container.
    pub container_path: String,
    /// The path on the host.
    pub host_path: PathBuf,
    /// Whether the container cannot write to it.
    pub read_only: bool,
    /// Whether it was created for the pod, so that the runtime may relabel it for SELinux.
    pub is_ours: bool,
}

/// The folder of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFolder {
    path: PathBuf,
}

impl PodFolder {
    /// The folder of the pod below `root`. The UID may come from a label in the runtime, so a UID
    /// that cannot be the name of a folder is an error.
    pub fn new(root: &Path, uid: &PodUid) -> Result<Self, VolumeError> {
        let name = checked_name(uid.as_str())?;
        let path = root.join("pods").join(name);
        Ok(Self { path })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a note of the pod, so that the next run finds the pod. `owner` is the owner of the pod.
    pub fn note(&self, owner: &str, pod: &PodSpec) -> Result<(), VolumeError> {
        let written = note::write(&self.path, owner, pod.into());
        written.map_err(|error| VolumeError::of_folder(&note::path(&self.path), error))
    }

    /// Removes the note. Call this once everything that belongs to the pod is removed.
    pub fn forget(&self) -> Result<(), VolumeError> {
        let removed = note::remove(&self.path);
        removed.map_err(|error| VolumeError::of_folder(&note::path(&self.path), error))
    }

    /// Creates the pod's `emptyDir` volumes, and checks its `hostPath` volumes. Call this before the
    /// pod's sandbox is created.
    pub fn set_up(&self, pod: &PodSpec) -> Result<(), VolumeError> {
        for (name, volume) in &pod.volumes {
            let failed = |path: &Path, error| VolumeError::of_volume(name, path, error);
            match volume {
                Volume::EmptyDir { medium } => {
                    let path = self.empty_dir(name)?;
                    let group = pod.security.fs_group;
                    empty_dir::make(&path, *medium, group).map_err(|error| failed(&path, error))?;
                }
                Volume::HostPath { path, kind } => {
                    host_path::check(path, *kind).map_err(|error| failed(path, error))?;
                }
            }
        }
        Ok(())
    }

    /// Prepares the mounts of a container that is to be created: checks and mounts its subPaths, and
    /// writes its `/etc/hosts`. `host_hosts` is the path of the host's own `hosts` file.
    pub fn container_mounts(
        &self,
        pod: &PodSpec,
        container: &ContainerSpec,
        pod_ip: Option<IpAddr>,
        host_hosts: &Path,
    ) -> Result<Vec<BindMount>, VolumeError> {
        let mut mounts = Vec::new();
        for (index, mount) in container.mounts.iter().enumerate() {
            let (host_path, is_ours) = self.source(pod, container, index, mount)?;
            mounts.push(BindMount {
                container_path: mount.path.clone(),
                host_path,
                read_only: mount.read_only,
                is_ours,
            });
        }
        // A mount of the manifest has precedence.
        let is_mounted = mounts.iter().any(|mount| mount.container_path == ETC_HOSTS);
        let hosts = match is_mounted {
            true => None,
            false => self.write_hosts(pod, pod_ip, host_hosts)?,
        };
        mounts.extend(hosts.map(|host_path| BindMount {
            container_path: ETC_HOSTS.to_owned(),
            host_path,
            read_only: container.security.read_only_root,
            is_ours: true,
        }));
        Ok(mounts)
    }

    /// Removes the folder. Call this once the pod's sandboxes are removed. Files of the host that were
    /// mounted in the folder are kept: mounts are unmounted first, and no link is followed.
    pub fn remove(&self) -> Result<(), VolumeError> {
        remove::folder(&self.path).map_err(|error| VolumeError::of_folder(&self.path, error))
    }

    fn empty_dir(&self, volume: &str) -> Result<PathBuf, VolumeError> {
        Ok(self.path.join("volumes").join(checked_name(volume)?))
    }

    fn source(
        &self,
        pod: &PodSpec,
        container: &ContainerSpec,
        index: usize,
        mount: &Mount,
    ) -> Result<(PathBuf, bool), VolumeError> {
        let volume = pod.volumes.get(&mount.volume);
        let volume = volume.ok_or_else(|| VolumeError::Unknown(mount.volume.clone()))?;
        let (path, is_ours) = match volume {
            Volume::EmptyDir { .. } => (self.empty_dir(&mount.volume)?, true),
            Volume::HostPath { path, .. } => (path.clone(), false),
        };
        let Some(sub_path) = mount.sub_path.as_deref().filter(|it| !it.is_empty()) else {
            return Ok((path, is_ours));
        };
        let folder = self.path.join("volume-subpaths");
        let folder = folder.join(checked_name(&mount.volume)?);
        let folder = folder.join(checked_name(&container.name)?);
        let place = folder.join(index.to_string());
        let bound = sub_path::open(&path, sub_path).and_then(|it| sub_path::bind(&it, &place));
        bound.map_err(|error| VolumeError::SubPath {
            volume: mount.volume.clone(),
            sub_path: sub_path.to_owned(),
            error,
        })?;
        Ok((place, is_ours))
    }

    /// Writes the pod's `/etc/hosts` and returns its path; `None` if its content is not known.
    fn write_hosts(
        &self,
        pod: &PodSpec,
        pod_ip: Option<IpAddr>,
        host_hosts: &Path,
    ) -> Result<Option<PathBuf>, VolumeError> {
        let path = self.path.join("etc-hosts");
        let text = match (&pod.network, pod_ip) {
            (Network::Host, _) => match std::fs::read_to_string(host_hosts) {
                Ok(text) => hosts::of_host(&text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(VolumeError::of_folder(host_hosts, error)),
            },
            (Network::Pod { hostname }, Some(ip)) => hosts::of_pod(hostname, ip),
            (Network::Pod { .. }, None) => return Ok(None),
        };
        let written = hosts::write(&path, &text);
        written.map_err(|error| VolumeError::of_folder(&path, error))?;
        Ok(Some(path))
    }
}

/// Checks that a name cannot lead out of its folder.
fn checked_name(name: &str) -> Result<&str, VolumeError> {
    let error = || VolumeError::Name(name.to_owned());
    is_plain_name(name).then_some(name).ok_or_else(error)
}

#[cfg(test)]
mod tests;
