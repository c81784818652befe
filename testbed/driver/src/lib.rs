//! Pods on the testbed: makes the calls of a kubelet, without a kubelet.
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
//! # async fn example() -> testbed_driver::Result<()> {
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
//! # } // the testbed is removed when it is dropped
//! ```
//!
//! The pods have the labels and annotations of a kubelet's pods, so that the lists of the runtime are as
//! large as on a node. Any endpoint that is not of the testbed is refused, because `rm --all` on the
//! runtime of a real node would remove its pods.

mod bulk;
mod containers;
mod driver;
mod error;
mod hold;
mod kubelet;
mod pods;
mod running;
mod spec;
mod testbed;
mod verbose_status;

pub use driver::Driver;
pub use error::{Error, Result};
pub use hold::HeldUpdate;
pub use spec::{Container, ContainerSpec, Network, Pod, PodSpec};
pub use testbed::Testbed;

/// The process of a container.
pub use rustix::process::Pid;

/// The states of a container, as CRI numbers them.
pub use cri::v1::ContainerState;
