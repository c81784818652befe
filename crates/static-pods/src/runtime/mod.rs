//! The calls to the runtime. CRI messages are used only in this module.
//!
//! ```text
//!   PodSpec, Host --> SandboxConfig, ContainerConfig (opaque CRI messages)
//!                                   |
//!                                   v
//!   step -----------------> RuntimeClient --CRI--> runtime
//!                                   |
//!   OwnedSandbox, OwnedContainer <--/  lists, filtered by the owner's label
//! ```
//!
//! Requests are those of a kubelet, so that a runtime treats our pods like a kubelet's. The
//! annotations of a sandbox contain what the next run needs to end its pod without a manifest
//! (`OwnedSandbox`).

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
mod resources;
mod sandbox;
mod security;

pub use cgroup::{CgroupDriver, CgroupVersion, Cgroups};
pub use client::{ExecEnd, RuntimeClient};
pub use container::{ContainerConfig, ContainerStart};
use environment::environment;
pub use error::CallFailed;
use expansion::expand;
pub use host::Host;
pub(crate) use image::{Image, ImageUser, with_tag};
pub use owned::OwnedContainer;
pub(crate) use owned::OwnedSandbox;
pub use sandbox::SandboxConfig;

#[cfg(test)]
mod tests;
