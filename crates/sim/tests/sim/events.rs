//! The stream of events on a socket, as containerd serves it.

use std::time::Duration;

use cri::Rpc;
use cri::v1::{self, ContainerEventType};
use pleg::runtime::Runtime;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use sim::{Serving, Sim, StreamFault};
use tonic::Code;

use crate::served::Served;

async fn next(events: &mut tonic::Streaming<v1::ContainerEventResponse>) -> String {
    let event = tokio::time::timeout(Duration::from_secs(20), events.message());
    let event = event.await.unwrap().unwrap().unwrap();
    let kind = ContainerEventType::try_from(event.container_event_type).unwrap();
    assert!(event.created_at > 0);
    let sandbox = event.pod_sandbox_status.map(|status| status.id);
    let containers = event.containers_statuses.iter();
    let containers: Vec<_> = containers
        .map(|status| format!("{} {}", status.id, status.state().as_str_name()))
        .collect();
    format!(
        "{} {} in {sandbox:?}: {}",
        event.container_id,
        kind.as_str_name(),
        containers.join(", ")
    )
}

#[tokio::test]
async fn each_event_holds_the_statuses_of_the_whole_pod() {
    let sim = Sim::new();
    let served = Served::new(&sim);
    let mut events = served.events().await.unwrap();
    sim.run("web", &["app"]);
    sim.exit("web", "app", 3);
    sim.world().remove("web");
    let mut received = Vec::new();
    for _ in 0..8 {
        received.push(next(&mut events).await);
    }
    assert_eq!(
        received,
        [
            "web.0 CONTAINER_CREATED_EVENT in Some(\"web.0\"): web/app.0 CONTAINER_RUNNING",
            "web.0 CONTAINER_STARTED_EVENT in Some(\"web.0\"): web/app.0 CONTAINER_RUNNING",
            "web/app.0 CONTAINER_CREATED_EVENT in Some(\"web.0\"): web/app.0 CONTAINER_RUNNING",
            "web/app.0 CONTAINER_STARTED_EVENT in Some(\"web.0\"): web/app.0 CONTAINER_RUNNING",
            "web/app.0 CONTAINER_STOPPED_EVENT in Some(\"web.0\"): web/app.0 CONTAINER_EXITED",
            "web.0 CONTAINER_STOPPED_EVENT in None: ",
            "web.0 CONTAINER_DELETED_EVENT in None: ",
            "web/app.0 CONTAINER_DELETED_EVENT in None: ",
        ]
    );
}

#[tokio::test]
async fn an_event_may_lack_the_status() {
    let sim = Sim::new();
    let served = Served::new(&sim);
    let mut events = served.events().await.unwrap();
    sim.set_stream_fault(StreamFault::WithoutStatus);
    sim.run("web", &[]);
    let received = next(&mut events).await;
    assert_eq!(received, "web.0 CONTAINER_CREATED_EVENT in None: ");
}

#[tokio::test]
async fn a_stream_may_be_unimplemented_or_end_at_once() {
    let sim = Sim::new();
    let served = Served::new(&sim);
    sim.serve_stream(Serving::Unimplemented);
    let refused = served.events().await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    sim.serve_stream(Serving::EndsAtOnce);
    let mut events = served.events().await.unwrap();
    assert!(events.message().await.unwrap().is_none());
}

#[tokio::test]
async fn the_library_receives_events_from_the_socket() {
    let sim = Sim::new();
    let served = Served::new(&sim);
    let runtime = GrpcRuntime::new(&served.endpoint, MAX_MESSAGE_SIZE);
    let mut announced = runtime.announcements().await.unwrap();
    sim.run("web", &[]);
    let event = futures_util::StreamExt::next(&mut announced).await;
    let event = event.unwrap().unwrap();
    let sandbox = event.sandbox.unwrap();
    assert_eq!(sandbox.pod.name, "web".into());
    assert_eq!(event.id, sandbox.id);
}

#[tokio::test]
async fn a_reader_that_does_not_read_delays_no_call() {
    let sim = Sim::new();
    let served = Served::new(&sim);
    let _idle = served.events().await.unwrap();
    for number in 0..2000 {
        sim.run(&format!("web-{number}"), &["app"]);
    }
    let request = v1::ListContainersRequest::default();
    let answer: v1::ListContainersResponse =
        served.call(Rpc::ListContainers, request).await.unwrap();
    assert_eq!(answer.containers.len(), 2000);
}
