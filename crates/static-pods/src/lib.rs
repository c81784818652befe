//! Static pods without a kubelet: the pods of a folder of manifests are kept running on any
//! CRI runtime.
//!
//! ```text
//!   folder --manifest: parsed, or refused by name--> PodSpec
//!                                                       |
//!   PodStatus (the PLEG's cache) --------------> decide: what to do next (pure) --> steps
//!   probes, back-offs, what was done before ---->       |                            |
//!                                                       v                            v
//!                                              lines that people read         calls to the runtime
//! ```
//!
//! What is wanted of a pod is a [`PodSpec`](spec::PodSpec): no Kubernetes type and no CRI message
//! goes further than the module that reads or makes it.

pub mod adopted;
pub mod backoff;
pub mod collect;
pub mod decide;
pub mod folder;
pub mod logs;
pub mod manifest;
pub mod once;
pub mod pods;
pub mod probe;
pub mod runtime;
pub mod source;
pub mod spec;
pub mod volumes;
pub mod worker;

#[cfg(test)]
mod testing;
