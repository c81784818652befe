//! The request for a sandbox.

use cri::v1;

use super::{Host, metadata, resources, security};
use crate::logs;
use crate::spec::{ContainerSpec, Dns, Network, PodSpec, Port, Protocol, Role};

/// The configuration of a sandbox, as a CRI message. The creation of its containers needs it too.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxConfig(pub(super) v1::PodSandboxConfig);

impl SandboxConfig {
    /// The configuration of the pod's sandbox with this attempt, counted from 0.
    pub fn new(pod: &PodSpec, host: &Host, attempt: u32) -> Self {
        let hostname = match &pod.network {
            Network::Host => String::new(),
            Network::Pod { hostname } => hostname.clone(),
        };
        Self(v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: pod.pod.name.to_string(),
                uid: pod.pod.uid.to_string(),
                namespace: pod.pod.namespace.to_string(),
                attempt,
            }),
            hostname,
            log_directory: logs::folder_name(&host.log_root, &pod.pod),
            dns_config: pod.dns.clone().map(dns),
            port_mappings: port_mappings(pod),
            labels: metadata::sandbox_labels(pod, host),
            annotations: metadata::sandbox_annotations(pod),
            linux: Some(v1::LinuxPodSandboxConfig {
                cgroup_parent: host.cgroups.parent_of(&pod.pod.uid),
                security_context: Some(security::of_sandbox(pod)),
                resources: Some(resources::of_pod(pod)),
                ..Default::default()
            }),
        })
    }

    /// The namespace and the name of its pod, for error messages.
    pub(super) fn subject(&self) -> String {
        let metadata = self.0.metadata.clone().unwrap_or_default();
        format!("{}/{}", metadata.namespace, metadata.name)
    }
}

fn dns(dns: Dns) -> v1::DnsConfig {
    v1::DnsConfig {
        servers: dns.servers,
        searches: dns.searches,
        options: dns.options,
    }
}

/// The host ports of the pod. A pod on the host's network needs no port mappings.
fn port_mappings(pod: &PodSpec) -> Vec<v1::PortMapping> {
    if pod.network == Network::Host {
        return Vec::new();
    }
    let runs_with_others = |container: &&ContainerSpec| container.role != Role::Init;
    let containers = pod.containers.iter().filter(runs_with_others);
    let ports = containers.flat_map(|container| &container.ports);
    ports.filter_map(port_mapping).collect()
}

fn port_mapping(port: &Port) -> Option<v1::PortMapping> {
    let protocol = match port.protocol {
        Protocol::Tcp => v1::Protocol::Tcp,
        Protocol::Udp => v1::Protocol::Udp,
        Protocol::Sctp => v1::Protocol::Sctp,
    };
    Some(v1::PortMapping {
        protocol: protocol.into(),
        container_port: port.container_port.into(),
        host_port: port.host_port?.into(),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    })
}
