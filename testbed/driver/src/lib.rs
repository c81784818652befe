//! Pods on the test bed: what a kubelet would do to a runtime, without the kubelet.
//!
//! ```text
//!   Testbed --- runs ---> testbed/testbed (bash) --- starts, stops, breaks ---> containerd
//!      |                                                                            ^
//!   endpoint()                                                                      |
//!      v                                                                            |
//!   Driver --- CRI: RunPodSandbox, CreateContainer, UpdateContainerResources, … ----+
//! ```
//!
//! ```no_run
//! # use testbed_driver::{Driver, PodSpec, Testbed};
//! # async fn story() -> testbed_driver::Result<()> {
//! let testbed = Testbed::up("2", "e2e").await?;
//! let driver = Driver::new(&testbed.endpoint())?;
//! let web = driver.run_pod(&PodSpec::new("web").container("main").container("sidecar")).await?;
//! driver.kill_container(web.id("main")?).await?;
//!
//! testbed.verb(&["shim-stop", &web.sandbox_id]).await?;
//! let update = driver.hold_update(web.id("sidecar")?).await; // ListContainers hangs from here …
//! testbed.verb(&["shim-cont", &web.sandbox_id]).await?; //      … to here
//! update.answered().await?;
//! driver.remove_pod(&web).await
//! # } // the test bed goes down when it is dropped
//! ```
//!
//! The pods carry the labels and annotations of a kubelet's pods, so that the
//! runtime's list answers weigh what they weigh on a node. Only the
//! instances of the test bed are driven: any other endpoint is refused, since
//! `rm --all` on a real node's runtime would be a bad day.

mod bulk;
mod containers;
mod driver;
mod error;
mod hold;
mod inside;
mod kubelet;
mod pods;
mod running;
mod spec;
mod testbed;

pub use driver::Driver;
pub use error::{Error, Result};
pub use hold::HeldUpdate;
pub use spec::{Container, ContainerSpec, Network, Pod, PodSpec};
pub use testbed::Testbed;

/// The process of a container.
pub use rustix::process::Pid;

/// The states of a container, as CRI numbers them.
pub use cri::v1::ContainerState;
