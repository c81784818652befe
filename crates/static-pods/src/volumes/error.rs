//! Errors of the pods' files on the host.

use std::io;
use std::path::{Path, PathBuf};

/// A volume or another file of a pod could not be created or removed.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A name that would lead out of its folder.
    #[error("{0:?} cannot be the name of a directory")]
    Name(String),
    /// A mount names a volume that the pod does not have.
    #[error("the pod has no volume {0:?}")]
    Unknown(String),
    #[error("volume {volume:?}: {}: {error}", path.display())]
    Volume {
        volume: String,
        path: PathBuf,
        error: io::Error,
    },
    #[error("volume {volume:?}: subPath {sub_path:?}: {error}")]
    SubPath {
        volume: String,
        sub_path: String,
        error: io::Error,
    },
    /// Another file of the pod could not be created or removed.
    #[error("{}: {error}", path.display())]
    Folder { path: PathBuf, error: io::Error },
}

impl VolumeError {
    pub(super) fn of_volume(volume: &str, path: &Path, error: io::Error) -> Self {
        Self::Volume {
            volume: volume.to_owned(),
            path: path.to_owned(),
            error,
        }
    }

    pub(super) fn of_folder(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::Folder { path, error }
    }
}
