//! Statistics over CRI: running containers and sandboxes have them, and the calls can have faults
//! like all others.

use std::time::Duration;

use cri::v1;
use sim::{Fault, Rpc, SERVED, Sim};
use tonic::{Code, Status};

use crate::served::Served;

fn node() -> Sim {
    let sim = Sim::new();
    sim.run("web", &["nginx", "sidecar"]);
    sim.run("db", &["postgres"]);
    sim
}

async fn of_containers(
    served: &Served,
    filter: Option<v1::ContainerStatsFilter>,
) -> Result<Vec<String>, Status> {
    let request = v1::ListContainerStatsRequest { filter };
    let answer: v1::ListContainerStatsResponse =
        served.call(Rpc::ListContainerStats, request).await?;
    let rows = answer.stats.into_iter().filter_map(|it| it.attributes);
    let names = rows.filter_map(|it| it.metadata).map(|it| it.name);
    let mut names: Vec<_> = names.collect();
    names.sort();
    Ok(names)
}

#[tokio::test]
async fn running_objects_have_statistics_and_ended_ones_have_none() {
    let sim = node();
    let served = Served::new(&sim);
    sim.exit("web", "sidecar", 0);
    assert_eq!(
        of_containers(&served, None).await.unwrap(),
        ["nginx", "postgres"]
    );
    let ended = sim.world().container("web", "sidecar").id.to_string();
    let request = v1::ContainerStatsRequest {
        container_id: ended,
    };
    let answer = served.call::<_, v1::ContainerStatsResponse>(Rpc::ContainerStats, request);
    assert_eq!(answer.await.unwrap_err().code(), Code::NotFound);

    let sandbox = sim.world().pod("db").sandboxes[0].id.to_string();
    let of_db = v1::ContainerStatsFilter {
        pod_sandbox_id: sandbox.clone(),
        ..Default::default()
    };
    assert_eq!(
        of_containers(&served, Some(of_db)).await.unwrap(),
        ["postgres"]
    );
    let request = v1::ListPodSandboxStatsRequest::default();
    let answer: v1::ListPodSandboxStatsResponse = served
        .call(Rpc::ListPodSandboxStats, request)
        .await
        .unwrap();
    assert_eq!(answer.stats.len(), 2);
    let request = v1::ListPodSandboxMetricsRequest::default();
    let answer: v1::ListPodSandboxMetricsResponse = served
        .call(Rpc::ListPodSandboxMetrics, request)
        .await
        .unwrap();
    assert!(
        answer
            .pod_metrics
            .iter()
            .any(|it| it.pod_sandbox_id == sandbox)
    );
}

#[tokio::test]
async fn lists_of_statistics_can_hang_while_all_else_is_answered() {
    let sim = node();
    let served = Served::new(&sim);
    for rpc in SERVED.into_iter().filter(|rpc| rpc.is_statistics()) {
        sim.fault(rpc, None, Fault::Hang);
    }
    let short = Duration::from_millis(200);
    let held = tokio::time::timeout(short, of_containers(&served, None)).await;
    assert!(held.is_err());
    let id = sim.world().container("db", "postgres").id.to_string();
    let request = v1::ContainerStatsRequest {
        container_id: id.clone(),
    };
    let stats: v1::ContainerStatsResponse =
        served.call(Rpc::ContainerStats, request).await.unwrap();
    assert_eq!(stats.stats.unwrap().attributes.unwrap().id, id);
    served.container_status(&id).await.unwrap();
    sim.lift_all();
    assert_eq!(of_containers(&served, None).await.unwrap().len(), 3);
}
