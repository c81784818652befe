//! What a pod has on the host: its volumes, and its `/etc/hosts`.
//!
//! ```text
//!   <root>/pods/<uid>.json                                    whose pod it is, for the next run
//!   <root>/pods/<uid>/volumes/<name>                          emptyDir, on disk or a tmpfs
//!                    /volume-subpaths/<volume>/<container>/N  a subPath, bound after it was checked
//!                    /etc-hosts                               what its containers see as /etc/hosts
//! ```
//!
//! Everything here is file work that may block, and takes no part in decisions: the caller runs
//! it on a thread of its own. Each step may be repeated: what is there already is left as it is,
//! so that a kill at any moment is made good by doing it again.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use pleg::model::id::PodUid;

use crate::spec::{ContainerSpec, Mount, Network, PodSpec, Volume};

mod empty_dir;
mod error;
mod host_path;
mod hosts;
mod mounts;
mod note;
mod remove;
mod sub_path;

pub use error::VolumeError;
pub use note::noted;

/// Where the folders of pods are by default.
pub const DEFAULT_ROOT: &str = "/var/lib/pleg/run";

/// Where containers look up the names of hosts.
const ETC_HOSTS: &str = "/etc/hosts";

/// A path of the host as a container sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMount {
    /// Where the container sees it.
    pub container_path: String,
    /// Where it is.
    pub host_path: PathBuf,
    /// Whether the container cannot write to it.
    pub read_only: bool,
    /// Whether it was made for the pod, so that it may be labelled for it where SELinux is on.
    pub is_ours: bool,
}

/// The folder of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFolder {
    path: PathBuf,
}

impl PodFolder {
    /// The folder of the pod below `root`. The UID may be that of a label in the runtime, so one
    /// that is no name of a folder is refused.
    pub fn new(root: &Path, uid: &PodUid) -> Result<Self, VolumeError> {
        let name = plain_name(uid.as_str())?;
        let path = root.join("pods").join(name);
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves a note of the pod, by which the next run finds whatever is made after. `owner` is whose
    /// it is.
    pub fn note(&self, owner: &str, pod: &PodSpec) -> Result<(), VolumeError> {
        let written = note::write(&self.path, owner, pod.into());
        written.map_err(|error| VolumeError::of_folder(&note::path(&self.path), error))
    }

    /// Removes the note, once nothing is left of the pod.
    pub fn forget(&self) -> Result<(), VolumeError> {
        let removed = note::remove(&self.path);
        removed.map_err(|error| VolumeError::of_folder(&note::path(&self.path), error))
    }

    /// Makes the pod's volumes, and checks those of the host, before its sandbox is made.
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

    /// Prepares what a container sees of the host, before it is made: subPaths are checked and
    /// bound, and its `/etc/hosts` is written. `host_hosts` is the host's own.
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
        // A manifest that mounts something there knows better.
        let has_its_own = mounts.iter().any(|mount| mount.container_path == ETC_HOSTS);
        let hosts = match has_its_own {
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

    /// Removes all of the pod on the host, once its sandboxes are removed. What the pod only saw
    /// of the host stays: mounts are taken off and never gone into, and no link is followed.
    pub fn remove(&self) -> Result<(), VolumeError> {
        remove::folder(&self.path).map_err(|error| VolumeError::of_folder(&self.path, error))
    }

    fn empty_dir(&self, volume: &str) -> Result<PathBuf, VolumeError> {
        Ok(self.path.join("volumes").join(plain_name(volume)?))
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
        let place = self.path.join("volume-subpaths");
        let place = place.join(plain_name(&mount.volume)?);
        let place = place
            .join(plain_name(&container.name)?)
            .join(index.to_string());
        let bound = sub_path::open(&path, sub_path).and_then(|it| sub_path::bind(&it, &place));
        bound.map_err(|error| VolumeError::SubPath {
            volume: mount.volume.clone(),
            sub_path: sub_path.to_owned(),
            error,
        })?;
        Ok((place, is_ours))
    }

    /// Writes the pod's `/etc/hosts`, if there is anything to tell.
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

/// A name that stays in its folder.
fn plain_name(name: &str) -> Result<&str, VolumeError> {
    let is_plain = !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
    is_plain
        .then_some(name)
        .ok_or_else(|| VolumeError::Name(name.to_owned()))
}

#[cfg(test)]
mod tests;
