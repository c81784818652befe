//! Statistics of running containers and sandboxes. They contain no figures, because there are no
//! processes.

use cri::v1;
use pleg::model::id::Id;
use tonic::Status;

use super::messages;
use crate::world::World;

/// The statistics of each running container that matches the filter.
pub(super) fn of_containers(
    world: &World,
    filter: Option<v1::ContainerStatsFilter>,
) -> Vec<v1::ContainerStats> {
    let filter = filter.unwrap_or_default();
    let filter = v1::ContainerFilter {
        id: filter.id,
        pod_sandbox_id: filter.pod_sandbox_id,
        label_selector: filter.label_selector,
        state: Some(v1::ContainerStateValue {
            state: v1::ContainerState::ContainerRunning.into(),
        }),
    };
    let running = messages::containers(world, &filter).into_iter();
    let stats = running.map(|item| v1::ContainerStats {
        attributes: Some(v1::ContainerAttributes {
            id: item.id,
            metadata: item.metadata,
            labels: item.labels,
            annotations: item.annotations,
        }),
    });
    stats.collect()
}

/// The statistics of each ready sandbox that matches the filter.
pub(super) fn of_sandboxes(
    world: &World,
    filter: Option<v1::PodSandboxStatsFilter>,
) -> Vec<v1::PodSandboxStats> {
    let filter = filter.unwrap_or_default();
    let filter = v1::PodSandboxFilter {
        id: filter.id,
        label_selector: filter.label_selector,
        state: Some(v1::PodSandboxStateValue {
            state: v1::PodSandboxState::SandboxReady.into(),
        }),
    };
    let ready = messages::sandboxes(world, &filter).into_iter();
    let stats = ready.map(|item| v1::PodSandboxStats {
        attributes: Some(v1::PodSandboxAttributes {
            id: item.id,
            metadata: item.metadata,
            labels: item.labels,
            annotations: item.annotations,
        }),
    });
    stats.collect()
}

/// The metrics of each ready sandbox.
pub(super) fn metrics(world: &World) -> Vec<v1::PodSandboxMetrics> {
    let ids = of_sandboxes(world, None).into_iter();
    let ids = ids.filter_map(|stats| stats.attributes);
    let metrics = ids.map(|it| v1::PodSandboxMetrics {
        pod_sandbox_id: it.id,
    });
    metrics.collect()
}

/// The error for an object that does not run, and so has no statistics.
pub(super) fn not_running(id: &Id) -> Status {
    Status::not_found(format!("{id} does not run"))
}
