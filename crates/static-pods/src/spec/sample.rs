//! Pods for tests.

use std::time::Duration;

use pleg::model::id::PodRef;

use super::{
    ContainerSpec, Network, PodSecurity, PodSpec, Probes, PullPolicy, Resources, RestartPolicy,
    Role,
};

/// A pod of these containers: `i:name` for init containers, `s:name` for sidecars.
pub(crate) fn pod(policy: RestartPolicy, containers: &[&str]) -> PodSpec {
    let container = |text: &&str| {
        let (role, name) = match text.split_once(':') {
            Some(("i", name)) => (Role::Init, name),
            Some(("s", name)) => (Role::Sidecar, name),
            _ => (Role::Container, *text),
        };
        ContainerSpec {
            name: name.into(),
            role,
            image: "image".into(),
            pull_policy: PullPolicy::IfNotPresent,
            command: Vec::new(),
            args: Vec::new(),
            working_dir: None,
            env: Vec::new(),
            mounts: Vec::new(),
            ports: Vec::new(),
            resources: Resources::default(),
            security: Default::default(),
            probes: Probes::default(),
            pre_stop: None,
            stdin: false,
            tty: false,
        }
    };
    PodSpec {
        pod: PodRef {
            uid: "uid".into(),
            namespace: "default".into(),
            name: "web".into(),
        },
        file: "web.yaml".into(),
        labels: Default::default(),
        annotations: Default::default(),
        network: Network::Host,
        restart_policy: policy,
        grace_period: Duration::from_secs(30),
        node_critical: false,
        dns: None,
        security: PodSecurity::default(),
        volumes: Default::default(),
        containers: containers.iter().map(container).collect(),
    }
}
