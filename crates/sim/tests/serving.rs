//! The simulated node as a CRI client meets it.

use std::collections::HashMap;
use std::time::Duration;

use cri::{ApiVersion, Client, Endpoint, v1};
use pleg::runtime::{Call, CallError};
use sim::{Fault, Sim, grpc};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::time::timeout;
use tonic::{Code, Status};

/// A served node and a client of it.
fn serve(sim: &Sim, api: ApiVersion) -> (Client, TempDir) {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("sim.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(grpc::serve_as(sim.clone(), listener, api));
    (Client::new(&Endpoint::new(socket), 1 << 20), place)
}

fn two_pods() -> Sim {
    let sim = Sim::new();
    sim.run("db-0", &["db", "log"]);
    sim.run("web-0", &["app"]);
    sim.exit("db-0", "log", 2);
    sim
}

async fn containers(client: &Client, filter: v1::ContainerFilter) -> Vec<String> {
    let filter = Some(filter);
    let request = v1::ListContainersRequest { filter };
    let answer = client.unary(ApiVersion::V1, "ListContainers", request);
    let answer: v1::ListContainersResponse = answer.await.unwrap();
    let mut ids: Vec<String> = answer.containers.into_iter().map(|row| row.id).collect();
    ids.sort();
    ids
}

async fn sandboxes(client: &Client, filter: v1::PodSandboxFilter) -> Vec<String> {
    let filter = Some(filter);
    let request = v1::ListPodSandboxRequest { filter };
    let answer = client.unary(ApiVersion::V1, "ListPodSandbox", request);
    let answer: v1::ListPodSandboxResponse = answer.await.unwrap();
    let mut ids: Vec<String> = answer.items.into_iter().map(|row| row.id).collect();
    ids.sort();
    ids
}

async fn version(client: &Client, api: ApiVersion) -> Result<v1::VersionResponse, Status> {
    let request = v1::VersionRequest::default();
    client.unary(api, "Version", request).await
}

async fn container_status(client: &Client, id: &str) -> Result<v1::ContainerStatus, Status> {
    let request = v1::ContainerStatusRequest {
        container_id: id.to_owned(),
        verbose: false,
    };
    let answer = client.unary(ApiVersion::V1, "ContainerStatus", request);
    let answer: v1::ContainerStatusResponse = answer.await?;
    Ok(answer.status.unwrap())
}

fn pod_label(pod: &str) -> HashMap<String, String> {
    HashMap::from([("io.kubernetes.pod.name".to_owned(), pod.to_owned())])
}

#[tokio::test]
async fn filters_let_through_what_they_say() {
    let (client, _place) = serve(&two_pods(), ApiVersion::V1);
    let all = v1::ContainerFilter::default;
    let ids = containers(&client, all()).await;
    assert_eq!(ids, ["db-0/db.0", "db-0/log.0", "web-0/app.0"]);
    let id = "web-0/app.0".to_owned();
    assert_eq!(
        containers(&client, v1::ContainerFilter { id, ..all() })
            .await
            .len(),
        1
    );
    let state = Some(v1::ContainerStateValue {
        state: v1::ContainerState::ContainerExited.into(),
    });
    let exited = v1::ContainerFilter { state, ..all() };
    assert_eq!(containers(&client, exited).await, ["db-0/log.0"]);
    let pod_sandbox_id = "db-0.0".to_owned();
    let of_sandbox = v1::ContainerFilter {
        pod_sandbox_id,
        ..all()
    };
    assert_eq!(
        containers(&client, of_sandbox).await,
        ["db-0/db.0", "db-0/log.0"]
    );
    let label_selector = pod_label("web-0");
    let labelled = v1::ContainerFilter {
        label_selector,
        ..all()
    };
    assert_eq!(containers(&client, labelled).await, ["web-0/app.0"]);

    let all = v1::PodSandboxFilter::default;
    assert_eq!(sandboxes(&client, all()).await, ["db-0.0", "web-0.0"]);
    let label_selector = pod_label("db-0");
    let labelled = v1::PodSandboxFilter {
        label_selector,
        ..all()
    };
    assert_eq!(sandboxes(&client, labelled).await, ["db-0.0"]);
    let state = Some(v1::PodSandboxStateValue {
        state: v1::PodSandboxState::SandboxNotready.into(),
    });
    assert!(
        sandboxes(&client, v1::PodSandboxFilter { state, ..all() })
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_container_bears_what_a_kubelet_sets() {
    let (client, _place) = serve(&two_pods(), ApiVersion::V1);
    let status = container_status(&client, "db-0/log.0").await.unwrap();
    assert_eq!((status.exit_code, status.reason.as_str()), (2, "Error"));
    assert!(status.created_at > 0 && status.finished_at >= status.started_at);
    let label = |name: &str| status.labels[&format!("io.kubernetes.{name}")].as_str();
    assert_eq!(label("pod.uid"), "uid-db-0");
    assert_eq!(label("pod.namespace"), "default");
    assert_eq!(label("pod.name"), "db-0");
    assert_eq!(label("container.name"), "log");
}

#[tokio::test]
async fn one_generation_of_cri_is_served_and_the_other_unknown() {
    for (served, other) in [
        (ApiVersion::V1, ApiVersion::V1Alpha2),
        (ApiVersion::V1Alpha2, ApiVersion::V1),
    ] {
        let (client, _place) = serve(&two_pods(), served);
        let answer = version(&client, served).await.unwrap();
        assert_eq!(answer.runtime_api_version, served.as_str());
        let refused = version(&client, other).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented);
    }
}

#[tokio::test]
async fn what_is_not_simulated_is_unimplemented_and_what_is_not_there_not_found() {
    let (client, _place) = serve(&two_pods(), ApiVersion::V1);
    let request = v1::StopContainerRequest::default();
    let answer = client.unary(ApiVersion::V1, "StopContainer", request);
    let refused: Result<v1::StopContainerResponse, Status> = answer.await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
    let events = client.streaming(
        ApiVersion::V1,
        "GetContainerEvents",
        v1::GetEventsRequest {},
    );
    let refused: Result<tonic::Streaming<v1::ContainerEventResponse>, Status> = events.await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
    let absent = container_status(&client, "none").await.unwrap_err();
    assert_eq!(absent.code(), Code::NotFound);
}

#[tokio::test]
async fn faults_are_suffered_as_in_the_simulation() {
    let sim = two_pods();
    let (client, _place) = serve(&sim, ApiVersion::V1);
    let id = "web-0/app.0";
    let failure = CallError::Refused("no".into());
    sim.fault(Call::ContainerStatus, Some(id), Fault::Fail(failure));
    let refused = container_status(&client, id).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unknown, "no"));
    sim.fault(Call::ContainerStatus, Some(id), Fault::Hang);
    let hung = container_status(&client, id);
    tokio::pin!(hung);
    assert!(
        timeout(Duration::from_millis(200), &mut hung)
            .await
            .is_err()
    );
    container_status(&client, "db-0/db.0").await.unwrap();
    sim.lift_all();
    hung.await.unwrap();
    assert_eq!(sim.calls_made(Call::ContainerStatus), 3);
}
