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
        /// Which call.
        call: Rpc,
        /// Of which container or sandbox.
        id: Id,
        /// Why.
        error: CallError,
    },
    /// A call has not been answered yet, and is overdue.
    #[error("{call} of {} has not answered", short(.id))]
    Overdue {
        /// Which call.
        call: Rpc,
        /// Of which container or sandbox.
        id: Id,
    },
    /// Each time that it was inspected, something newer was heard of it before the end.
    #[error("its status changes faster than the runtime answers")]
    Overtaken,
    /// No inspection of it has come to its end for long, whatever is answered.
    #[error("no inspection of this pod has ended since it changed")]
    NotSeen,
    /// Nothing was asked for, because as many calls as may be outstanding hang.
    #[error("its status was not requested, because too many calls have not been answered")]
    NotAsked,
    /// The runtime's list tells another state than its status, or the status does not exist.
    #[error("{call} of {} contradicts the runtime's list", short(.id))]
    Disagrees {
        /// Which call.
        call: Rpc,
        /// Of which container or sandbox.
        id: Id,
    },
    /// The kernel says that a container's process is dead, the runtime that it runs.
    #[error("the process of container {} is dead, but the runtime reports it as running", short(.id))]
    Contradicted {
        /// Of which container.
        id: Id,
    },
}

impl InspectError {
    /// Whether a call is not made for now.
    pub fn is_withheld(&self) -> bool {
        let is_withheld = |error: &CallError| *error == CallError::Withheld;
        matches!(self, Self::Failed { error, .. } if is_withheld(error))
    }

    /// Whether nothing failed but the time did not suffice: of that a runtime that is slow as a
    /// whole is the cause.
    pub fn is_slowness(&self) -> bool {
        matches!(self, Self::Overtaken | Self::NotSeen)
    }
}
