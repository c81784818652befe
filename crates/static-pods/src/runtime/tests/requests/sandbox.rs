//! The requests for sandboxes.

use snapbox::{assert_data_eq, str};

use super::{rich_pod, sandbox_text};
use crate::runtime::{CgroupDriver, CgroupVersion, Cgroups, Host};
use crate::spec::{Network, PodSecurity};
use crate::testing;

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
