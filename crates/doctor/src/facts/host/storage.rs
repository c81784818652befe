//! Disks, mounts, and how full file systems are.

use serde::{Deserialize, Serialize};

/// A disk, between the samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    /// Its major and minor number, `8:0`.
    pub device: String,
    /// Its name.
    pub name: String,
    /// Requests that had not completed in the second sample.
    pub in_flight: u64,
    /// Requests that had not completed in the first sample.
    pub in_flight_before: u64,
    /// Requests per second that completed.
    pub completed_per_second: f64,
    /// The share of the time in which it had requests to process.
    pub busy: f64,
    /// How long a request took on average.
    pub wait_milliseconds: Option<f64>,
}

/// What is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mounts {
    /// How many mounts process 1 sees.
    pub count: u64,
    /// The devices of the directories that the runtime and the kubelet use.
    pub roots: Vec<RootMount>,
    /// Mounts that depend on a server or another process.
    pub remote: Vec<RemoteMount>,
}

/// The device of a root directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RootMount {
    /// The root directory, `/var/lib/containerd`.
    pub root: String,
    /// The device's numbers.
    pub device: String,
    /// The type of the file system.
    pub kind: String,
}

/// A mount that depends on a server or another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemoteMount {
    /// The device's numbers.
    pub device: String,
    /// The type of the file system.
    pub kind: String,
    /// The server and its path.
    pub source: String,
    /// Where it is mounted.
    pub at: String,
}

/// A FUSE connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FuseConnection {
    /// Its number, which is the minor number of its device.
    pub number: u32,
    /// Requests that the process behind it has not answered.
    pub waiting: u64,
    /// Requests that this process had not answered in the first sample.
    pub waiting_before: u64,
}

/// How full a file system is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filesystem {
    /// The directory that was read.
    pub path: String,
    /// Total bytes.
    pub bytes: u64,
    /// Bytes that an unprivileged user can still write.
    pub bytes_available: u64,
    /// Total inodes; 0 if the file system creates them as needed.
    pub inodes: u64,
    /// Inodes that are left.
    pub inodes_available: u64,
    /// Whether it is read-only; such a file system is always full.
    pub read_only: bool,
}
