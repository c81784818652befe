//! The processes of a static pod find what its manifest requests, on real containerd.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::VERSIONS;
use pleg::model::id::{Id, PodRef};
use pleg::model::wall_time::WallTime;
use pleg::runtime::Runtime;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use static_pods::adopted::{Adopted, merge_adopted};
use static_pods::logs::{Limits, LogFolders, Rotated, rotate};
use static_pods::runtime::{
    CgroupVersion, Cgroups, ContainerConfig, ContainerStart, ExecEnd, Host, RuntimeClient,
    SandboxConfig,
};
use static_pods::spec::{
    ContainerSecurity, ContainerSpec, EnvVar, Field, Medium, Mount, Network, PodSecurity, PodSpec,
    Probes, PullPolicy, Resources, RestartPolicy, Role, Seccomp, Value, Volume,
};
use static_pods::volumes::PodFolder;
use testbed_driver::Testbed;

const OWNER: &str = "e2e";

/// Logs a line, and runs until it receives `SIGTERM`.
const SCRIPT: &str = "echo to $(GUEST) from $NODE; trap 'exit 0' TERM; while :; do sleep 0.1; done";

fn mount(path: &str, sub_path: Option<&str>) -> Mount {
    Mount {
        volume: "data".to_owned(),
        path: path.to_owned(),
        sub_path: sub_path.map(str::to_owned),
        read_only: false,
    }
}

fn pod(name: &str) -> PodSpec {
    let variable = |name: &str, value| EnvVar {
        name: name.to_owned(),
        value,
    };
    let container = ContainerSpec {
        name: "app".to_owned(),
        role: Role::Container,
        image: "pleg.test/busybox:latest".to_owned(),
        pull_policy: PullPolicy::Never,
        command: ["/bin/sh", "-c", SCRIPT].map(str::to_owned).to_vec(),
        args: Vec::new(),
        working_dir: Some("/data".to_owned()),
        env: vec![
            variable("GUEST", Value::Literal("you".to_owned())),
            variable("NODE", Value::Field(Field::NodeName)),
        ],
        mounts: vec![mount("/data", None), mount("/part", Some("a/part"))],
        ports: Vec::new(),
        resources: Resources {
            cpu_request: Some(100),
            cpu_limit: Some(500),
            memory_request: Some(64 << 20),
            memory_limit: Some(64 << 20),
        },
        security: ContainerSecurity {
            user: Some(1000),
            group: Some(2000),
            must_not_be_root: true,
            read_only_root: true,
            no_new_privileges: true,
            dropped_capabilities: vec!["ALL".to_owned()],
            seccomp: Some(Seccomp::RuntimeDefault),
            ..Default::default()
        },
        probes: Probes::default(),
        pre_stop: Some(vec!["/bin/true".to_owned()]),
        stdin: false,
        tty: false,
    };
    let data = Volume::EmptyDir {
        medium: Medium::Memory {
            size_limit: Some(1 << 20),
        },
    };
    PodSpec {
        pod: PodRef {
            uid: format!("e2e-{name}").into(),
            namespace: "default".into(),
            name: "web".into(),
        },
        file: "web.yaml".into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        network: Network::Pod {
            hostname: "web".to_owned(),
        },
        restart_policy: RestartPolicy::Always,
        grace_period: Duration::from_secs(20),
        node_critical: false,
        dns: None,
        security: PodSecurity {
            fs_group: Some(3000),
            ..Default::default()
        },
        volumes: [("data".to_owned(), data)].into(),
        containers: vec![container],
    }
}

/// The output of a command in the container. The command must succeed.
async fn says(client: &RuntimeClient, id: &Id, command: &str) -> String {
    let words = ["/bin/sh", "-c", command].map(str::to_owned);
    let end = client.exec_sync(id, &words, Duration::from_secs(10)).await;
    match end.unwrap() {
        ExecEnd::Exited {
            code: 0, stdout, ..
        } => String::from_utf8_lossy(&stdout).trim_end().to_owned(),
        end => panic!("{command}: {end:?}"),
    }
}

#[tokio::test]
async fn a_pod_finds_what_its_manifest_requests() {
    for version in VERSIONS {
        let name = format!("e2e-static-{version}");
        run_and_end(&Testbed::up(version, &name).await.unwrap()).await;
    }
}

async fn run_and_end(testbed: &Testbed) {
    let place = tempfile::tempdir().unwrap();
    let client = RuntimeClient::new(&testbed.endpoint());
    client.version().await.unwrap();
    let mount = Path::new("/sys/fs/cgroup");
    let host = Host {
        owner: OWNER.to_owned(),
        node_name: "node-1".to_owned(),
        node_ips: || vec![[127, 0, 0, 1].into()],
        memory: Host::read_memory(Path::new("/proc")).unwrap(),
        cgroups: Cgroups {
            driver: client.cgroup_driver(false).await.unwrap(),
            version: CgroupVersion::of(mount),
        },
        log_root: place.path().join("logs"),
    };
    let folders = LogFolders {
        pods: host.log_root.clone(),
        links: place.path().join("links"),
    };
    let pod = pod(testbed.name());
    let app = &pod.containers[0];
    let folder = PodFolder::new(place.path(), &pod.pod.uid).unwrap();

    folder.set_up(&pod).unwrap();
    folders.make(&pod.pod, "app").unwrap();
    let config = SandboxConfig::new(&pod, &host, 0);
    let sandbox = client.run_sandbox(&config).await.unwrap();
    let error = client.run_sandbox(&config).await.unwrap_err();
    assert!(error.is_name_taken(), "{error}");
    let runtime = GrpcRuntime::new(&testbed.endpoint(), MAX_MESSAGE_SIZE);
    let pod_ip = runtime
        .sandbox_status(&sandbox)
        .await
        .unwrap()
        .ips
        .first()
        .copied();

    let absent = client.image_status("pleg.test/absent").await.unwrap();
    assert_eq!(absent, None);
    let error = client
        .pull_image("pleg.test/absent", &config)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("PullImage of pleg.test/absent: "),
        "{error}"
    );
    let image = client.image_status(&app.image).await.unwrap().unwrap();
    image.check_user(&app.security).unwrap();
    let hosts = Path::new("/etc/hosts");
    let mounts = folder.container_mounts(&pod, app, pod_ip, hosts).unwrap();
    let start = ContainerStart {
        pod: &pod,
        container: app,
        attempt: 0,
        image: &image,
        pod_ip,
        mounts: &mounts,
    };
    let its = ContainerConfig::new(start, &host);
    let id = client
        .create_container(&sandbox, &its, &config)
        .await
        .unwrap();
    let error = client
        .create_container(&sandbox, &its, &config)
        .await
        .unwrap_err();
    assert!(error.is_name_taken(), "{error}");
    client.start_container(&id).await.unwrap();
    folders.link(&pod.pod, "app", 0, &id).unwrap();

    assert_eq!(says(&client, &id, "id -u; id -g").await, "1000\n2000");
    assert!(says(&client, &id, "id -G").await.contains("3000"));
    assert_eq!(says(&client, &id, "pwd; hostname").await, "/data\nweb");
    assert_eq!(says(&client, &id, "echo $GUEST $NODE").await, "you node-1");
    says(&client, &id, "! touch /file 2>/dev/null").await;
    says(&client, &id, "echo here > /part/file").await;
    assert_eq!(says(&client, &id, "cat /data/a/part/file").await, "here");
    says(
        &client,
        &id,
        "! dd if=/dev/zero of=/data/big bs=1M count=2 2>/dev/null",
    )
    .await;
    let status = says(
        &client,
        &id,
        "cat /proc/1/status; cat /proc/1/oom_score_adj",
    )
    .await;
    for line in ["CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    let score: i64 = status.lines().last().unwrap().parse().unwrap();
    assert!((3..1000).contains(&score), "{score}");
    let limits = match host.cgroups.version {
        CgroupVersion::V1 => {
            "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us cpu/cpu.shares"
        }
        CgroupVersion::V2 => "cd /sys/fs/cgroup; cat memory.max; cut -d' ' -f1 cpu.max; echo 102",
    };
    assert_eq!(says(&client, &id, limits).await, "67108864\n50000\n102");
    if let Some(ip) = pod_ip {
        let found = says(&client, &id, "cat /etc/hosts").await;
        assert!(found.ends_with(&format!("\n{ip}\tweb")), "{found}");
    }
    let forever = ["sleep", "60"].map(str::to_owned);
    let end = client
        .exec_sync(&id, &forever, Duration::from_secs(1))
        .await;
    assert_eq!(end.unwrap(), ExecEnd::TimedOut);

    let log = folders.log(&pod.pod, "app", 0).unwrap();
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.ends_with(" stdout F to you from node-1\n"), "{text}");
    let handle = tokio::runtime::Handle::current();
    let (client, log, id) = tokio::task::spawn_blocking(move || {
        let mut reopen = || {
            let reopened = handle.block_on(client.reopen_log(&id));
            reopened.map_err(std::io::Error::other)
        };
        let limits = Limits { size: 1, files: 5 };
        let rotated = rotate(&log, limits, WallTime::now(), &mut reopen).unwrap();
        assert_eq!(rotated, Rotated::Yes);
        (client, log, id)
    })
    .await
    .unwrap();
    assert_eq!(
        fs::read_to_string(&log).unwrap(),
        "",
        "the runtime writes to a new file"
    );

    // A later run would find the pod like this, without its manifest.
    let pods = merge_adopted(Vec::new(), client.sandboxes(OWNER).await.unwrap());
    let found = &pods[&pod.pod.uid];
    assert_eq!(*found, Adopted::from(&pod));
    let grace = found.termination.grace_period;
    client.stop_container(&id, grace).await.unwrap();
    for _ in 0..2 {
        client.remove_container(&id).await.unwrap();
        client.stop_sandbox(&sandbox).await.unwrap();
        client.remove_sandbox(&sandbox).await.unwrap();
    }
    assert!(client.sandboxes(OWNER).await.unwrap().is_empty());
    folder.remove().unwrap();
    folders.remove_pod(&pod.pod).unwrap();
    host.cgroups.remove(mount, &pod.pod.uid).unwrap();
    assert!(!folder.path().exists() && !log.exists());
}
