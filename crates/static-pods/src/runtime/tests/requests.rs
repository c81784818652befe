//! The requests for a few pods.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use cri::v1;

use crate::runtime::{ContainerConfig, ContainerStart, Host, Image, ImageUser, SandboxConfig};
use crate::spec::{
    ContainerSecurity, ContainerSpec, Dns, EnvVar, Field, PodSecurity, PodSpec, Port, Protocol,
    Resources, Role, Seccomp, Value,
};
use crate::testing;
use crate::volumes::BindMount;

mod container;
mod sandbox;

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
