//! What is known about a node: plain data, which bundles contain. Each fact has its source; a missing fact
//! has the reason why it is missing.

use pleg::model::wall_time::WallTime;
use serde::{Deserialize, Serialize};

pub mod host;
pub mod kubelet;
pub mod logs;
mod missing;
pub mod probes;
pub mod stacks;
pub mod tasks;

pub use host::HostFacts;
pub use missing::Missing;
pub use probes::ProbeFacts;

/// The input of a diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// When the facts were collected.
    pub taken: WallTime,
    /// The runtime's answers to calls, and other facts about it.
    pub probes: ProbeFacts,
    /// The state of the machine.
    pub host: HostFacts,
}

impl NodeFacts {
    /// The runtime's process: the one that listens on its socket or, if that is systemd, the one that
    /// systemd passed the socket to.
    pub fn runtime_process(&self) -> Option<&host::Process> {
        let listener = self.host.process(*self.probes.listener.value()?)?;
        if listener.comm != "systemd" {
            return Some(listener);
        }
        let path = self.probes.endpoint.strip_prefix("unix://")?;
        let socket = self.host.sockets.value()?.listener_at(path)?;
        let holder = self.host.process(socket.held_by?)?;
        (holder.pid != listener.pid).then_some(holder)
    }
}

/// Something that is known, or the reason why it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Fact<T> {
    /// The fact is known.
    Known {
        /// The value.
        value: T,
        /// Where it was read: a path, a call.
        source: String,
    },
    /// The fact is not known.
    Missing {
        /// Why it is not known: a deadline, missing permission, the system's error.
        why: Missing,
        /// Where it would have been read.
        source: String,
    },
}

impl<T> Fact<T> {
    /// Something that was read at `source`.
    pub fn known(value: T, source: impl Into<String>) -> Self {
        Self::Known {
            value,
            source: source.into(),
        }
    }

    /// Something that could not be read at `source`.
    pub fn missing(why: impl Into<Missing>, source: impl Into<String>) -> Self {
        Self::Missing {
            why: why.into(),
            source: source.into(),
        }
    }

    /// What was read at `source`, or the reason why it could not be.
    pub fn of<E: Into<Missing>>(read: Result<T, E>, source: impl Into<String>) -> Self {
        match read {
            Ok(value) => Self::known(value, source),
            Err(why) => Self::missing(why, source),
        }
    }

    /// The fact that follows from the value.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known { value, source } => Fact::known(convert(value), source),
            Self::Missing { why, source } => Fact::missing(why, source),
        }
    }

    /// The value, if it is known.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Known { value, .. } => Some(value),
            Self::Missing { .. } => None,
        }
    }

    /// Where it was read, or would have been.
    pub fn source(&self) -> &str {
        match self {
            Self::Known { source, .. } | Self::Missing { source, .. } => source,
        }
    }

    /// Why it is not known.
    pub fn why(&self) -> Option<&Missing> {
        match self {
            Self::Known { .. } => None,
            Self::Missing { why, .. } => Some(why),
        }
    }
}

impl<T> Default for Fact<T> {
    fn default() -> Self {
        Self::missing(Missing::NotAsked, "")
    }
}
