//! Oversize and malformed answers.

use cri::{ApiVersion, Client, v1};
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::runtime::{CallError, Rpc, Runtime};
use sim::{Fault, Malformation, Sim};
use tonic::Code;

use crate::served::Served;

const ID: &str = "web/app.0";

fn node() -> Sim {
    let sim = Sim::new();
    sim.run("web", &["app"]);
    sim
}

#[tokio::test]
async fn an_oversize_answer_is_correct_but_larger_than_a_kubelet_receives() {
    let sim = node();
    let served = Served::new(&sim);
    sim.fault(Rpc::ListContainers, None, Fault::Oversize);
    let all = v1::ListContainersRequest::default;
    let answer: v1::ListContainersResponse = served.call(Rpc::ListContainers, all()).await.unwrap();
    assert_eq!(answer.containers.len(), 1, "a client with a larger limit");

    let kubelet = Client::new(&served.endpoint, MAX_MESSAGE_SIZE);
    let refused = kubelet
        .unary(ApiVersion::V1, Rpc::ListContainers, all())
        .await;
    let refused: Result<v1::ListContainersResponse, _> = refused;
    assert_eq!(refused.unwrap_err().code(), Code::OutOfRange);

    let runtime = GrpcRuntime::new(&served.endpoint, MAX_MESSAGE_SIZE);
    for too_large in [runtime.list_containers().await, sim.list_containers().await] {
        let error = too_large.unwrap_err();
        assert!(matches!(error, CallError::TooLarge(_)), "{error}");
    }
}

#[tokio::test]
async fn a_runtime_may_refuse_to_send_an_oversize_answer() {
    let sim = node();
    let served = Served::new(&sim);
    let figures = CallError::TooLarge("17302190 vs. 16777216".into());
    sim.fault(Rpc::ListContainers, None, Fault::Fail(figures));
    let request = v1::ListContainersRequest::default();
    let refused = served.call::<_, v1::ListContainersResponse>(Rpc::ListContainers, request);
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(
        refused.message(),
        "grpc: trying to send message larger than max (17302190 vs. 16777216)"
    );
}

#[tokio::test]
async fn an_answer_is_malformed_on_the_socket_and_behind_the_trait() {
    for how in [Malformation::Garbage, Malformation::WithoutStatus] {
        let sim = node();
        let served = Served::new(&sim);
        let runtime = GrpcRuntime::new(&served.endpoint, MAX_MESSAGE_SIZE);
        sim.fault(Rpc::ContainerStatus, Some(ID), Fault::Malformed(how));
        sim.fault(Rpc::PodSandboxStatus, None, Fault::Malformed(how));
        let sandbox = "web.0".into();
        for (wire, behind) in [
            (
                runtime.container_status(&ID.into()).await.err(),
                sim.container_status(&ID.into()).await.err(),
            ),
            (
                runtime.sandbox_status(&sandbox).await.err(),
                sim.sandbox_status(&sandbox).await.err(),
            ),
        ] {
            for error in [wire, behind] {
                assert!(matches!(error, Some(CallError::Malformed(_))), "{error:?}");
            }
        }
        runtime.version().await.unwrap();
    }
}

#[tokio::test]
async fn the_status_of_another_object_is_complete_with_its_id() {
    let sim = node();
    sim.run("db", &["main"]);
    let served = Served::new(&sim);
    let runtime = GrpcRuntime::new(&served.endpoint, MAX_MESSAGE_SIZE);
    let another = Fault::Malformed(Malformation::OfAnother);
    sim.fault(Rpc::ContainerStatus, Some(ID), another.clone());
    sim.fault(Rpc::PodSandboxStatus, None, another);
    let answer = served.container_status(ID).await.unwrap();
    assert_eq!(answer.id, "db/main.0");
    let status = sim.container_status(&ID.into()).await.unwrap();
    assert_eq!((status.id.as_str(), &*status.name), ("db/main.0", "main"));
    let status = sim.sandbox_status(&"web.0".into()).await.unwrap();
    assert_eq!(status.id.as_str(), "db.0");
    // The library does not panic on it.
    let _ = runtime.sandbox_status(&"web.0".into()).await;
}
