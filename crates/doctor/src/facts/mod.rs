//! What is known of a node: plain data, written into a bundle and read from it. A fact
//! says where it comes from; that it could not be had is a value too, with the reason.

use pleg::model::wall_time::WallTime;
use serde::{Deserialize, Serialize};

pub mod host;
pub mod kubelet;
mod missing;
pub mod probes;
pub mod stacks;
pub mod tasks;

pub use host::HostFacts;
pub use missing::Missing;
pub use probes::ProbeFacts;

/// Everything that a diagnosis is made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// When it was collected.
    pub taken: WallTime,
    /// What the runtime answered.
    pub probes: ProbeFacts,
    /// What the machine shows.
    pub host: HostFacts,
}

impl NodeFacts {
    /// The runtime's process: whoever listens at its socket, or the service for which systemd
    /// does.
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

/// Something known, or the reason why it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Fact<T> {
    /// It is known.
    Known {
        /// What.
        value: T,
        /// Where it was read: a path, a call.
        source: String,
    },
    /// It is not.
    Missing {
        /// Why: a deadline, a lack of rights, the system's words.
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

    /// What is known.
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
