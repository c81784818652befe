//! The request for a sandbox.

use std::path::PathBuf;

use cri::v1;

use super::{Host, metadata, resources, security};
use crate::logs;
use crate::spec::{ContainerSpec, Dns, Network, PodSpec, Port, Protocol, Role};

/// The longest name that a host can have.
const LONGEST_HOSTNAME: usize = 63;

/// What a sandbox is made by. Each of its containers is made with the same.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxConfig(pub(super) v1::PodSandboxConfig);

impl SandboxConfig {
    /// For the attempt of that number at the pod's sandbox, from 0.
    pub fn new(pod: &PodSpec, host: &Host, attempt: u32) -> Self {
        let hostname = match &pod.network {
            Network::Host => String::new(),
            Network::Pod { hostname } => shortened(hostname),
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

    /// Where its containers have their logs. It must be there before they are made.
    pub fn log_folder(&self) -> PathBuf {
        PathBuf::from(&self.0.log_directory)
    }

    /// Which sandbox it is, for people.
    pub(super) fn subject(&self) -> String {
        let metadata = self.0.metadata.clone().unwrap_or_default();
        format!("{}/{}", metadata.namespace, metadata.name)
    }
}

/// A host name of a length that the kernel takes, and without an end that DNS does not.
fn shortened(hostname: &str) -> String {
    // It has been checked to be a DNS label, whose characters are a byte each.
    let cut: String = hostname.chars().take(LONGEST_HOSTNAME).collect();
    match cut.len() < hostname.len() {
        true => cut.trim_end_matches(['-', '.']).to_owned(),
        false => cut,
    }
}

fn dns(dns: Dns) -> v1::DnsConfig {
    v1::DnsConfig {
        servers: dns.servers,
        searches: dns.searches,
        options: dns.options,
    }
}

/// The ports of the host that lead into the pod. On the host's own network they need no way in.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_is_cut_to_what_the_kernel_and_dns_take() {
        assert_eq!(shortened("web-0"), "web-0");
        let long = format!("{}-.tail", "a".repeat(61));
        assert_eq!(shortened(&long), "a".repeat(61));
    }
}
