//! The requests for containers.

use std::net::IpAddr;

use snapbox::{assert_data_eq, str};

use super::{container_text, field, image, literal, rich_pod, start};
use crate::runtime::{CgroupDriver, CgroupVersion, Cgroups, Host, ImageUser, environment};
use crate::spec::{ContainerSecurity, ContainerSpec, Field, Network, PodSpec, Role};
use crate::testing;
use crate::volumes::BindMount;

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
