//! The fields of CRI messages that the guard reads or writes. All others are passed on unchanged.
//!
//! ```text
//!   row      a row of a list, for one sandbox or container: read, patched, or built from other messages
//!   filter   which rows a list requests
//!   status   the state in a status answer
//!   stats    statistics by id
//!   request  the target of a mutation
//! ```

pub(crate) mod filter;
pub(crate) mod request;
pub(crate) mod row;
pub(crate) mod stats;
pub(crate) mod status;

use cri::Rpc;

/// What a call is about: pod sandboxes or containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pod sandboxes.
    Sandbox,
    /// Containers.
    Container,
}

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::Sandbox, Self::Container];

    /// The call that lists this kind.
    pub(crate) fn list(self) -> Rpc {
        match self {
            Self::Sandbox => Rpc::ListPodSandbox,
            Self::Container => Rpc::ListContainers,
        }
    }

    /// The call that returns the status of one sandbox or container.
    pub(crate) fn status(self) -> Rpc {
        match self {
            Self::Sandbox => Rpc::PodSandboxStatus,
            Self::Container => Rpc::ContainerStatus,
        }
    }

    /// The name of a state, by its number in CRI.
    pub(crate) fn state_name(self, state: i32) -> &'static str {
        match (self, state) {
            (Self::Sandbox, 0) => "ready",
            (Self::Sandbox, _) => "notReady",
            (Self::Container, 0) => "created",
            (Self::Container, 1) => "running",
            (Self::Container, 2) => "exited",
            (Self::Container, _) => "unknown",
        }
    }
}
