//! Whose manner a simulated runtime has: who it says it is, what it says of an id that it does
//! not know, and how it serves events. As it was seen of CRI-O 1.36 and of cri-dockerd 0.4.

use pleg::model::id::Id;
use tonic::Status;

use crate::stream::Serving;

/// A runtime as which the node behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Its own, which is containerd's.
    #[default]
    Sim,
    /// CRI-O's, without pod events.
    CriO,
    /// cri-dockerd's: it asks dockerd for any id, whatever has it, and forwards the answer.
    CriDockerd,
}

impl Manner {
    /// Its name and its version.
    pub(crate) fn version(self) -> (&'static str, &'static str) {
        match self {
            Self::Sim => ("pleg-sim", env!("CARGO_PKG_VERSION")),
            Self::CriO => ("cri-o", "1.36.3"),
            Self::CriDockerd => ("docker", "20.10.24"),
        }
    }

    /// How it serves events, if not as anybody is told to.
    pub(crate) fn serving(self) -> Serving {
        match self {
            Self::Sim => Serving::default(),
            Self::CriO => Serving::EndsAtOnce,
            Self::CriDockerd => Serving::Unimplemented,
        }
    }

    /// There is no such container.
    pub(crate) fn no_container(self, id: &Id) -> Status {
        match self {
            Self::Sim => Status::not_found(format!("container {id}")),
            Self::CriO => Status::not_found(format!(
                "could not find container {:?}: container with ID starting with {id} not found: \
                 ID does not exist",
                id.as_str()
            )),
            Self::CriDockerd => no_such(id),
        }
    }

    /// There is no such sandbox.
    pub(crate) fn no_sandbox(self, id: &Id) -> Status {
        match self {
            Self::Sim => Status::not_found(format!("sandbox {id}")),
            Self::CriO => Status::not_found(format!(
                "could not find pod {:?}: pod sandbox with ID starting with {id} not found: ID \
                 does not exist",
                id.as_str()
            )),
            Self::CriDockerd => no_such(id),
        }
    }

    /// Whether a verbose status tells in which sandbox a container is.
    pub(crate) fn tells_sandboxes(self) -> bool {
        self != Self::CriDockerd
    }

    /// Whether the status of a sandbox can be had as that of a container, and the other way
    /// round.
    pub(crate) fn confuses_kinds(self) -> bool {
        self == Self::CriDockerd
    }
}

/// dockerd's words, without a code.
fn no_such(id: &Id) -> Status {
    Status::unknown(format!(
        "Error response from daemon: No such container: {id}"
    ))
}
