//! CRI's bytes, as far as the guard reads or writes them: everything else passes untouched.
//!
//! ```text
//!   row      a sandbox or container as a list has it: read, patched, made from other messages
//!   filter   which rows a list asks for
//!   status   the state that a status answer tells
//!   stats    statistics by id
//!   request  what a mutation is about
//! ```

pub(crate) mod filter;
pub(crate) mod request;
pub(crate) mod row;
pub(crate) mod stats;
pub(crate) mod status;

use cri::Rpc;

/// Which of the two kinds of things a runtime has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pod sandboxes.
    Sandbox,
    /// Containers.
    Container,
}

impl Kind {
    /// The call that lists them.
    pub(crate) fn list(self) -> Rpc {
        match self {
            Self::Sandbox => Rpc::ListPodSandbox,
            Self::Container => Rpc::ListContainers,
        }
    }

    /// The call that reads the status of one.
    pub(crate) fn status(self) -> Rpc {
        match self {
            Self::Sandbox => Rpc::PodSandboxStatus,
            Self::Container => Rpc::ContainerStatus,
        }
    }

    /// What a state of theirs is called.
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
