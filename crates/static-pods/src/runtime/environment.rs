//! The environment of a container, and the expansion of commands with it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Host, expand};
use crate::spec::{ContainerSpec, Field, Network, PodSpec, Value};

/// The variables of a container, in the manifest's order. A literal value is expanded with the
/// variables before it. If two have the same name, the later value replaces the earlier one.
pub fn environment(
    pod: &PodSpec,
    container: &ContainerSpec,
    host: &Host,
    pod_ip: Option<IpAddr>,
) -> Vec<(String, String)> {
    let mut variables = Vec::<(String, String)>::new();
    for variable in &container.env {
        let value = match &variable.value {
            Value::Literal(text) => expand(text, |name| {
                let found = variables.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| value.clone())
            }),
            Value::Field(field) => field_value(*field, pod, host, pod_ip),
        };
        match variables
            .iter_mut()
            .find(|(name, _)| *name == variable.name)
        {
            Some((_, known)) => *known = value,
            None => variables.push((variable.name.clone(), value)),
        }
    }
    variables
}

/// A command or its arguments, expanded with the environment.
pub(super) fn expanded(words: &[String], environment: &[(String, String)]) -> Vec<String> {
    let values: BTreeMap<_, _> = environment.iter().map(|(name, it)| (&**name, it)).collect();
    let of = |name: &str| values.get(name).map(|value| (*value).clone());
    words.iter().map(|word| expand(word, of)).collect()
}

fn field_value(field: Field, pod: &PodSpec, host: &Host, pod_ip: Option<IpAddr>) -> String {
    let text = |ip: Option<IpAddr>| ip.map(|ip| ip.to_string()).unwrap_or_default();
    match field {
        Field::Name => pod.pod.name.to_string(),
        Field::Namespace => pod.pod.namespace.to_string(),
        Field::Uid => pod.pod.uid.to_string(),
        Field::NodeName => host.node_name.clone(),
        Field::HostIp => text(host.node_ip()),
        Field::HostIps => {
            let ips = (host.node_ips)().into_iter().map(|ip| ip.to_string());
            ips.collect::<Vec<_>>().join(",")
        }
        Field::PodIp => match pod.network {
            Network::Host => text(host.node_ip()),
            Network::Pod { .. } => text(pod_ip),
        },
    }
}
