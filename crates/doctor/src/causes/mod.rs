//! From facts to findings: pure functions, one file for each cause, by the ids of
//! [`Cause`].

use crate::cause::Cause;
use crate::facts::NodeFacts;
use crate::finding::Finding;

mod cni_plugin_hang;
mod container_lock;
mod container_status_lock;
mod kubelet_internal;
mod list_exceeds_grpc_limit;
mod runtime_unresponsive;
mod shim_unresponsive;
mod too_many_containers;
mod who;

#[cfg(test)]
mod node;

/// What a cause says of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Opinion {
    /// It is this, or may be; one for each culprit.
    Found(Vec<Finding>),
    /// It is not this.
    Clear,
    /// Facts that it needs are missing: which, and why.
    CannotTell(String),
}

/// Judges a node.
pub type Judge = fn(&NodeFacts) -> Opinion;

/// Who judges which cause, in the order in which causes explain each other: what comes
/// first is the root, and what comes later its victim, if both are found.
pub const JUDGES: &[(Cause, Judge)] = &[
    (Cause::RuntimeUnresponsive, runtime_unresponsive::judge),
    (Cause::ListExceedsGrpcLimit, list_exceeds_grpc_limit::judge),
    (Cause::CniPluginHang, cni_plugin_hang::judge),
    (Cause::ContainerStatusLock, container_status_lock::judge),
    (Cause::ShimUnresponsive, shim_unresponsive::judge),
    (Cause::ContainerLock, container_lock::judge),
    (Cause::KubeletInternal, kubelet_internal::judge),
    (Cause::TooManyContainers, too_many_containers::judge),
];
