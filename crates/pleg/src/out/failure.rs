//! Why a pod has no fresh status.
//!
//! ```
//! use pleg::out::failure::InspectError;
//! use pleg::runtime::Rpc;
//!
//! let error = InspectError::Overdue {
//!     call: Rpc::ContainerStatus,
//!     id: "61ac7eca54e99f1af95fc541a9f9".into(),
//! };
//! assert_eq!(error.to_string(), "ContainerStatus of 61ac7eca54e99 has not answered");
//! ```

use crate::model::id::Id;
use crate::out::health::short;
use crate::runtime::{CallError, Rpc};

/// Why a pod has no fresh status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// A call failed.
    #[error("{call} of {} failed: {error}", short(.id))]
    Failed {
        /// The method of the call.
        call: Rpc,
        /// The container or sandbox.
        id: Id,
        /// Why the call failed.
        error: CallError,
    },
    /// A call has not been answered yet, and is overdue.
    #[error("{call} of {} has not answered", short(.id))]
    Overdue {
        /// The method of the call.
        call: Rpc,
        /// The container or sandbox.
        id: Id,
    },
    /// No inspection has shown the pod's present state for a long time, although calls are
    /// answered.
    #[error("no inspection of this pod has ended since it changed")]
    NotSeen,
    /// No call was sent, because no more may be outstanding.
    #[error("its status was not requested, because too many calls have not been answered")]
    NotSent,
    /// The runtime's list shows another state than its status, or the status does not exist.
    #[error("{call} of {} contradicts the runtime's list", short(.id))]
    Disagrees {
        /// The method of the call.
        call: Rpc,
        /// The container or sandbox.
        id: Id,
    },
    /// The kernel reports that a container's process exited; the runtime reports that it runs.
    #[error("the process of container {} is dead, but the runtime reports it as running", short(.id))]
    Contradicted {
        /// The container.
        id: Id,
    },
    /// The kernel reports that a container's process runs; the runtime does not list the container.
    #[error("the process of container {} runs, but the runtime does not list it any more", short(.id))]
    Unlisted {
        /// The container.
        id: Id,
    },
}

impl InspectError {
    /// Whether a call is withheld.
    pub fn is_withheld(&self) -> bool {
        let withheld = CallError::Withheld;
        matches!(self, Self::Failed { error, .. } if *error == withheld)
    }

    /// Whether a process runs whose container the runtime does not list.
    pub fn is_unlisted(&self) -> bool {
        matches!(self, Self::Unlisted { .. })
    }

    /// Whether nothing failed, but the runtime as a whole is too slow.
    pub fn is_slowness(&self) -> bool {
        matches!(self, Self::NotSeen)
    }
}
