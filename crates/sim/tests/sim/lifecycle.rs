//! Pods that a client creates and ends over CRI.

use std::collections::HashMap;

use cri::v1;
use sim::{Fault, Rpc, Sim};
use tonic::{Code, Status};

use crate::served::Served;

fn metadata(namespace: &str, uid: &str) -> Option<v1::PodSandboxMetadata> {
    Some(v1::PodSandboxMetadata {
        name: "web".to_owned(),
        uid: uid.to_owned(),
        namespace: namespace.to_owned(),
        attempt: 0,
    })
}

async fn run_sandbox(served: &Served, namespace: &str, uid: &str) -> Result<String, Status> {
    let config = v1::PodSandboxConfig {
        metadata: metadata(namespace, uid),
        labels: HashMap::from([("pleg.dev/owner".to_owned(), "me".to_owned())]),
        ..Default::default()
    };
    let request = v1::RunPodSandboxRequest {
        config: Some(config),
        runtime_handler: "runc".to_owned(),
    };
    let answer: v1::RunPodSandboxResponse = served.call(Rpc::RunPodSandbox, request).await?;
    Ok(answer.pod_sandbox_id)
}

async fn create(served: &Served, sandbox: &str) -> Result<String, Status> {
    let config = v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata {
            name: "app".to_owned(),
            attempt: 0,
        }),
        image: Some(v1::ImageSpec {
            image: "registry/app:1".to_owned(),
            ..Default::default()
        }),
        annotations: HashMap::from([("hash".to_owned(), "1".to_owned())]),
        log_path: "app/0.log".to_owned(),
        ..Default::default()
    };
    let request = v1::CreateContainerRequest {
        pod_sandbox_id: sandbox.to_owned(),
        config: Some(config),
        sandbox_config: None,
    };
    let answer: v1::CreateContainerResponse = served.call(Rpc::CreateContainer, request).await?;
    Ok(answer.container_id)
}

async fn start(served: &Served, id: &str) -> Result<v1::StartContainerResponse, Status> {
    let container_id = id.to_owned();
    let request = v1::StartContainerRequest { container_id };
    served.call(Rpc::StartContainer, request).await
}

async fn stop(served: &Served, id: &str) -> Result<v1::StopContainerResponse, Status> {
    let container_id = id.to_owned();
    let request = v1::StopContainerRequest {
        container_id,
        timeout: 1,
    };
    served.call(Rpc::StopContainer, request).await
}

async fn remove(served: &Served, id: &str) -> Result<v1::RemoveContainerResponse, Status> {
    let container_id = id.to_owned();
    let request = v1::RemoveContainerRequest { container_id };
    served.call(Rpc::RemoveContainer, request).await
}

async fn stop_sandbox(served: &Served, id: &str) -> Result<v1::StopPodSandboxResponse, Status> {
    let pod_sandbox_id = id.to_owned();
    let request = v1::StopPodSandboxRequest { pod_sandbox_id };
    served.call(Rpc::StopPodSandbox, request).await
}

async fn remove_sandbox(served: &Served, id: &str) -> Result<v1::RemovePodSandboxResponse, Status> {
    let pod_sandbox_id = id.to_owned();
    let request = v1::RemovePodSandboxRequest { pod_sandbox_id };
    served.call(Rpc::RemovePodSandbox, request).await
}

#[tokio::test]
async fn a_created_pod_has_what_its_client_specified_until_it_is_removed() {
    let sim = Sim::new();
    let served = Served::new(&sim);
    let sandbox = run_sandbox(&served, "shop", "uid-1").await.unwrap();
    let id = create(&served, &sandbox).await.unwrap();
    let state = async || served.container_status(&id).await.unwrap();
    assert_eq!(state().await.state(), v1::ContainerState::ContainerCreated);
    start(&served, &id).await.unwrap();
    let status = state().await;
    assert_eq!(status.state(), v1::ContainerState::ContainerRunning);
    assert_eq!(status.image_ref, "registry/app:1");
    assert_eq!(status.log_path, "app/0.log");
    assert!(status.labels.is_empty());
    assert_eq!(status.annotations["hash"], "1");

    let request = v1::ListPodSandboxRequest::default();
    let listed: v1::ListPodSandboxResponse =
        served.call(Rpc::ListPodSandbox, request).await.unwrap();
    assert_eq!(listed.items[0].labels["pleg.dev/owner"], "me");
    assert_eq!(listed.items[0].runtime_handler, "runc");
    assert_eq!(listed.items[0].metadata, metadata("shop", "uid-1"));

    stop(&served, &id).await.unwrap();
    let status = state().await;
    assert_eq!(status.state(), v1::ContainerState::ContainerExited);
    assert_eq!(status.exit_code, 143);
    stop_sandbox(&served, &sandbox).await.unwrap();
    remove(&served, &id).await.unwrap();
    remove_sandbox(&served, &sandbox).await.unwrap();
    assert!(sim.world().pods.is_empty());
}

#[tokio::test]
async fn an_unknown_id_can_be_ended_but_not_started() {
    let served = Served::new(&Sim::new());
    stop(&served, "none").await.unwrap();
    remove(&served, "none").await.unwrap();
    stop_sandbox(&served, "none").await.unwrap();
    remove_sandbox(&served, "none").await.unwrap();
    let refused = start(&served, "none").await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let refused = create(&served, "none").await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}

#[tokio::test]
async fn a_name_is_used_once_at_a_time_and_an_id_only_once() {
    let served = Served::new(&Sim::new());
    let sandbox = run_sandbox(&served, "shop", "uid-1").await.unwrap();
    let refused = run_sandbox(&served, "shop", "uid-1").await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);
    let elsewhere = run_sandbox(&served, "other", "uid-2").await.unwrap();
    assert_ne!(sandbox, elsewhere, "the same name in another namespace");

    let first = create(&served, &sandbox).await.unwrap();
    let refused = create(&served, &sandbox).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);
    start(&served, &first).await.unwrap();
    let refused = start(&served, &first).await.unwrap_err();
    assert_eq!(refused.message(), "container is running");
    remove(&served, &first).await.unwrap();
    assert_ne!(create(&served, &sandbox).await.unwrap(), first);
}

#[tokio::test]
async fn stopping_a_sandbox_kills_its_containers() {
    let sim = Sim::new();
    sim.run("web", &["app", "log"]);
    let served = Served::new(&sim);
    stop_sandbox(&served, "web.0").await.unwrap();
    let status = served.container_status("web/app.0").await.unwrap();
    assert_eq!(status.exit_code, 137);
    remove_sandbox(&served, "web.0").await.unwrap();
    assert!(sim.world().pods.is_empty());
}

#[tokio::test]
async fn creating_a_pod_can_fail() {
    let sim = Sim::new();
    let served = Served::new(&sim);
    let no_network = pleg::runtime::CallError::Refused("failed to setup network".into());
    sim.fault(Rpc::RunPodSandbox, None, Fault::Fail(no_network));
    let refused = run_sandbox(&served, "shop", "uid-1").await.unwrap_err();
    assert_eq!(refused.message(), "failed to setup network");
    assert!(sim.world().pods.is_empty(), "no pod was created");
}

#[tokio::test]
async fn a_command_ends_as_specified_and_needs_a_running_container() {
    let sim = Sim::new();
    let served = Served::new(&sim);
    let sandbox = run_sandbox(&served, "default", "1").await.unwrap();
    let id = create(&served, &sandbox).await.unwrap();
    let command = vec!["cat".to_owned(), "/ready".to_owned()];
    let exec = async || {
        let request = v1::ExecSyncRequest {
            container_id: id.clone(),
            cmd: command.clone(),
            timeout: 1,
        };
        let answer: Result<v1::ExecSyncResponse, _> = served.call(Rpc::ExecSync, request).await;
        answer
    };
    assert_eq!(
        exec().await.unwrap_err().message(),
        "container is in CONTAINER_CREATED state"
    );
    start(&served, &id).await.unwrap();
    assert_eq!(exec().await.unwrap().exit_code, 0);
    let end = sim::CommandEnd {
        exit_code: 1,
        stderr: "no such file".to_owned(),
        ..Default::default()
    };
    let key = ("app".to_owned(), command.clone());
    sim.world().commands.insert(key, end);
    let answer = exec().await.unwrap();
    assert_eq!(
        (answer.exit_code, &answer.stderr[..]),
        (1, &b"no such file"[..])
    );
}

#[tokio::test]
async fn a_reopened_log_is_recorded_and_the_configuration_of_a_container_is_kept() {
    let sim = Sim::new();
    let served = Served::new(&sim);
    let sandbox = run_sandbox(&served, "default", "1").await.unwrap();
    let id = create(&served, &sandbox).await.unwrap();
    let request = v1::ReopenContainerLogRequest {
        container_id: id.clone(),
    };
    let refused: Result<v1::ReopenContainerLogResponse, _> =
        served.call(Rpc::ReopenContainerLog, request.clone()).await;
    assert_eq!(refused.unwrap_err().message(), "container is not running");
    start(&served, &id).await.unwrap();
    let _: v1::ReopenContainerLogResponse =
        served.call(Rpc::ReopenContainerLog, request).await.unwrap();
    let world = sim.world();
    assert_eq!(world.reopened_logs, [id.as_str().into()]);
    let (_, container) = world.container_by_id(&id).unwrap();
    let given = container.given.as_ref().unwrap();
    let config = given.container_config.as_ref().unwrap();
    assert_eq!(config.log_path, "app/0.log");
}
