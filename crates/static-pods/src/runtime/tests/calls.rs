//! Every call, over a socket, against a simulated runtime.

use std::time::Duration;

use pleg::model::id::Id;
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::runtime::grpc::Endpoint;
use pleg::runtime::{CallError, Rpc};
use sim::{CommandEnd, Fault, Sim, grpc};
use tempfile::TempDir;

use crate::adopted::{Adopted, merge_adopted};
use crate::runtime::{
    CgroupDriver, ContainerConfig, ContainerStart, ExecEnd, ImageUser, RuntimeClient, SandboxConfig,
};
use crate::spec::{ContainerSpec, PodSpec, Role};
use crate::testing;

/// A simulated runtime and a client of it.
struct Node {
    sim: Sim,
    client: RuntimeClient,
    _place: TempDir,
}

impl Node {
    async fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("sim.sock");
        let sim = Sim::new();
        let listener = grpc::socket::listen(&path).await.unwrap();
        tokio::spawn(grpc::serve(sim.clone(), listener));
        Self {
            sim,
            client: RuntimeClient::new(&Endpoint::new(path)),
            _place: place,
        }
    }

    async fn run_sandbox(&self, pod: &PodSpec) -> (Id, SandboxConfig) {
        let config = SandboxConfig::new(pod, &testing::host(), 0);
        let id = self.client.run_sandbox(&config).await.unwrap();
        (id, config)
    }

    async fn create(
        &self,
        pod: &PodSpec,
        container: &ContainerSpec,
        (sandbox, config): &(Id, SandboxConfig),
    ) -> Id {
        let image = self.client.image_status(&container.image).await.unwrap();
        let image = match image {
            Some(image) => image,
            None => {
                let name = &container.image;
                self.client.pull_image(name, config).await.unwrap();
                self.client.image_status(name).await.unwrap().unwrap()
            }
        };
        let start = ContainerStart {
            pod,
            container,
            attempt: 0,
            image: &image,
            pod_ip: None,
            mounts: &[],
        };
        let container = ContainerConfig::new(start, &testing::host());
        self.client
            .create_container(sandbox, &container, config)
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn a_pod_is_started_listed_and_ended() {
    let node = Node::new().await;
    let client = &node.client;
    assert_eq!(&*client.version().await.unwrap().name, "pleg-sim");
    let conditions = client.conditions().await.unwrap().conditions;
    assert!(conditions.iter().all(|it| it.met) && conditions.len() == 2);
    assert_eq!(
        client.cgroup_driver(true).await.unwrap(),
        CgroupDriver::Cgroupfs
    );

    let pod = testing::pod();
    let sandbox = node.run_sandbox(&pod).await;
    let id = node.create(&pod, &pod.containers[0], &sandbox).await;
    client.start_container(&id).await.unwrap();
    client.reopen_log(&id).await.unwrap();
    {
        let world = node.sim.world();
        assert_eq!(world.reopened_logs, std::slice::from_ref(&id));
        let (_, container) = world.container_by_id(id.as_str()).unwrap();
        assert_eq!(container.state, ContainerState::Running);
        let given = container.given.as_ref().unwrap().container_config.as_ref();
        assert_eq!(given.unwrap().log_path, "app/0.log");
    }

    let listed = client.containers("run").await.unwrap();
    assert_eq!(listed[0].id, id);
    assert_eq!(listed[0].pod, pod.pod);

    client
        .stop_container(&id, Duration::from_millis(1500))
        .await
        .unwrap();
    client.remove_container(&id).await.unwrap();
    assert_eq!(client.containers("run").await.unwrap(), []);
    client.stop_sandbox(&sandbox.0).await.unwrap();
    let state = node.sim.world().pod("web").sandboxes[0].state;
    assert_eq!(state, SandboxState::NotReady);
    client.remove_sandbox(&sandbox.0).await.unwrap();
    assert_eq!(client.sandboxes("run").await.unwrap(), []);
    // Repeat the calls, as after this process was killed during them.
    client.stop_container(&id, Duration::ZERO).await.unwrap();
    client.remove_container(&id).await.unwrap();
    client.stop_sandbox(&sandbox.0).await.unwrap();
    client.remove_sandbox(&sandbox.0).await.unwrap();
}

#[tokio::test]
async fn the_exit_code_and_the_output_of_a_command_are_returned() {
    let node = Node::new().await;
    let pod = testing::pod();
    let sandbox = node.run_sandbox(&pod).await;
    let id = node.create(&pod, &pod.containers[0], &sandbox).await;
    node.client.start_container(&id).await.unwrap();
    let command = ["/check".to_owned()];
    let end = CommandEnd {
        exit_code: 7,
        stdout: "out".to_owned(),
        stderr: "err".to_owned(),
    };
    let key = ("app".to_owned(), command.to_vec());
    node.sim.world().commands.insert(key, end);
    let second = Duration::from_secs(1);
    let end = node.client.exec_sync(&id, &command, second).await.unwrap();
    let expected = ExecEnd::Exited {
        code: 7,
        stdout: b"out".to_vec(),
        stderr: b"err".to_vec(),
    };
    assert_eq!(end, expected);

    let unknown = Id::from("unknown");
    let error = node.client.exec_sync(&unknown, &command, second).await;
    let error = error.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.call, Rpc::ExecSync);
    assert_eq!(
        error.to_string(),
        "ExecSync of unknown: not found: container unknown"
    );
}

#[tokio::test]
async fn an_image_is_absent_until_it_is_pulled_and_a_pull_can_fail() {
    let node = Node::new().await;
    let client = &node.client;
    let config = SandboxConfig::new(&testing::pod(), &testing::host(), 0);
    assert_eq!(client.image_status("registry/new").await.unwrap(), None);
    let refused = CallError::Refused("manifest unknown".into());
    node.sim.fault(Rpc::PullImage, None, Fault::Fail(refused));
    let error = client
        .pull_image("registry/new", &config)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "PullImage of registry/new: the runtime answered Unknown: manifest unknown"
    );
    node.sim.lift(Rpc::PullImage, None);
    client.pull_image("registry/new", &config).await.unwrap();
    let image = client.image_status("registry/new").await.unwrap().unwrap();
    assert_eq!(image.reference, "registry/new:latest");
    assert_eq!(image.user, ImageUser::Id(0));
}

#[tokio::test]
async fn a_sandbox_whose_name_is_in_use_is_refused() {
    let node = Node::new().await;
    let (_, config) = node.run_sandbox(&testing::pod()).await;
    let error = node.client.run_sandbox(&config).await.unwrap_err();
    assert!(error.is_name_taken(), "{error}");
    assert!(!error.is_not_found() && !error.is_deadline());
}

#[tokio::test]
async fn pods_of_other_owners_are_not_listed() {
    let node = Node::new().await;
    node.sim.run("theirs", &["app"]);
    node.run_sandbox(&testing::pod()).await;
    assert_eq!(node.client.sandboxes("run").await.unwrap().len(), 1);
    assert_eq!(node.client.containers("run").await.unwrap(), []);
    assert_eq!(node.client.sandboxes("other").await.unwrap(), []);
}

#[tokio::test]
async fn the_runtime_has_what_is_needed_to_end_a_pod_without_its_manifest() {
    let node = Node::new().await;
    let of = |name: &str, role| ContainerSpec {
        role,
        ..testing::container(name)
    };
    let command = vec![
        "/bin/sh".to_owned(),
        "-c".to_owned(),
        "drain \"all\"".to_owned(),
    ];
    let app = ContainerSpec {
        pre_stop: Some(command.clone()),
        ..testing::container("app")
    };
    let pod = PodSpec {
        grace_period: Duration::from_secs(45),
        containers: vec![
            of("init", Role::Init),
            of("first", Role::Sidecar),
            of("second", Role::Sidecar),
            app,
            testing::container("other"),
        ],
        ..testing::pod()
    };
    let sandbox = node.run_sandbox(&pod).await;
    for container in &pod.containers {
        let id = node.create(&pod, container, &sandbox).await;
        if container.role != Role::Init {
            node.client.start_container(&id).await.unwrap();
        }
    }

    let containers = node.client.containers("run").await.unwrap();
    assert!(containers.iter().all(|it| it.sandbox_id == sandbox.0));
    assert_eq!(containers.len(), 5);
    let pods = merge_adopted(Vec::new(), node.client.sandboxes("run").await.unwrap());
    assert_eq!(pods[&pod.pod.uid], Adopted::from(&pod));
}

#[tokio::test]
async fn the_calls_to_a_missing_runtime_fail_as_unavailable() {
    let place = tempfile::tempdir().unwrap();
    let client = RuntimeClient::new(&Endpoint::new(place.path().join("none.sock")));
    let error = client.version().await.unwrap_err();
    assert!(matches!(error.why, CallError::Unavailable(_)), "{error}");
}
