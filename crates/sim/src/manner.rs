//! The real runtime that the simulated one imitates: its name, its errors for unknown ids, and how
//! it serves events. As observed with CRI-O 1.36 and cri-dockerd 0.4.

use pleg::model::id::Id;
use tonic::Status;

use crate::stream::Serving;

/// A runtime that the simulated one imitates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Like containerd, under its own name.
    #[default]
    Sim,
    /// Like CRI-O without pod events.
    CriO,
    /// Like cri-dockerd, which requests the status of any id from dockerd, whether it is that of a
    /// container or of a sandbox, and forwards the answer.
    CriDockerd,
}

impl Manner {
    /// The runtime's name and its version.
    pub(crate) fn version(self) -> (&'static str, &'static str) {
        match self {
            Self::Sim => ("pleg-sim", env!("CARGO_PKG_VERSION")),
            Self::CriO => ("cri-o", "1.36.3"),
            Self::CriDockerd => ("docker", "20.10.24"),
        }
    }

    /// How the runtime serves events by default.
    pub(crate) fn serving(self) -> Serving {
        match self {
            Self::Sim => Serving::default(),
            Self::CriO => Serving::EndsAtOnce,
            Self::CriDockerd => Serving::Unimplemented,
        }
    }

    /// The error for an unknown container.
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

    /// The error for an unknown sandbox.
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

    /// Whether a verbose status of a container reports its sandbox.
    pub(crate) fn reports_sandboxes(self) -> bool {
        self != Self::CriDockerd
    }

    /// Whether the runtime returns the status of a sandbox id as that of a container, and vice
    /// versa.
    pub(crate) fn mixes_kinds(self) -> bool {
        self == Self::CriDockerd
    }
}

/// dockerd's error, which has no code.
fn no_such(id: &Id) -> Status {
    Status::unknown(format!(
        "Error response from daemon: No such container: {id}"
    ))
}
