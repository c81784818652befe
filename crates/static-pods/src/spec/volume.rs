//! The volumes of a pod.

use std::path::PathBuf;

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volume {
    /// `emptyDir`: made with the pod, removed with it.
    EmptyDir {
        /// Where its files are.
        medium: Medium,
    },
    /// `hostPath`: a path of the host.
    HostPath {
        /// The path.
        path: PathBuf,
        /// What must be there before.
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

/// `hostPath.type`: what must be there, or is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPathType {
    /// Anything; not looked at.
    Any,
    /// A directory, which is made (0755) if it is not there.
    DirectoryOrCreate,
    /// A directory.
    Directory,
    /// A file, which is made (0644) if it is not there.
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
