//! A runtime behind a unix socket, in CRI v1 or v1alpha2.
//!
//! ```no_run
//! use pleg::runtime::Runtime;
//! use pleg::runtime::grpc::{Endpoint, GrpcRuntime, MAX_MESSAGE_SIZE};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint: Endpoint = "unix:///run/containerd/containerd.sock".parse()?;
//! let runtime = GrpcRuntime::new(&endpoint, MAX_MESSAGE_SIZE);
//! println!("{}", runtime.version().await?);
//! println!("{} containers", runtime.list_containers().await?.rows.len());
//! # Ok(())
//! # }
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

use cri::fields::Malformed;
use cri::{ApiVersion, Client, lean, v1};
use futures_util::StreamExt;

pub use cri::{Connect, Endpoint, EndpointError};

use super::list::List;
use super::names::Names;
use super::{Announcements, CallError, Conditions, Listing, Rpc, Runtime, RuntimeVersion, convert};
use crate::model::id::Id;
use crate::model::listed::{ListedContainer, ListedSandbox};
use crate::model::status::{ContainerStatus, SandboxStatus};

/// The kubelet's receive limit (`maxMsgSize`).
pub const MAX_MESSAGE_SIZE: usize = 16 << 20;

/// A runtime behind a unix socket. Connects at the first call, and again after the connection was lost.
#[derive(Debug)]
pub struct GrpcRuntime {
    client: Client,
    uses_v1alpha2: AtomicBool,
    tries_v1: bool,
    sandboxes: List<ListedSandbox>,
    containers: List<ListedContainer>,
    names: Names,
}

impl GrpcRuntime {
    /// The runtime at `endpoint`; answers above `max_message_size` bytes are refused.
    ///
    /// Must be called within a tokio runtime.
    pub fn new(endpoint: &Endpoint, max_message_size: usize) -> Self {
        Self::on(Client::new(endpoint, max_message_size))
    }

    /// A runtime behind connections that `connect` makes. Each call has this metadata (a name and a value).
    pub fn via(
        connect: Connect,
        max_message_size: usize,
        metadata: (&'static str, &'static str),
    ) -> Self {
        Self::on(Client::via(connect, max_message_size, metadata))
    }

    fn on(client: Client) -> Self {
        Self {
            client,
            uses_v1alpha2: AtomicBool::new(false),
            tries_v1: true,
            sandboxes: List::new(Rpc::ListPodSandbox, Rpc::StreamPodSandboxes),
            containers: List::new(Rpc::ListContainers, Rpc::StreamContainers),
            names: Names::default(),
        }
    }

    /// The runtime at `endpoint`, always in v1alpha2, even if it serves v1.
    pub fn in_v1alpha2(endpoint: &Endpoint, max_message_size: usize) -> Self {
        Self {
            tries_v1: false,
            uses_v1alpha2: AtomicBool::new(true),
            ..Self::new(endpoint, max_message_size)
        }
    }

    /// The runtime's own conditions. Observing pods does not need them, so this is not part of
    /// [`Runtime`].
    pub async fn conditions(&self) -> Result<Conditions, CallError> {
        let request = v1::StatusRequest { verbose: true };
        let answer: v1::StatusResponse =
            self.client.unary(self.api(), Rpc::Status, request).await?;
        Ok(answer.into())
    }

    /// Sends a call with an empty request, and drops the answer, to learn whether the runtime answers it.
    /// The method must not require any field.
    pub async fn answers(&self, rpc: Rpc) -> Result<(), CallError> {
        Ok(self.client.unary(self.api(), rpc, ()).await?)
    }

    fn api(&self) -> ApiVersion {
        match self.uses_v1alpha2.load(Ordering::Relaxed) {
            true => ApiVersion::V1Alpha2,
            false => ApiVersion::V1,
        }
    }

    /// The first API version in which the runtime serves `Version`, and the answer.
    async fn negotiate(&self) -> Result<(ApiVersion, v1::VersionResponse), CallError> {
        let why = match self.version_in(ApiVersion::V1).await {
            Err(CallError::Unimplemented(why)) => why,
            answer => return Ok((ApiVersion::V1, answer?)),
        };
        match self.version_in(ApiVersion::V1Alpha2).await {
            // Neither version is served: report the error of v1.
            Err(CallError::Unimplemented(_)) => Err(CallError::Unimplemented(why)),
            answer => Ok((ApiVersion::V1Alpha2, answer?)),
        }
    }

    fn set_api(&self, api: ApiVersion) {
        let is_old = api == ApiVersion::V1Alpha2;
        self.uses_v1alpha2.store(is_old, Ordering::Relaxed);
    }

    /// Requests a list. If the runtime serves it only in the other API version, that version is used from
    /// the next call on: the runtime was replaced by another one, whose `Version` may be stuck.
    async fn request_list<Row>(
        &self,
        list: &List<Row>,
        mut each: impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<usize, CallError> {
        let api = self.api();
        let answer = list.request(&self.client, api, &mut each).await;
        if self.tries_v1 && matches!(answer, Err(CallError::Unimplemented(_))) {
            let other = match api {
                ApiVersion::V1 => ApiVersion::V1Alpha2,
                ApiVersion::V1Alpha2 => ApiVersion::V1,
            };
            // Other errors, for example of a proxy, do not show that the version is served.
            if let Ok(_) | Err(CallError::TooLarge(_) | CallError::Malformed(_)) =
                list.request(&self.client, other, each).await
            {
                self.set_api(other);
            }
        }
        // The call fails even so, because `Version` is requested after a failure.
        answer
    }

    async fn request_container(
        &self,
        id: &Id,
        verbose: bool,
    ) -> Result<v1::ContainerStatusResponse, CallError> {
        let request = v1::ContainerStatusRequest {
            container_id: id.to_string(),
            verbose,
        };
        let method = Rpc::ContainerStatus;
        Ok(self.client.unary(self.api(), method, request).await?)
    }

    /// How many connections were made so far. A change shows a restart during which no call was
    /// outstanding.
    pub fn connections(&self) -> usize {
        self.client.connections()
    }

    async fn version_in(&self, api: ApiVersion) -> Result<v1::VersionResponse, CallError> {
        let request = v1::VersionRequest {
            version: "0.1.0".to_owned(),
        };
        Ok(self.client.unary(api, Rpc::Version, request).await?)
    }
}

impl Runtime for GrpcRuntime {
    /// Also decides the API version: v1, or v1alpha2 if the runtime does not know v1.
    async fn version(&self) -> Result<RuntimeVersion, CallError> {
        let (api, answer) = match self.tries_v1 {
            true => self.negotiate().await?,
            false => (
                ApiVersion::V1Alpha2,
                self.version_in(ApiVersion::V1Alpha2).await?,
            ),
        };
        self.set_api(api);
        self.sandboxes.forget_way();
        self.containers.forget_way();
        Ok(RuntimeVersion {
            name: answer.runtime_name.into(),
            version: answer.runtime_version.trim_start_matches('v').into(),
            api_version: api.as_str().into(),
        })
    }

    async fn list_sandboxes(&self) -> Result<Listing<ListedSandbox>, CallError> {
        let mut reading = self.sandboxes.read();
        let each = |item: &[u8]| {
            let sandbox = lean::sandbox(item)?;
            reading.item(sandbox, || convert::sandbox_row(&self.names, &sandbox));
            Ok(())
        };
        let bytes = self.request_list(&self.sandboxes, each).await?;
        Ok(self.sandboxes.keep(reading.end(), bytes))
    }

    async fn list_containers(&self) -> Result<Listing<ListedContainer>, CallError> {
        let mut reading = self.containers.read();
        let each = |item: &[u8]| {
            let container = lean::container(item)?;
            reading.item(container, || {
                convert::container_row(&self.names, &container)
            });
            Ok(())
        };
        let bytes = self.request_list(&self.containers, each).await?;
        Ok(self.containers.keep(reading.end(), bytes))
    }

    async fn sandbox_status(&self, id: &Id) -> Result<SandboxStatus, CallError> {
        let request = v1::PodSandboxStatusRequest {
            pod_sandbox_id: id.to_string(),
            verbose: false,
        };
        let method = Rpc::PodSandboxStatus;
        let answer = self.client.unary(self.api(), method, request).await?;
        convert::sandbox_status(&self.names, id, answer)
    }

    async fn container_status(&self, id: &Id) -> Result<ContainerStatus, CallError> {
        let answer = self.request_container(id, false).await?;
        convert::container_status(&self.names, id, answer)
    }

    async fn container_pid(&self, id: &Id) -> Result<Option<u32>, CallError> {
        Ok(convert::pid(&self.request_container(id, true).await?))
    }

    async fn announcements(&self) -> Result<Announcements, CallError> {
        let request = v1::GetEventsRequest {};
        let method = Rpc::GetContainerEvents;
        let events = self.client.streaming(self.api(), method, request).await?;
        let announced = events.filter_map(async |event| match event {
            Ok(event) => convert::announced(event).map(Ok),
            Err(error) => Some(Err(error.into())),
        });
        Ok(Box::pin(announced))
    }
}
