//! The runtime as a trait: a few calls, their answers in this library's types, and why a call failed.
//! [`grpc`] implements it for a real runtime.
//!
//! ```
//! use pleg::runtime::{CallError, Runtime};
//! use sim::Sim;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), CallError> {
//! let runtime = Sim::new();
//! runtime.run("web-0", &["app"]);
//!
//! let listed = runtime.list_containers().await?;
//! let status = runtime.container_status(&listed.rows[0].id).await?;
//! assert_eq!(&*status.name, "app");
//!
//! let unknown = runtime.container_status(&"unknown".into()).await;
//! assert!(matches!(unknown, Err(CallError::NotFound(_))));
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::id::Id;
use crate::model::listed::{ListedContainer, ListedSandbox};
use crate::model::status::{ContainerStatus, SandboxStatus, Status};

pub mod grpc;

mod announced;
mod conditions;
mod convert;
mod failure;
mod list;
mod names;
mod rows;

pub use cri::Rpc;

pub use announced::{Announced, AnnouncedSandbox, Announcements};
pub use base::{About, OutstandingCall};
pub use conditions::{Condition, Conditions};
pub use failure::{CallError, NoConnection, Unreachable};

/// The unary calls that this library sends, in display order. Its only other call is the stream of events.
pub const CALLS: [Rpc; 5] = [
    Rpc::Version,
    Rpc::ListPodSandbox,
    Rpc::ListContainers,
    Rpc::PodSandboxStatus,
    Rpc::ContainerStatus,
];

/// The name and versions of a runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeVersion {
    /// `containerd`, `cri-o`.
    pub name: Arc<str>,
    /// Its version, as reported.
    pub version: Arc<str>,
    /// The CRI version in use: `v1` or `v1alpha2`.
    pub api_version: Arc<str>,
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, CRI {}",
            self.name, self.version, self.api_version
        )
    }
}

/// A list, and its size.
#[derive(Clone, Debug)]
pub struct Listing<Row> {
    /// The rows. An unchanged row is the same `Arc` as in the last answer. If all are unchanged, the
    /// slice may be the same too.
    pub rows: Arc<[Arc<Row>]>,
    /// The answer's size in bytes.
    pub bytes: usize,
}

/// A container runtime. Calls have no deadline: the caller supervises them (see [`crate::engine`]).
pub trait Runtime: Send + Sync + 'static {
    /// Requests the runtime's name and versions.
    fn version(&self) -> impl Future<Output = Result<RuntimeVersion, CallError>> + Send;

    /// Lists all sandboxes.
    fn list_sandboxes(
        &self,
    ) -> impl Future<Output = Result<Listing<ListedSandbox>, CallError>> + Send;

    /// Lists all containers.
    fn list_containers(
        &self,
    ) -> impl Future<Output = Result<Listing<ListedContainer>, CallError>> + Send;

    /// Requests the status of a sandbox.
    fn sandbox_status(
        &self,
        id: &Id,
    ) -> impl Future<Output = Result<SandboxStatus, CallError>> + Send;

    /// Requests the status of a container.
    fn container_status(
        &self,
        id: &Id,
    ) -> impl Future<Output = Result<ContainerStatus, CallError>> + Send;

    /// The PID of a container's init process, from a verbose `ContainerStatus`; `None` if the runtime does
    /// not report it, or the container has no process.
    fn container_pid(&self, id: &Id)
    -> impl Future<Output = Result<Option<u32>, CallError>> + Send;

    /// Opens the stream of events. A runtime may answer only with the first event, so a call that does not
    /// return has not failed.
    fn announcements(&self) -> impl Future<Output = Result<Announcements, CallError>> + Send;
}

/// Returns the status if it is that of the requested id. Any other status is an error.
pub fn of_the_requested<S: Status>(requested: &Id, status: S) -> Result<S, CallError> {
    let received = status.id();
    if received == requested {
        return Ok(status);
    }
    let text = format!("requested the status of {requested}, received that of {received}");
    Err(CallError::Malformed(text.into()))
}
