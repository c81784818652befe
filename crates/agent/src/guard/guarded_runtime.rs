//! The runtime, called through the guard if there is one.
//!
//! ```text
//!   a call --> its connection is lost --the route to the runtime has changed--> the call is repeated
//!                                     \--it is still the same route-----------> the call is lost
//! ```
//!
//! If the guard ends or stops responding, the connection is lost, which shows nothing about the
//! runtime; a kubelet repeats its calls, too. If the guard still responds, it closed the connection
//! because its own connection to the runtime ended. All calls of an agent only read, so each may be
//! made twice.

use std::future::Future;

use cri::Endpoint;
use guard_api::OBSERVER;
use pleg::model::id::Id;
use pleg::model::listed::{ListedContainer, ListedSandbox};
use pleg::model::status::{ContainerStatus, SandboxStatus};
use pleg::runtime::grpc::GrpcRuntime;
use pleg::runtime::{Announcements, CallError, Listing, NoConnection, Runtime, RuntimeVersion};

use super::Guard;

/// A runtime, perhaps behind a guard.
#[derive(Debug)]
pub struct GuardedRuntime {
    runtime: GrpcRuntime,
    guard: Option<Guard>,
}

impl GuardedRuntime {
    /// The runtime at `endpoint`, and the guard that may be in front of it.
    pub(crate) fn new(endpoint: &Endpoint, guard: Option<Guard>, max_message_size: usize) -> Self {
        let runtime = match &guard {
            // As an observer, the agent shares the calls of a kubelet instead of making them a second
            // time.
            Some(guard) => GrpcRuntime::via(guard.connect(), max_message_size, OBSERVER),
            None => GrpcRuntime::new(endpoint, max_message_size),
        };
        Self { runtime, guard }
    }

    /// Makes a call, and repeats it each time its connection is lost because the route to the runtime
    /// has changed.
    async fn call<A, F>(&self, call: impl Fn() -> F + Send) -> Result<A, CallError>
    where
        F: Future<Output = Result<A, CallError>> + Send,
    {
        let Some(guard) = &self.guard else {
            return call().await;
        };
        loop {
            let route = guard.route();
            let answer = call().await;
            let is_lost = matches!(&answer, Err(CallError::Unavailable(why)) if why.cause == NoConnection::Lost);
            if !is_lost || !guard.has_changed_since(route).await {
                return answer;
            }
        }
    }
}

impl Runtime for GuardedRuntime {
    async fn version(&self) -> Result<RuntimeVersion, CallError> {
        self.call(|| self.runtime.version()).await
    }

    async fn list_sandboxes(&self) -> Result<Listing<ListedSandbox>, CallError> {
        self.call(|| self.runtime.list_sandboxes()).await
    }

    async fn list_containers(&self) -> Result<Listing<ListedContainer>, CallError> {
        self.call(|| self.runtime.list_containers()).await
    }

    async fn sandbox_status(&self, id: &Id) -> Result<SandboxStatus, CallError> {
        self.call(|| self.runtime.sandbox_status(id)).await
    }

    async fn container_status(&self, id: &Id) -> Result<ContainerStatus, CallError> {
        self.call(|| self.runtime.container_status(id)).await
    }

    async fn container_pid(&self, id: &Id) -> Result<Option<u32>, CallError> {
        self.call(|| self.runtime.container_pid(id)).await
    }

    async fn announcements(&self) -> Result<Announcements, CallError> {
        self.call(|| self.runtime.announcements()).await
    }
}
