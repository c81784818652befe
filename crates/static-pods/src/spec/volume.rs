//! The volumes of a pod.

use std::path::PathBuf;

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volume {
    /// `emptyDir`: created and removed with the pod.
    EmptyDir {
        /// The medium of its files.
        medium: Medium,
    },
    /// `hostPath`: a path of the host.
    HostPath {
        /// The path.
        path: PathBuf,
        /// What must exist or is created at the path.
        kind: HostPathType,
    },
}

/// `emptyDir.medium`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A folder of the host.
    Disk,
    /// A tmpfs.
    Memory {
        /// `sizeLimit` in bytes: the size of the file system.
        size_limit: Option<u64>,
    },
}

/// `hostPath.type`: what must exist or is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPathType {
    /// Anything; not checked.
    Any,
    /// A directory, which is created (0755) if it does not exist.
    DirectoryOrCreate,
    /// A directory.
    Directory,
    /// A file, which is created (0644) if it does not exist.
    FileOrCreate,
    /// A file.
    File,
    /// A unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}
