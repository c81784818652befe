//! Unix sockets: who waits for whom to accept, to read or to answer.

use serde::{Deserialize, Serialize};

/// What the kernel's table of unix sockets shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnixSockets {
    /// Those that listen and have connections that nobody has accepted, or are a daemon's.
    pub listeners: Vec<Listener>,
    /// How many connections each path has, those with the most.
    pub connections: Vec<Connections>,
    /// Whom process 1 talks to, and what runtimes and kubelets have started.
    pub talks: Vec<Talk>,
}

/// A socket that listens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listener {
    /// Its path.
    pub path: String,
    /// Connections that nobody has accepted.
    pub waiting: u32,
    /// How many may wait; with more the next one blocks.
    pub backlog: u32,
    /// The process that has it open, where it is visible.
    pub held_by: Option<u32>,
}

/// The connections to a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connections {
    /// The path.
    pub path: String,
    /// How many.
    pub count: u32,
}

/// A connection from a process to whoever listens at a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Talk {
    /// Whose it is.
    pub pid: u32,
    /// The path.
    pub to: String,
    /// The process at the other end, where it is visible.
    pub with: Option<u32>,
    /// Bytes that have come and were not read.
    pub unread: u32,
}

impl UnixSockets {
    /// Who listens at a path.
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

    /// Whom a process talks to.
    pub fn talks_of(&self, pid: u32) -> impl Iterator<Item = &Talk> {
        self.talks.iter().filter(move |talk| talk.pid == pid)
    }
}

/// `/var/run` leads to `/run` everywhere, and sockets keep the name that they were bound to.
fn resolved(path: &str) -> &str {
    match path.strip_prefix("/var/run/") {
        Some(_) => &path["/var".len()..],
        None => path,
    }
}
