//! A node on a socket, with a client.

use cri::{ApiVersion, Client, Endpoint, Rpc, v1};
use prost::Message;
use sim::{Sim, grpc};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tonic::{Status, Streaming};

/// Larger than an oversize answer.
const MAX_MESSAGE_SIZE: usize = 64 << 20;

pub struct Served {
    pub client: Client,
    pub endpoint: Endpoint,
    _place: TempDir,
}

impl Served {
    pub fn new(sim: &Sim) -> Self {
        Self::speaking(sim, ApiVersion::V1)
    }

    pub fn speaking(sim: &Sim, api: ApiVersion) -> Self {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("sim.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(grpc::serve_as(sim.clone(), listener, api));
        let endpoint = Endpoint::new(socket);
        Self {
            client: Client::acting(&endpoint, MAX_MESSAGE_SIZE),
            endpoint,
            _place: place,
        }
    }

    pub async fn call<Q, A>(&self, rpc: Rpc, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.client.unary(ApiVersion::V1, rpc, request).await
    }

    pub async fn version(&self, api: ApiVersion) -> Result<v1::VersionResponse, Status> {
        let request = v1::VersionRequest::default();
        self.client.unary(api, Rpc::Version, request).await
    }

    pub async fn container_status(&self, id: &str) -> Result<v1::ContainerStatus, Status> {
        let answer = self.container_status_response(id, false).await?;
        assert!(answer.info.is_empty());
        Ok(answer.status.unwrap())
    }

    /// The additional part of the verbose status of a container.
    pub async fn container_info(&self, id: &str) -> Option<String> {
        let answer = self.container_status_response(id, true).await;
        let mut answer = answer.unwrap();
        answer.info.remove("info")
    }

    async fn container_status_response(
        &self,
        id: &str,
        verbose: bool,
    ) -> Result<v1::ContainerStatusResponse, Status> {
        let request = v1::ContainerStatusRequest {
            container_id: id.to_owned(),
            verbose,
        };
        self.call(Rpc::ContainerStatus, request).await
    }

    pub async fn events(&self) -> Result<Streaming<v1::ContainerEventResponse>, Status> {
        let request = v1::GetEventsRequest {};
        let rpc = Rpc::GetContainerEvents;
        self.client.streaming(ApiVersion::V1, rpc, request).await
    }
}
