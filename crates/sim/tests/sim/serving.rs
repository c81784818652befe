//! The simulated node on a socket, for a CRI client.

use std::collections::HashMap;
use std::time::Duration;

use cri::{ApiVersion, v1};
use pleg::runtime::{CallError, Rpc};
use sim::{Fault, Sim};
use tokio::time::timeout;
use tonic::Code;

use crate::served::Served;

fn two_pods() -> Sim {
    let sim = Sim::new();
    sim.run("db-0", &["db", "log"]);
    sim.run("web-0", &["app"]);
    sim.exit("db-0", "log", 2);
    sim
}

async fn containers(served: &Served, filter: v1::ContainerFilter) -> Vec<String> {
    let filter = Some(filter);
    let request = v1::ListContainersRequest { filter };
    let answer = served.call(Rpc::ListContainers, request).await;
    let answer: v1::ListContainersResponse = answer.unwrap();
    let mut ids: Vec<String> = answer.containers.into_iter().map(|row| row.id).collect();
    ids.sort();
    ids
}

async fn sandboxes(served: &Served, filter: v1::PodSandboxFilter) -> Vec<String> {
    let filter = Some(filter);
    let request = v1::ListPodSandboxRequest { filter };
    let answer = served.call(Rpc::ListPodSandbox, request).await;
    let answer: v1::ListPodSandboxResponse = answer.unwrap();
    let mut ids: Vec<String> = answer.items.into_iter().map(|row| row.id).collect();
    ids.sort();
    ids
}

fn pod_label(pod: &str) -> HashMap<String, String> {
    HashMap::from([("io.kubernetes.pod.name".to_owned(), pod.to_owned())])
}

#[tokio::test]
async fn lists_are_filtered() {
    let served = Served::new(&two_pods());
    let all = v1::ContainerFilter::default;
    let ids = containers(&served, all()).await;
    assert_eq!(ids, ["db-0/db.0", "db-0/log.0", "web-0/app.0"]);
    let id = "web-0/app.0".to_owned();
    assert_eq!(
        containers(&served, v1::ContainerFilter { id, ..all() })
            .await
            .len(),
        1
    );
    let state = Some(v1::ContainerStateValue {
        state: v1::ContainerState::ContainerExited.into(),
    });
    let exited = v1::ContainerFilter { state, ..all() };
    assert_eq!(containers(&served, exited).await, ["db-0/log.0"]);
    let pod_sandbox_id = "db-0.0".to_owned();
    let of_sandbox = v1::ContainerFilter {
        pod_sandbox_id,
        ..all()
    };
    assert_eq!(
        containers(&served, of_sandbox).await,
        ["db-0/db.0", "db-0/log.0"]
    );
    let label_selector = pod_label("web-0");
    let labelled = v1::ContainerFilter {
        label_selector,
        ..all()
    };
    assert_eq!(containers(&served, labelled).await, ["web-0/app.0"]);

    let all = v1::PodSandboxFilter::default;
    assert_eq!(sandboxes(&served, all()).await, ["db-0.0", "web-0.0"]);
    let label_selector = pod_label("db-0");
    let labelled = v1::PodSandboxFilter {
        label_selector,
        ..all()
    };
    assert_eq!(sandboxes(&served, labelled).await, ["db-0.0"]);
    let state = Some(v1::PodSandboxStateValue {
        state: v1::PodSandboxState::SandboxNotready.into(),
    });
    assert!(
        sandboxes(&served, v1::PodSandboxFilter { state, ..all() })
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_container_has_the_labels_that_a_kubelet_sets() {
    let served = Served::new(&two_pods());
    let status = served.container_status("db-0/log.0").await.unwrap();
    assert_eq!((status.exit_code, status.reason.as_str()), (2, "Error"));
    assert!(status.created_at > 0 && status.finished_at >= status.started_at);
    let label = |name: &str| status.labels[&format!("io.kubernetes.{name}")].as_str();
    assert_eq!(label("pod.uid"), "uid-db-0");
    assert_eq!(label("pod.namespace"), "default");
    assert_eq!(label("pod.name"), "db-0");
    assert_eq!(label("container.name"), "log");
}

#[tokio::test]
async fn only_one_version_of_cri_is_served() {
    for (served, other) in [
        (ApiVersion::V1, ApiVersion::V1Alpha2),
        (ApiVersion::V1Alpha2, ApiVersion::V1),
    ] {
        let node = Served::speaking(&two_pods(), served);
        let answer = node.version(served).await.unwrap();
        assert_eq!(answer.runtime_api_version, served.as_str());
        let refused = node.version(other).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented);
    }
}

#[tokio::test]
async fn other_methods_are_unimplemented_and_unknown_ids_are_not_found() {
    let served = Served::new(&two_pods());
    // A message without fields has the same bytes, whatever its type.
    let request = v1::VersionRequest::default();
    let refused = served
        .call::<_, v1::VersionResponse>(Rpc::Attach, request)
        .await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
    let absent = served.container_status("none").await.unwrap_err();
    assert_eq!(absent.code(), Code::NotFound);
}

#[tokio::test]
async fn a_unique_prefix_of_an_id_is_enough() {
    let served = Served::new(&two_pods());
    let status = served.container_status("web-0/a").await.unwrap();
    assert_eq!(status.id, "web-0/app.0");
    let ambiguous = served.container_status("db-0/").await.unwrap_err();
    assert_eq!(ambiguous.code(), Code::Unknown);
    assert!(ambiguous.message().contains("multiple IDs"), "{ambiguous}");
}

#[tokio::test]
async fn faults_apply_on_the_socket_too() {
    let sim = two_pods();
    let served = Served::new(&sim);
    let id = "web-0/app.0";
    let failure = CallError::Refused("no".into());
    sim.fault(Rpc::ContainerStatus, Some(id), Fault::Fail(failure));
    let refused = served.container_status(id).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unknown, "no"));
    sim.fault(Rpc::ContainerStatus, Some(id), Fault::Hang);
    let hung = served.container_status(id);
    tokio::pin!(hung);
    assert!(
        timeout(Duration::from_millis(200), &mut hung)
            .await
            .is_err()
    );
    served.container_status("db-0/db.0").await.unwrap();
    sim.lift_all();
    hung.await.unwrap();
    assert_eq!(sim.calls_made(Rpc::ContainerStatus), 3);
}
