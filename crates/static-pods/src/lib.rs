//! Static pods without a kubelet: keeps the pods of a folder of manifests running on any CRI
//! runtime.
//!
//! ```text
//!   folder --manifest: parse or refuse--> PodSpec
//!                                            |
//!                                            v
//!   PodStatus (the PLEG's cache) --------> decide (pure) --steps--> worker --> calls, host
//!   probes, back-offs, earlier steps ---->   |
//!                                            v
//!                                     lines of output, pod reports
//! ```
//!
//! A wanted pod is a [`PodSpec`](spec::PodSpec). Kubernetes types are used only in [`manifest`],
//! and CRI messages only in [`runtime`].

pub mod adopted;
mod backoff;
pub mod completion;
pub mod decide;
mod files;
pub mod folder;
pub mod logs;
pub mod manifest;
pub mod pods;
mod probe;
pub mod runtime;
pub mod source;
pub mod spec;
pub mod volumes;
pub mod worker;

#[cfg(test)]
mod testing;
