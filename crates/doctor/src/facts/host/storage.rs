//! Disks, what is mounted, and how full it is.

use serde::{Deserialize, Serialize};

/// A disk over the time between the looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    /// Its numbers, `8:0`.
    pub device: String,
    /// Its name.
    pub name: String,
    /// Requests that it has not answered.
    pub in_flight: u64,
    /// Requests that it had not answered at the first look.
    pub in_flight_before: u64,
    /// Requests a second that it answered.
    pub completed_per_second: f64,
    /// The share of the time in which it had something to do.
    pub busy: f64,
    /// How long a request took.
    pub wait_milliseconds: Option<f64>,
}

/// What is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mounts {
    /// How many mounts process 1 sees.
    pub count: u64,
    /// What is under the roots that the runtime and the kubelet use.
    pub roots: Vec<RootMount>,
    /// What may be answered by somebody else.
    pub remote: Vec<RemoteMount>,
}

/// Which device a root is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RootMount {
    /// The root, `/var/lib/containerd`.
    pub root: String,
    /// The device's numbers.
    pub device: String,
    /// The type of the file system.
    pub kind: String,
}

/// A mount that a server, or a process, stands behind.
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

/// A connection of FUSE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FuseConnection {
    /// Its number, which is the minor number of its device.
    pub number: u32,
    /// Requests that the process behind it has not answered.
    pub waiting: u64,
    /// The same at the first look.
    pub waiting_before: u64,
}

/// How full a file system is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filesystem {
    /// The folder that was asked for.
    pub path: String,
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes that a plain user could still write.
    pub bytes_available: u64,
    /// Inodes in all; 0 where they are made as needed.
    pub inodes: u64,
    /// Inodes that are left.
    pub inodes_available: u64,
    /// Nobody may write to it, so that it is full by design.
    pub read_only: bool,
}
