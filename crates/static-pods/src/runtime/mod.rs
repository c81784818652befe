//! The door to the runtime: no CRI message goes further than this folder.
//!
//! ```text
//!   PodSpec + Host --sandbox, container--> SandboxConfig, ContainerConfig (CRI's messages, closed)
//!                                                 |
//!   decided step -----------------------> RuntimeClient ------ CRI ------> runtime
//!                                                 |
//!   OwnedSandbox, OwnedContainer <-- lists, by the owner's label <-----------+
//! ```
//!
//! Requests are made as a kubelet makes them, so that a runtime treats our pods as it treats a
//! kubelet's. What must be known of a pod after a restart of ours stands in the annotations of
//! its sandbox ([`OwnedSandbox`]): a manifest may be gone by then.

mod cgroup;
mod client;
mod container;
mod environment;
mod error;
mod expansion;
mod host;
mod image;
mod metadata;
mod oom;
mod owned;
mod pull;
mod resources;
mod sandbox;
mod security;

pub use cgroup::{CgroupDriver, CgroupVersion, Cgroups};
pub use client::{ExecEnd, RuntimeClient};
pub use container::{ContainerConfig, ContainerStart};
pub use environment::environment;
pub use error::CallFailed;
pub use expansion::expand;
pub use host::Host;
pub use image::{Image, ImageUser, RootRefused, with_tag};
pub use oom::{QosClass, qos_class};
pub use owned::{OwnedContainer, OwnedSandbox};
pub use pull::{PullDecision, decide_pull};
pub use sandbox::SandboxConfig;

#[cfg(test)]
mod tests;
