//! Converts `ports`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1;

use super::names;
use super::problem::At;
use crate::spec::{ContainerSpec, Port, Protocol, Role};

pub(super) fn read(ports: Vec<v1::ContainerPort>, on_host: bool, at: &At<'_>) -> Vec<Port> {
    let mut names = BTreeSet::new();
    let mut all = Vec::new();
    for (i, port) in ports.into_iter().enumerate() {
        let at = at.index(i);
        let port = read_one(port, on_host, &at);
        let name = port.name.as_deref().unwrap_or_default();
        names::check_unique(&mut names, name, "port", &at.field("name"));
        all.push(port);
    }
    all
}

fn read_one(port: v1::ContainerPort, on_host: bool, at: &At<'_>) -> Port {
    let v1::ContainerPort {
        container_port,
        host_ip,
        host_port,
        name,
        protocol,
    } = port;
    let name = name.filter(|it| !it.is_empty());
    if let Some(name) = &name {
        at.field("name").check(names::port_name(name));
    }
    let container_port = number(container_port, &at.field("containerPort"));
    let at_host = at.field("hostPort");
    let host_port = host_port.filter(|it| *it != 0);
    let host_port = host_port.map(|it| number(it, &at_host));
    if on_host && host_port.is_some_and(|it| it != container_port) {
        at_host.invalid("must equal containerPort with hostNetwork: true");
    }
    let host_ip = host_ip.filter(|it| !it.is_empty());
    if let Some(address) = &host_ip {
        at.field("hostIP").check(names::ip_address(address));
    }
    Port {
        name,
        container_port,
        // On the host's network no port is mapped.
        host_port: host_port.filter(|_| !on_host),
        host_ip,
        protocol: at.field("protocol").one_of(
            protocol.as_deref(),
            Protocol::Tcp,
            &[
                ("TCP", Protocol::Tcp),
                ("UDP", Protocol::Udp),
                ("SCTP", Protocol::Sctp),
            ],
        ),
    }
}

/// Checks the number of a port.
pub(super) fn number(number: i32, at: &At<'_>) -> u16 {
    match u16::try_from(number) {
        Ok(port) if port > 0 => port,
        _ => {
            at.invalid(format!("{number} is not between 1 and 65535"));
            1
        }
    }
}

/// Checks that each port of the host is mapped to at most one port of the pod.
pub(super) fn check_host_ports(containers: &[ContainerSpec], at: &At<'_>) {
    let mut mapped = BTreeSet::new();
    let is_main = |it: &ContainerSpec| it.role == Role::Container;
    let first = containers.iter().position(is_main);
    for (i, container) in containers.iter().enumerate() {
        let at = match first.and_then(|first| i.checked_sub(first)) {
            Some(i) => at.field("containers").index(i),
            None => at.field("initContainers").index(i),
        };
        // Init containers do not run at the same time as others.
        if container.role == Role::Init {
            continue;
        }
        for (i, port) in container.ports.iter().enumerate() {
            let Some(host_port) = port.host_port else {
                continue;
            };
            let address = port.host_ip.as_deref().unwrap_or("0.0.0.0");
            let protocol = format!("{:?}", port.protocol);
            if !mapped.insert((host_port, address.to_owned(), protocol)) {
                let at = at.field("ports").index(i).field("hostPort");
                at.invalid(format!("another port of the pod has {host_port}"));
            }
        }
    }
}
