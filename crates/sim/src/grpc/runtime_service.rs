//! `RuntimeService`: each call reads or changes the world.

use cri::Rpc;
use cri::v1::runtime_service_server::RuntimeService;
use cri::v1::{self, ListContainersResponse, ListPodSandboxResponse};
use futures_util::StreamExt;
use tonic::{Request, Response, async_trait};

use super::service::{Answer, Messages, Service, in_batches, on_the_wire, require_streamed_lists};
use super::{events, ids, kinds, lifecycle, messages, statistics};
use crate::Sim;

#[async_trait]
impl RuntimeService for Service {
    async fn version(&self, _: Request<v1::VersionRequest>) -> Answer<v1::VersionResponse> {
        let (name, version) = self.sim.manner().version();
        let answer = v1::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: name.to_owned(),
            runtime_version: version.to_owned(),
            runtime_api_version: self.api.as_str().to_owned(),
        };
        self.answer(Rpc::Version, None, |_| Ok(answer)).await
    }

    async fn status(&self, _: Request<v1::StatusRequest>) -> Answer<v1::StatusResponse> {
        self.answer_status(
            Rpc::Status,
            None,
            |sim, _| Ok(messages::readiness(&sim.world())),
            |answer| answer.status = None,
        )
        .await
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<v1::ListPodSandboxRequest>,
    ) -> Answer<ListPodSandboxResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        self.answer_list(Rpc::ListPodSandbox, |world| ListPodSandboxResponse {
            items: messages::sandboxes(world, &filter),
        })
        .await
    }

    async fn list_containers(
        &self,
        request: Request<v1::ListContainersRequest>,
    ) -> Answer<ListContainersResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        self.answer_list(Rpc::ListContainers, |world| ListContainersResponse {
            containers: messages::containers(world, &filter),
        })
        .await
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<v1::PodSandboxStatusRequest>,
    ) -> Answer<v1::PodSandboxStatusResponse> {
        let id = ids::sandbox(&self.sim.world(), request.into_inner().pod_sandbox_id)?;
        let answer = |sim: &Sim, of| {
            let world = sim.world();
            match world.sandbox_for(&id, of) {
                Some(found) => Ok(messages::sandbox_status(found)),
                None => kinds::as_sandbox(&world, &id, sim.manner()),
            }
        };
        let remove = |answer: &mut v1::PodSandboxStatusResponse| answer.status = None;
        self.answer_status(Rpc::PodSandboxStatus, Some(&id), answer, remove)
            .await
    }

    async fn container_status(
        &self,
        request: Request<v1::ContainerStatusRequest>,
    ) -> Answer<v1::ContainerStatusResponse> {
        let v1::ContainerStatusRequest {
            container_id,
            verbose,
        } = request.into_inner();
        let id = ids::container(&self.sim.world(), container_id)?;
        let answer = |sim: &Sim, of| {
            let world = sim.world();
            let manner = sim.manner();
            match world.container_for(&id, of) {
                Some(found) => {
                    let info = match verbose && manner.reports_sandboxes() {
                        true => messages::container_info(found.1),
                        false => Default::default(),
                    };
                    Ok(messages::container_status(found, info, sim.now()))
                }
                None => kinds::as_container(&world, &id, manner),
            }
        };
        let remove = |answer: &mut v1::ContainerStatusResponse| answer.status = None;
        self.answer_status(Rpc::ContainerStatus, Some(&id), answer, remove)
            .await
    }

    type StreamPodSandboxesStream = Messages<v1::StreamPodSandboxesResponse>;

    async fn stream_pod_sandboxes(
        &self,
        request: Request<v1::StreamPodSandboxesRequest>,
    ) -> Answer<Self::StreamPodSandboxesStream> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let streams = self.answer_list(Rpc::StreamPodSandboxes, |world| {
            in_batches(messages::sandboxes(world, &filter), |batch| {
                v1::StreamPodSandboxesResponse {
                    pod_sandboxes: batch.to_vec(),
                }
            })
        });
        let answer = streams.await?;
        require_streamed_lists(&self.sim)?;
        Ok(answer)
    }

    type StreamContainersStream = Messages<v1::StreamContainersResponse>;

    async fn stream_containers(
        &self,
        request: Request<v1::StreamContainersRequest>,
    ) -> Answer<Self::StreamContainersStream> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let streams = self.answer_list(Rpc::StreamContainers, |world| {
            in_batches(messages::containers(world, &filter), |batch| {
                v1::StreamContainersResponse {
                    containers: batch.to_vec(),
                }
            })
        });
        let answer = streams.await?;
        require_streamed_lists(&self.sim)?;
        Ok(answer)
    }

    type GetContainerEventsStream = Messages<v1::ContainerEventResponse>;

    async fn get_container_events(
        &self,
        _: Request<v1::GetEventsRequest>,
    ) -> Answer<Self::GetContainerEventsStream> {
        let events = on_the_wire(self.sim.read_stream().await).await?.stream();
        let messages = events
            .map(|event| futures_util::stream::iter(events::responses(event)))
            .flatten();
        Ok(Response::new(Box::pin(messages.map(Ok))))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<v1::RunPodSandboxRequest>,
    ) -> Answer<v1::RunPodSandboxResponse> {
        self.answer(Rpc::RunPodSandbox, None, |sim| {
            let request = request.into_inner();
            let pod_sandbox_id = lifecycle::run_sandbox(&mut sim.world(), request, sim.now())?;
            Ok(v1::RunPodSandboxResponse { pod_sandbox_id })
        })
        .await
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<v1::StopPodSandboxRequest>,
    ) -> Answer<v1::StopPodSandboxResponse> {
        let id = ids::sandbox(&self.sim.world(), request.into_inner().pod_sandbox_id)?;
        self.answer(Rpc::StopPodSandbox, Some(&id), |sim| {
            sim.world().stop_sandbox(id.as_str(), sim.now());
            Ok(v1::StopPodSandboxResponse {})
        })
        .await
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<v1::RemovePodSandboxRequest>,
    ) -> Answer<v1::RemovePodSandboxResponse> {
        let id = ids::sandbox(&self.sim.world(), request.into_inner().pod_sandbox_id)?;
        self.answer(Rpc::RemovePodSandbox, Some(&id), |sim| {
            sim.world().remove_sandbox(id.as_str());
            Ok(v1::RemovePodSandboxResponse {})
        })
        .await
    }

    async fn create_container(
        &self,
        request: Request<v1::CreateContainerRequest>,
    ) -> Answer<v1::CreateContainerResponse> {
        let mut request = request.into_inner();
        let id = ids::sandbox(&self.sim.world(), request.pod_sandbox_id)?;
        request.pod_sandbox_id = id.to_string();
        self.answer(Rpc::CreateContainer, Some(&id), |sim| {
            let container_id = lifecycle::create_container(&mut sim.world(), request, sim.now())?;
            Ok(v1::CreateContainerResponse { container_id })
        })
        .await
    }

    async fn start_container(
        &self,
        request: Request<v1::StartContainerRequest>,
    ) -> Answer<v1::StartContainerResponse> {
        let id = ids::container(&self.sim.world(), request.into_inner().container_id)?;
        self.answer(Rpc::StartContainer, Some(&id), |sim| {
            lifecycle::start_container(&mut sim.world(), &id, sim.now())?;
            Ok(v1::StartContainerResponse {})
        })
        .await
    }

    async fn stop_container(
        &self,
        request: Request<v1::StopContainerRequest>,
    ) -> Answer<v1::StopContainerResponse> {
        let id = ids::container(&self.sim.world(), request.into_inner().container_id)?;
        self.answer(Rpc::StopContainer, Some(&id), |sim| {
            lifecycle::stop_container(&mut sim.world(), &id, sim.now());
            Ok(v1::StopContainerResponse {})
        })
        .await
    }

    async fn remove_container(
        &self,
        request: Request<v1::RemoveContainerRequest>,
    ) -> Answer<v1::RemoveContainerResponse> {
        let id = ids::container(&self.sim.world(), request.into_inner().container_id)?;
        self.answer(Rpc::RemoveContainer, Some(&id), |sim| {
            sim.world().remove_container(id.as_str());
            Ok(v1::RemoveContainerResponse {})
        })
        .await
    }

    async fn reopen_container_log(
        &self,
        request: Request<v1::ReopenContainerLogRequest>,
    ) -> Answer<v1::ReopenContainerLogResponse> {
        let id = ids::container(&self.sim.world(), request.into_inner().container_id)?;
        self.answer(Rpc::ReopenContainerLog, Some(&id), |sim| {
            lifecycle::reopen_log(&mut sim.world(), &id)?;
            Ok(v1::ReopenContainerLogResponse {})
        })
        .await
    }

    async fn exec_sync(
        &self,
        request: Request<v1::ExecSyncRequest>,
    ) -> Answer<v1::ExecSyncResponse> {
        let request = request.into_inner();
        let id = ids::container(&self.sim.world(), request.container_id)?;
        self.answer(Rpc::ExecSync, Some(&id), |sim| {
            lifecycle::exec(&sim.world(), &id, request.cmd)
        })
        .await
    }

    async fn runtime_config(
        &self,
        _: Request<v1::RuntimeConfigRequest>,
    ) -> Answer<v1::RuntimeConfigResponse> {
        let cgroup_driver = v1::CgroupDriver::Cgroupfs.into();
        let linux = Some(v1::LinuxRuntimeConfiguration { cgroup_driver });
        let config = v1::RuntimeConfigResponse { linux };
        self.answer(Rpc::RuntimeConfig, None, |_| Ok(config)).await
    }

    async fn update_container_resources(
        &self,
        request: Request<v1::UpdateContainerResourcesRequest>,
    ) -> Answer<v1::UpdateContainerResourcesResponse> {
        let id = ids::container(&self.sim.world(), request.into_inner().container_id)?;
        self.answer(Rpc::UpdateContainerResources, Some(&id), |sim| {
            lifecycle::update(&sim.world(), &id)?;
            Ok(v1::UpdateContainerResourcesResponse {})
        })
        .await
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: Request<v1::UpdatePodSandboxResourcesRequest>,
    ) -> Answer<v1::UpdatePodSandboxResourcesResponse> {
        let id = ids::sandbox(&self.sim.world(), request.into_inner().pod_sandbox_id)?;
        self.answer(Rpc::UpdatePodSandboxResources, Some(&id), |_| {
            Ok(v1::UpdatePodSandboxResourcesResponse {})
        })
        .await
    }

    async fn container_stats(
        &self,
        request: Request<v1::ContainerStatsRequest>,
    ) -> Answer<v1::ContainerStatsResponse> {
        let id = ids::container(&self.sim.world(), request.into_inner().container_id)?;
        self.answer(Rpc::ContainerStats, Some(&id), |sim| {
            let filter = v1::ContainerStatsFilter {
                id: id.to_string(),
                ..Default::default()
            };
            let stats = statistics::of_containers(&sim.world(), Some(filter)).pop();
            match stats {
                Some(_) => Ok(v1::ContainerStatsResponse { stats }),
                None => Err(statistics::not_running(&id)),
            }
        })
        .await
    }

    async fn list_container_stats(
        &self,
        request: Request<v1::ListContainerStatsRequest>,
    ) -> Answer<v1::ListContainerStatsResponse> {
        let filter = request.into_inner().filter;
        self.answer(Rpc::ListContainerStats, None, |sim| {
            let stats = statistics::of_containers(&sim.world(), filter);
            Ok(v1::ListContainerStatsResponse { stats })
        })
        .await
    }

    type StreamContainerStatsStream = Messages<v1::StreamContainerStatsResponse>;

    async fn stream_container_stats(
        &self,
        request: Request<v1::StreamContainerStatsRequest>,
    ) -> Answer<Self::StreamContainerStatsStream> {
        let filter = request.into_inner().filter;
        self.answer(Rpc::StreamContainerStats, None, |sim| {
            require_streamed_lists(sim)?;
            let stats = statistics::of_containers(&sim.world(), filter);
            Ok(in_batches(stats, |batch| {
                v1::StreamContainerStatsResponse {
                    container_stats: batch.to_vec(),
                }
            }))
        })
        .await
    }

    async fn pod_sandbox_stats(
        &self,
        request: Request<v1::PodSandboxStatsRequest>,
    ) -> Answer<v1::PodSandboxStatsResponse> {
        let id = ids::sandbox(&self.sim.world(), request.into_inner().pod_sandbox_id)?;
        self.answer(Rpc::PodSandboxStats, Some(&id), |sim| {
            let filter = v1::PodSandboxStatsFilter {
                id: id.to_string(),
                ..Default::default()
            };
            let stats = statistics::of_sandboxes(&sim.world(), Some(filter)).pop();
            match stats {
                Some(_) => Ok(v1::PodSandboxStatsResponse { stats }),
                None => Err(statistics::not_running(&id)),
            }
        })
        .await
    }

    async fn list_pod_sandbox_stats(
        &self,
        request: Request<v1::ListPodSandboxStatsRequest>,
    ) -> Answer<v1::ListPodSandboxStatsResponse> {
        let filter = request.into_inner().filter;
        self.answer(Rpc::ListPodSandboxStats, None, |sim| {
            let stats = statistics::of_sandboxes(&sim.world(), filter);
            Ok(v1::ListPodSandboxStatsResponse { stats })
        })
        .await
    }

    type StreamPodSandboxStatsStream = Messages<v1::StreamPodSandboxStatsResponse>;

    async fn stream_pod_sandbox_stats(
        &self,
        request: Request<v1::StreamPodSandboxStatsRequest>,
    ) -> Answer<Self::StreamPodSandboxStatsStream> {
        let filter = request.into_inner().filter;
        self.answer(Rpc::StreamPodSandboxStats, None, |sim| {
            require_streamed_lists(sim)?;
            let stats = statistics::of_sandboxes(&sim.world(), filter);
            Ok(in_batches(stats, |batch| {
                v1::StreamPodSandboxStatsResponse {
                    pod_sandbox_stats: batch.to_vec(),
                }
            }))
        })
        .await
    }

    async fn list_pod_sandbox_metrics(
        &self,
        _: Request<v1::ListPodSandboxMetricsRequest>,
    ) -> Answer<v1::ListPodSandboxMetricsResponse> {
        self.answer(Rpc::ListPodSandboxMetrics, None, |sim| {
            let pod_metrics = statistics::metrics(&sim.world());
            Ok(v1::ListPodSandboxMetricsResponse { pod_metrics })
        })
        .await
    }

    type StreamPodSandboxMetricsStream = Messages<v1::StreamPodSandboxMetricsResponse>;

    async fn stream_pod_sandbox_metrics(
        &self,
        _: Request<v1::StreamPodSandboxMetricsRequest>,
    ) -> Answer<Self::StreamPodSandboxMetricsStream> {
        self.answer(Rpc::StreamPodSandboxMetrics, None, |sim| {
            require_streamed_lists(sim)?;
            let metrics = statistics::metrics(&sim.world());
            Ok(in_batches(metrics, |batch| {
                v1::StreamPodSandboxMetricsResponse {
                    pod_sandbox_metrics: batch.to_vec(),
                }
            }))
        })
        .await
    }
}
