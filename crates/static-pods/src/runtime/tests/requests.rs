//! The requests for a few pods.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use cri::v1;
use snapbox::{assert_data_eq, str};

use crate::runtime::{
    CgroupDriver, CgroupVersion, Cgroups, ContainerConfig, ContainerStart, Host, Image, ImageUser,
    SandboxConfig, environment,
};
use crate::spec::{
    ContainerSecurity, ContainerSpec, Dns, EnvVar, Field, Network, PodSecurity, PodSpec, Port,
    Protocol, Resources, Role, Seccomp, Value,
};
use crate::testing;
use crate::volumes::BindMount;

/// A message as text, with sorted maps and without default values.
fn text_of(message: &impl std::fmt::Debug, maps: &[(&str, &HashMap<String, String>)]) -> String {
    let mut text = String::new();
    for (name, map) in maps {
        let sorted: BTreeMap<_, _> = map.iter().collect();
        for (key, value) in sorted {
            text += &format!("{name} {key} = {value}\n");
        }
    }
    let nothing = [": None,", ": 0,", ": \"\",", ": [],", ": {},", ": false,"];
    for line in format!("{message:#?}\n").lines() {
        if !nothing.iter().any(|end| line.ends_with(end)) {
            text += line;
            text.push('\n');
        }
    }
    text
}

fn sandbox_text(pod: &PodSpec, host: &Host) -> String {
    let mut config = SandboxConfig::new(pod, host, 2).0;
    let labels = std::mem::take(&mut config.labels);
    let annotations = std::mem::take(&mut config.annotations);
    text_of(&config, &[("label", &labels), ("annotation", &annotations)])
}

fn container_text(start: ContainerStart<'_>, host: &Host) -> String {
    let mut config = ContainerConfig::new(start, host).0;
    let labels = std::mem::take(&mut config.labels);
    let mut annotations = std::mem::take(&mut config.annotations);
    // The hash covers all fields, so it changes with each new field.
    let hash = annotations.remove("io.kubernetes.container.hash").unwrap();
    assert!(u32::from_str_radix(&hash, 16).is_ok(), "{hash}");
    let variables = std::mem::take(&mut config.envs);
    let text =
        |it: &v1::KeyValue| format!("env {}={}\n", it.key, String::from_utf8_lossy(&it.value));
    let environment: String = variables.iter().map(text).collect();
    environment + &text_of(&config, &[("label", &labels), ("annotation", &annotations)])
}

fn image(user: ImageUser) -> Image {
    Image {
        reference: "sha256:1111".to_owned(),
        user,
    }
}

fn start<'a>(pod: &'a PodSpec, image: &'a Image, mounts: &'a [BindMount]) -> ContainerStart<'a> {
    ContainerStart {
        pod,
        container: &pod.containers[0],
        attempt: 3,
        image,
        pod_ip: Some(IpAddr::from([10, 1, 2, 3])),
        mounts,
    }
}

fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Value::Literal(value.to_owned()),
    }
}

fn field(name: &str, field: Field) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Value::Field(field),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A pod that sets nearly all fields.
fn rich_pod() -> PodSpec {
    let app = ContainerSpec {
        command: words(&["/app", "--port=$(PORT)", "$$(PORT)"]),
        args: words(&["--name=$(NAME)", "$(UNKNOWN)"]),
        working_dir: Some("/srv".to_owned()),
        env: vec![
            literal("PORT", "80"),
            field("NAME", Field::Name),
            field("IP", Field::PodIp),
            field("NODE", Field::NodeName),
            field("NODE_IP", Field::HostIp),
            field("NODE_IPS", Field::HostIps),
            literal("URL", "http://$(IP):$(PORT)/$(LATER)"),
            literal("LATER", "x"),
        ],
        ports: vec![Port {
            name: None,
            container_port: 80,
            host_port: Some(8080),
            host_ip: Some("127.0.0.1".to_owned()),
            protocol: Protocol::Tcp,
        }],
        resources: Resources {
            cpu_request: Some(250),
            cpu_limit: Some(500),
            memory_request: Some(1 << 30),
            memory_limit: Some(2 << 30),
        },
        security: ContainerSecurity {
            user: Some(1000),
            group: Some(2000),
            must_not_be_root: true,
            read_only_root: true,
            no_new_privileges: true,
            added_capabilities: words(&["NET_BIND_SERVICE"]),
            dropped_capabilities: words(&["ALL"]),
            seccomp: Some(Seccomp::RuntimeDefault),
            ..Default::default()
        },
        pre_stop: Some(words(&["/bin/sh", "-c", "sleep 1"])),
        ..testing::container("app")
    };
    let sidecar = ContainerSpec {
        role: Role::Sidecar,
        ports: vec![Port {
            name: Some("dns".to_owned()),
            container_port: 53,
            host_port: Some(53),
            host_ip: None,
            protocol: Protocol::Udp,
        }],
        ..testing::container("sidecar")
    };
    let init = ContainerSpec {
        role: Role::Init,
        ports: sidecar.ports.clone(),
        ..testing::container("init")
    };
    PodSpec {
        labels: [("app".to_owned(), "web".to_owned())].into(),
        annotations: [("note".to_owned(), "kept".to_owned())].into(),
        dns: Some(Dns {
            servers: words(&["10.0.0.10"]),
            searches: words(&["example.org"]),
            options: words(&["ndots:5"]),
        }),
        security: PodSecurity {
            user: Some(1000),
            group: Some(3000),
            must_not_be_root: false,
            supplemental_groups: vec![5000],
            fs_group: Some(4000),
            seccomp: Some(Seccomp::RuntimeDefault),
        },
        containers: vec![app, init, sidecar],
        ..testing::pod()
    }
}

#[test]
fn the_sandbox_of_a_plain_pod() {
    assert_data_eq!(
        sandbox_text(&testing::pod(), &testing::host()),
        str![[r#"
label io.kubernetes.pod.name = web
label io.kubernetes.pod.namespace = default
label io.kubernetes.pod.uid = 0b2c
label pleg.dev/owner = run
annotation io.kubernetes.pod.terminationGracePeriod = 30
annotation kubernetes.io/config.hash = 0b2c
annotation kubernetes.io/config.source = file
annotation pleg.dev/file = web.yaml
annotation pleg.dev/termination = {"gracePeriod":{"secs":30,"nanos":0},"containers":[]}
PodSandboxConfig {
    metadata: Some(
        PodSandboxMetadata {
            name: "web",
            uid: "0b2c",
            namespace: "default",
            attempt: 2,
        },
    ),
    hostname: "web",
    log_directory: "/var/log/pods/default_web_0b2c",
    linux: Some(
        LinuxPodSandboxConfig {
            cgroup_parent: "/pleg/pod0b2c",
            security_context: Some(
                LinuxSandboxSecurityContext {
                    namespace_options: Some(
                        NamespaceOption {
                            network: Pod,
                            pid: Container,
                            ipc: Pod,
                        },
                    ),
                    seccomp: Some(
                        SecurityProfile {
                            profile_type: RuntimeDefault,
                        },
                    ),
                },
            ),
            resources: Some(
                LinuxContainerResources {
                    cpu_period: 100000,
                    cpu_shares: 2,
                },
            ),
        },
    ),
}

"#]]
    );
}

#[test]
fn the_sandbox_of_a_pod_with_many_fields() {
    assert_data_eq!(
        sandbox_text(&rich_pod(), &testing::host()),
        str![[r#"
label app = web
label io.kubernetes.pod.name = web
label io.kubernetes.pod.namespace = default
label io.kubernetes.pod.uid = 0b2c
label pleg.dev/owner = run
annotation io.kubernetes.pod.terminationGracePeriod = 30
annotation kubernetes.io/config.hash = 0b2c
annotation kubernetes.io/config.source = file
annotation note = kept
annotation pleg.dev/file = web.yaml
annotation pleg.dev/termination = {"gracePeriod":{"secs":30,"nanos":0},"containers":[{"name":"app","isSidecar":false,"preStop":["/bin/sh","-c","sleep 1"]},{"name":"sidecar","isSidecar":true,"preStop":null}]}
PodSandboxConfig {
    metadata: Some(
        PodSandboxMetadata {
            name: "web",
            uid: "0b2c",
            namespace: "default",
            attempt: 2,
        },
    ),
    hostname: "web",
    log_directory: "/var/log/pods/default_web_0b2c",
    dns_config: Some(
        DnsConfig {
            servers: [
                "10.0.0.10",
            ],
            searches: [
                "example.org",
            ],
            options: [
                "ndots:5",
            ],
        },
    ),
    port_mappings: [
        PortMapping {
            protocol: Tcp,
            container_port: 80,
            host_port: 8080,
            host_ip: "127.0.0.1",
        },
        PortMapping {
            protocol: Udp,
            container_port: 53,
            host_port: 53,
        },
    ],
    linux: Some(
        LinuxPodSandboxConfig {
            cgroup_parent: "/pleg/pod0b2c",
            security_context: Some(
                LinuxSandboxSecurityContext {
                    namespace_options: Some(
                        NamespaceOption {
                            network: Pod,
                            pid: Container,
                            ipc: Pod,
                        },
                    ),
                    run_as_user: Some(
                        Int64Value {
                            value: 1000,
                        },
                    ),
                    supplemental_groups: [
                        4000,
                        5000,
                    ],
                    run_as_group: Some(
                        Int64Value {
                            value: 3000,
                        },
                    ),
                    seccomp: Some(
                        SecurityProfile {
                            profile_type: RuntimeDefault,
                        },
                    ),
                },
            ),
            resources: Some(
                LinuxContainerResources {
                    cpu_period: 100000,
                    cpu_quota: 50000,
                    cpu_shares: 256,
                    memory_limit_in_bytes: 2147483648,
                },
            ),
        },
    ),
}

"#]]
    );
}

#[test]
fn the_sandbox_of_a_pod_on_the_hosts_network_under_systemd() {
    let mut pod = rich_pod();
    pod.network = Network::Host;
    pod.dns = None;
    pod.security = PodSecurity {
        group: Some(3000),
        ..Default::default()
    };
    pod.containers[0].security.privileged = true;
    let host = Host {
        cgroups: Cgroups {
            driver: CgroupDriver::Systemd,
            version: CgroupVersion::V2,
        },
        ..testing::host()
    };
    assert_data_eq!(
        sandbox_text(&pod, &host),
        str![[r#"
label app = web
label io.kubernetes.pod.name = web
label io.kubernetes.pod.namespace = default
label io.kubernetes.pod.uid = 0b2c
label pleg.dev/owner = run
annotation io.kubernetes.pod.terminationGracePeriod = 30
annotation kubernetes.io/config.hash = 0b2c
annotation kubernetes.io/config.source = file
annotation note = kept
annotation pleg.dev/file = web.yaml
annotation pleg.dev/termination = {"gracePeriod":{"secs":30,"nanos":0},"containers":[{"name":"app","isSidecar":false,"preStop":["/bin/sh","-c","sleep 1"]},{"name":"sidecar","isSidecar":true,"preStop":null}]}
PodSandboxConfig {
    metadata: Some(
        PodSandboxMetadata {
            name: "web",
            uid: "0b2c",
            namespace: "default",
            attempt: 2,
        },
    ),
    log_directory: "/var/log/pods/default_web_0b2c",
    linux: Some(
        LinuxPodSandboxConfig {
            cgroup_parent: "/pleg.slice/pleg-pod0b2c.slice",
            security_context: Some(
                LinuxSandboxSecurityContext {
                    namespace_options: Some(
                        NamespaceOption {
                            network: Node,
                            pid: Container,
                            ipc: Pod,
                        },
                    ),
                    privileged: true,
                    seccomp: Some(
                        SecurityProfile {
                            profile_type: RuntimeDefault,
                        },
                    ),
                },
            ),
            resources: Some(
                LinuxContainerResources {
                    cpu_period: 100000,
                    cpu_quota: 50000,
                    cpu_shares: 256,
                    memory_limit_in_bytes: 2147483648,
                },
            ),
        },
    ),
}

"#]]
    );
}

#[test]
fn a_plain_container() {
    let pod = testing::pod();
    let image = image(ImageUser::Name("app".to_owned()));
    let shown = container_text(start(&pod, &image, &[]), &testing::host());
    assert_data_eq!(
        shown,
        str![[r#"
label io.kubernetes.container.name = app
label io.kubernetes.pod.name = web
label io.kubernetes.pod.namespace = default
label io.kubernetes.pod.uid = 0b2c
label pleg.dev/owner = run
annotation io.kubernetes.container.restartCount = 3
annotation io.kubernetes.container.terminationMessagePath = /dev/termination-log
annotation io.kubernetes.container.terminationMessagePolicy = File
annotation io.kubernetes.pod.terminationGracePeriod = 30
ContainerConfig {
    metadata: Some(
        ContainerMetadata {
            name: "app",
            attempt: 3,
        },
    ),
    image: Some(
        ImageSpec {
            image: "sha256:1111",
            user_specified_image: "registry/app:1",
        },
    ),
    log_path: "app/3.log",
    linux: Some(
        LinuxContainerConfig {
            resources: Some(
                LinuxContainerResources {
                    cpu_period: 100000,
                    cpu_shares: 2,
                    oom_score_adj: 1000,
                },
            ),
            security_context: Some(
                LinuxContainerSecurityContext {
                    namespace_options: Some(
                        NamespaceOption {
                            network: Pod,
                            pid: Container,
                            ipc: Pod,
                        },
                    ),
                    run_as_username: "app",
                    masked_paths: [
                        "/proc/asound",
                        "/proc/acpi",
                        "/proc/interrupts",
                        "/proc/kcore",
                        "/proc/keys",
                        "/proc/latency_stats",
                        "/proc/timer_list",
                        "/proc/timer_stats",
                        "/proc/sched_debug",
                        "/proc/scsi",
                        "/sys/firmware",
                        "/sys/devices/virtual/powercap",
                    ],
                    readonly_paths: [
                        "/proc/bus",
                        "/proc/fs",
                        "/proc/irq",
                        "/proc/sys",
                        "/proc/sysrq-trigger",
                    ],
                    seccomp: Some(
                        SecurityProfile {
                            profile_type: Unconfined,
                        },
                    ),
                },
            ),
        },
    ),
}

"#]]
    );
}

#[test]
fn a_container_with_many_fields() {
    let pod = rich_pod();
    let mounts = [
        BindMount {
            container_path: "/data".to_owned(),
            host_path: "/var/lib/pleg/run/pods/0b2c/volumes/data".into(),
            read_only: false,
            is_ours: true,
        },
        BindMount {
            container_path: "/host".to_owned(),
            host_path: "/etc".into(),
            read_only: true,
            is_ours: false,
        },
    ];
    let image = image(ImageUser::Id(0));
    let shown = container_text(start(&pod, &image, &mounts), &testing::host());
    assert_data_eq!(
        shown,
        str![[r#"
env PORT=80
env NAME=web
env IP=10.1.2.3
env NODE=node-1
env NODE_IP=192.168.0.1
env NODE_IPS=192.168.0.1,fd00::1
env URL=http://10.1.2.3:80/$(LATER)
env LATER=x
label io.kubernetes.container.name = app
label io.kubernetes.pod.name = web
label io.kubernetes.pod.namespace = default
label io.kubernetes.pod.uid = 0b2c
label pleg.dev/owner = run
annotation io.kubernetes.container.restartCount = 3
annotation io.kubernetes.container.terminationMessagePath = /dev/termination-log
annotation io.kubernetes.container.terminationMessagePolicy = File
annotation io.kubernetes.pod.terminationGracePeriod = 30
ContainerConfig {
    metadata: Some(
        ContainerMetadata {
            name: "app",
            attempt: 3,
        },
    ),
    image: Some(
        ImageSpec {
            image: "sha256:1111",
            user_specified_image: "registry/app:1",
        },
    ),
    command: [
        "/app",
        "--port=80",
        "$(PORT)",
    ],
    args: [
        "--name=web",
        "$(UNKNOWN)",
    ],
    working_dir: "/srv",
    mounts: [
        Mount {
            container_path: "/data",
            host_path: "/var/lib/pleg/run/pods/0b2c/volumes/data",
            selinux_relabel: true,
            propagation: PropagationPrivate,
        },
        Mount {
            container_path: "/host",
            host_path: "/etc",
            readonly: true,
            propagation: PropagationPrivate,
        },
    ],
    log_path: "app/3.log",
    linux: Some(
        LinuxContainerConfig {
            resources: Some(
                LinuxContainerResources {
                    cpu_period: 100000,
                    cpu_quota: 50000,
                    cpu_shares: 256,
                    memory_limit_in_bytes: 2147483648,
                    oom_score_adj: 875,
                },
            ),
            security_context: Some(
                LinuxContainerSecurityContext {
                    capabilities: Some(
                        Capability {
                            add_capabilities: [
                                "NET_BIND_SERVICE",
                            ],
                            drop_capabilities: [
                                "ALL",
                            ],
                        },
                    ),
                    namespace_options: Some(
                        NamespaceOption {
                            network: Pod,
                            pid: Container,
                            ipc: Pod,
                        },
                    ),
                    run_as_user: Some(
                        Int64Value {
                            value: 1000,
                        },
                    ),
                    readonly_rootfs: true,
                    supplemental_groups: [
                        4000,
                        5000,
                    ],
                    no_new_privs: true,
                    run_as_group: Some(
                        Int64Value {
                            value: 2000,
                        },
                    ),
                    masked_paths: [
                        "/proc/asound",
                        "/proc/acpi",
                        "/proc/interrupts",
                        "/proc/kcore",
                        "/proc/keys",
                        "/proc/latency_stats",
                        "/proc/timer_list",
                        "/proc/timer_stats",
                        "/proc/sched_debug",
                        "/proc/scsi",
                        "/sys/firmware",
                        "/sys/devices/virtual/powercap",
                    ],
                    readonly_paths: [
                        "/proc/bus",
                        "/proc/fs",
                        "/proc/irq",
                        "/proc/sys",
                        "/proc/sysrq-trigger",
                    ],
                    seccomp: Some(
                        SecurityProfile {
                            profile_type: RuntimeDefault,
                        },
                    ),
                },
            ),
        },
    ),
}

"#]]
    );
}

#[test]
fn a_privileged_sidecar_on_the_hosts_network_with_cgroups_v2() {
    let container = ContainerSpec {
        role: Role::Sidecar,
        tty: true,
        stdin: true,
        env: vec![field("IP", Field::PodIp), literal("IP", "$(IP)!")],
        security: ContainerSecurity {
            privileged: true,
            ..Default::default()
        },
        ..testing::container("sidecar")
    };
    let pod = PodSpec {
        network: Network::Host,
        containers: vec![container],
        ..testing::pod()
    };
    let host = Host {
        cgroups: Cgroups {
            driver: CgroupDriver::Systemd,
            version: CgroupVersion::V2,
        },
        ..testing::host()
    };
    let image = image(ImageUser::Id(65532));
    assert_data_eq!(
        container_text(start(&pod, &image, &[]), &host),
        str![[r#"
env IP=192.168.0.1!
label io.kubernetes.container.name = sidecar
label io.kubernetes.pod.name = web
label io.kubernetes.pod.namespace = default
label io.kubernetes.pod.uid = 0b2c
label pleg.dev/owner = run
annotation io.kubernetes.container.restartCount = 3
annotation io.kubernetes.container.terminationMessagePath = /dev/termination-log
annotation io.kubernetes.container.terminationMessagePolicy = File
annotation io.kubernetes.pod.terminationGracePeriod = 30
ContainerConfig {
    metadata: Some(
        ContainerMetadata {
            name: "sidecar",
            attempt: 3,
        },
    ),
    image: Some(
        ImageSpec {
            image: "sha256:1111",
            user_specified_image: "registry/app:1",
        },
    ),
    log_path: "sidecar/3.log",
    stdin: true,
    tty: true,
    linux: Some(
        LinuxContainerConfig {
            resources: Some(
                LinuxContainerResources {
                    cpu_period: 100000,
                    cpu_shares: 2,
                    oom_score_adj: 1000,
                    unified: {
                        "memory.oom.group": "1",
                    },
                },
            ),
            security_context: Some(
                LinuxContainerSecurityContext {
                    privileged: true,
                    namespace_options: Some(
                        NamespaceOption {
                            network: Node,
                            pid: Container,
                            ipc: Pod,
                        },
                    ),
                    run_as_user: Some(
                        Int64Value {
                            value: 65532,
                        },
                    ),
                    seccomp: Some(
                        SecurityProfile {
                            profile_type: Unconfined,
                        },
                    ),
                },
            ),
        },
    ),
}

"#]]
    );
}

/// A node may get its network, or another address, while this program runs.
#[test]
fn the_addresses_of_the_node_are_those_at_the_time_of_a_request() {
    static COUNT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);
    let mut host = testing::host();
    host.node_ips = || {
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        vec![IpAddr::from([10, 0, 0, count])]
    };
    let mut pod = testing::pod();
    pod.containers[0].env = vec![field("NODE_IP", Field::HostIp)];
    for count in 0..2 {
        let variables = environment(&pod, &pod.containers[0], &host, None);
        let expected = ("NODE_IP".to_owned(), format!("10.0.0.{count}"));
        assert_eq!(variables, [expected]);
    }
}
