//! The simulated node on a unix socket, for CRI clients.
//!
//! What a PLEG asks for is answered from the world, after the call has gone through the
//! faults that are in force for it; of the rest the runtime says that it has no such
//! method, as a real one without a feature does.

use cri::ApiVersion;
use cri::v1::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use cri::v1::{self, ListContainersResponse, ListPodSandboxResponse};
use http::{Request, Uri};
use pleg::id::Id;
use pleg::runtime::{Call, CallError};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::transport::Server;
use tonic::{Response, Status, async_trait};
use tower::util::MapRequestLayer;

use crate::Sim;

mod messages;

/// Serves `sim` in CRI v1 until the task is dropped.
pub async fn serve(sim: Sim, listener: UnixListener) -> Result<(), tonic::transport::Error> {
    serve_as(sim, listener, ApiVersion::V1).await
}

/// Serves `sim` in one generation of CRI alone, as containerd before 1.6 knew only
/// v1alpha2. The messages are the same, so only the path of a call is another.
pub async fn serve_as(
    sim: Sim,
    listener: UnixListener,
    api: ApiVersion,
) -> Result<(), tonic::transport::Error> {
    let renamed = move |request: Request<Body>| in_v1(request, api);
    Server::builder()
        .layer(MapRequestLayer::new(renamed))
        .add_service(RuntimeServiceServer::new(Service { sim, api }))
        .serve_with_incoming(UnixListenerStream::new(listener))
        .await
}

/// Turns a call of the generation `api` into one of v1, which the stubs serve, and one of
/// v1 that is not served into one that nobody knows.
fn in_v1(mut request: Request<Body>, api: ApiVersion) -> Request<Body> {
    if api == ApiVersion::V1Alpha2 {
        let method = request.uri().path();
        let path = match method.strip_prefix("/runtime.v1alpha2.") {
            Some(method) => format!("/runtime.v1.{method}"),
            None => "/not.served/".to_owned(),
        };
        // A path that came in as one is one still.
        *request.uri_mut() = path.parse::<Uri>().unwrap_or_default();
    }
    request
}

struct Service {
    sim: Sim,
    api: ApiVersion,
}

type Answer<T> = Result<Response<T>, Status>;

#[async_trait]
impl RuntimeService for Service {
    async fn version(&self, _: tonic::Request<v1::VersionRequest>) -> Answer<v1::VersionResponse> {
        self.suffer(Call::Version, None).await?;
        Ok(Response::new(v1::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: "pleg-sim".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_api_version: self.api.as_str().to_owned(),
        }))
    }

    async fn status(&self, _: tonic::Request<v1::StatusRequest>) -> Answer<v1::StatusResponse> {
        Ok(Response::new(messages::ready()))
    }

    async fn list_pod_sandbox(
        &self,
        request: tonic::Request<v1::ListPodSandboxRequest>,
    ) -> Answer<ListPodSandboxResponse> {
        self.suffer(Call::ListPodSandbox, None).await?;
        let filter = request.into_inner().filter.unwrap_or_default();
        let world = self.sim.world();
        let items = world.sandboxes().map(messages::sandbox);
        let items = items.filter(|item| messages::sandbox_matches(item, &filter));
        Ok(Response::new(ListPodSandboxResponse {
            items: items.collect(),
        }))
    }

    async fn list_containers(
        &self,
        request: tonic::Request<v1::ListContainersRequest>,
    ) -> Answer<ListContainersResponse> {
        self.suffer(Call::ListContainers, None).await?;
        let filter = request.into_inner().filter.unwrap_or_default();
        let world = self.sim.world();
        let containers = world.containers().map(messages::container);
        let containers = containers.filter(|item| messages::container_matches(item, &filter));
        Ok(Response::new(ListContainersResponse {
            containers: containers.collect(),
        }))
    }

    async fn pod_sandbox_status(
        &self,
        request: tonic::Request<v1::PodSandboxStatusRequest>,
    ) -> Answer<v1::PodSandboxStatusResponse> {
        let id = Id::from(request.into_inner().pod_sandbox_id);
        self.suffer(Call::PodSandboxStatus, Some(&id)).await?;
        let world = self.sim.world();
        let found = world.sandboxes().find(|(_, sandbox)| sandbox.id == id);
        let found = found.ok_or_else(|| Status::not_found(format!("sandbox {id}")))?;
        Ok(Response::new(messages::sandbox_status(found)))
    }

    async fn container_status(
        &self,
        request: tonic::Request<v1::ContainerStatusRequest>,
    ) -> Answer<v1::ContainerStatusResponse> {
        let id = Id::from(request.into_inner().container_id);
        self.suffer(Call::ContainerStatus, Some(&id)).await?;
        let world = self.sim.world();
        let found = world.containers().find(|(_, container)| container.id == id);
        let found = found.ok_or_else(|| Status::not_found(format!("container {id}")))?;
        Ok(Response::new(messages::container_status(found)))
    }

    type GetContainerEventsStream = tokio_stream::Empty<Result<v1::ContainerEventResponse, Status>>;

    async fn get_container_events(
        &self,
        _: tonic::Request<v1::GetEventsRequest>,
    ) -> Answer<Self::GetContainerEventsStream> {
        Err(missing("GetContainerEvents"))
    }

    async fn run_pod_sandbox(
        &self,
        _: tonic::Request<v1::RunPodSandboxRequest>,
    ) -> Answer<v1::RunPodSandboxResponse> {
        Err(missing("RunPodSandbox"))
    }

    async fn stop_pod_sandbox(
        &self,
        _: tonic::Request<v1::StopPodSandboxRequest>,
    ) -> Answer<v1::StopPodSandboxResponse> {
        Err(missing("StopPodSandbox"))
    }

    async fn remove_pod_sandbox(
        &self,
        _: tonic::Request<v1::RemovePodSandboxRequest>,
    ) -> Answer<v1::RemovePodSandboxResponse> {
        Err(missing("RemovePodSandbox"))
    }

    async fn create_container(
        &self,
        _: tonic::Request<v1::CreateContainerRequest>,
    ) -> Answer<v1::CreateContainerResponse> {
        Err(missing("CreateContainer"))
    }

    async fn start_container(
        &self,
        _: tonic::Request<v1::StartContainerRequest>,
    ) -> Answer<v1::StartContainerResponse> {
        Err(missing("StartContainer"))
    }

    async fn stop_container(
        &self,
        _: tonic::Request<v1::StopContainerRequest>,
    ) -> Answer<v1::StopContainerResponse> {
        Err(missing("StopContainer"))
    }

    async fn remove_container(
        &self,
        _: tonic::Request<v1::RemoveContainerRequest>,
    ) -> Answer<v1::RemoveContainerResponse> {
        Err(missing("RemoveContainer"))
    }

    async fn update_container_resources(
        &self,
        _: tonic::Request<v1::UpdateContainerResourcesRequest>,
    ) -> Answer<v1::UpdateContainerResourcesResponse> {
        Err(missing("UpdateContainerResources"))
    }
}

impl Service {
    /// Lets a call go through what is in force for it.
    async fn suffer(&self, call: Call, id: Option<&Id>) -> Result<(), Status> {
        self.sim.call(call, id).await.map_err(status_of)
    }
}

fn missing(method: &str) -> Status {
    Status::unimplemented(format!("unknown method {method}"))
}

/// A fault as a runtime says it.
fn status_of(error: CallError) -> Status {
    match error {
        CallError::Unavailable(why) => Status::unavailable(&*why),
        CallError::NotFound(what) => Status::not_found(&*what),
        CallError::Unimplemented(what) => Status::unimplemented(&*what),
        CallError::TooLarge(figures) => Status::resource_exhausted(format!(
            "grpc: trying to send message larger than max ({figures})"
        )),
        CallError::Malformed(what) => Status::internal(format!("failed to decode: {what}")),
        CallError::Refused(why) => Status::unknown(&*why),
    }
}
