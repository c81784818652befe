//! Unix sockets: which processes wait for others to accept, to read or to respond.

use serde::{Deserialize, Serialize};

/// What the kernel's table of unix sockets shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnixSockets {
    /// Listening sockets of daemons, and those with connections that wait to be accepted.
    pub listeners: Vec<Listener>,
    /// The paths with the most connections.
    pub connections: Vec<Connections>,
    /// Connections of process 1, of `runc`, and of processes that a runtime or kubelet has started.
    pub talks: Vec<Talk>,
}

/// A socket that listens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listener {
    /// Its path.
    pub path: String,
    /// Connections that wait to be accepted.
    pub waiting: u32,
    /// How many connections may wait to be accepted; a further `connect` blocks.
    pub backlog: u32,
    /// The process that has it open, if that is visible.
    pub held_by: Option<u32>,
}

/// The connections to a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connections {
    /// The path.
    pub path: String,
    /// How many connections there are.
    pub count: u32,
}

/// A connection from a process to the one that listens on a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Talk {
    /// The process that connected.
    pub pid: u32,
    /// The path that it connected to.
    pub to: String,
    /// The process at the other end, if that is visible.
    pub with: Option<u32>,
    /// Bytes that were received but not read.
    pub unread: u32,
}

impl UnixSockets {
    /// The socket that listens on a path.
    pub fn listener_at(&self, path: &str) -> Option<&Listener> {
        let mut listeners = self.listeners.iter();
        listeners.find(|listener| resolved(&listener.path) == resolved(path))
    }

    /// How many connections a path has.
    pub fn connections_to(&self, path: &str) -> Option<u32> {
        let mut all = self.connections.iter();
        let found = all.find(|connections| resolved(&connections.path) == resolved(path));
        found.map(|connections| connections.count)
    }

    /// The connections of a process.
    pub fn talks_of(&self, pid: u32) -> impl Iterator<Item = &Talk> {
        self.talks.iter().filter(move |talk| talk.pid == pid)
    }
}

/// The path below `/run`: `/var/run` is a link to it, but sockets keep the path that they were bound to.
fn resolved(path: &str) -> &str {
    match path.strip_prefix("/var/run/") {
        Some(_) => &path["/var".len()..],
        None => path,
    }
}
