//! The request for a container.

use std::net::IpAddr;

use cri::v1;

use super::environment::expanded;
use super::{Host, Image, environment, metadata, resources, security, with_tag};
use crate::logs;
use crate::spec::{ContainerSpec, PodSpec};
use crate::volumes::BindMount;

/// The configuration of a container, as a CRI message.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerConfig(pub(super) v1::ContainerConfig);

/// The parameters of a container's creation.
#[derive(Clone, Copy, Debug)]
pub struct ContainerStart<'a> {
    /// Its pod.
    pub pod: &'a PodSpec,
    /// Its specification.
    pub container: &'a ContainerSpec,
    /// Its attempt, counted from 0: how many times it was restarted.
    pub attempt: u32,
    /// Its image.
    pub image: &'a Image,
    /// The address of its sandbox.
    pub pod_ip: Option<IpAddr>,
    /// Its mounts.
    pub mounts: &'a [BindMount],
}

impl ContainerConfig {
    /// The configuration for one creation of a container.
    pub fn new(start: ContainerStart<'_>, host: &Host) -> Self {
        let ContainerStart { pod, container, .. } = start;
        let environment = environment(pod, container, host, start.pod_ip);
        Self(v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata {
                name: container.name.clone(),
                attempt: start.attempt,
            }),
            image: Some(v1::ImageSpec {
                image: start.image.reference.clone(),
                user_specified_image: with_tag(&container.image),
                ..Default::default()
            }),
            command: expanded(&container.command, &environment),
            args: expanded(&container.args, &environment),
            working_dir: container.working_dir.clone().unwrap_or_default(),
            mounts: start.mounts.iter().map(mount).collect(),
            labels: metadata::container_labels(pod, container, host),
            annotations: metadata::container_annotations(pod, container, start.attempt),
            log_path: logs::file_name(&container.name, start.attempt),
            stdin: container.stdin,
            tty: container.tty,
            linux: Some(v1::LinuxContainerConfig {
                resources: Some(resources::of_container(pod, container, host)),
                security_context: Some(security::of_container(
                    pod,
                    &container.security,
                    start.image,
                )),
            }),
            envs: environment.into_iter().map(variable).collect(),
            ..Default::default()
        })
    }

    pub(super) fn subject(&self) -> &str {
        let metadata = self.0.metadata.as_ref();
        metadata.map_or("", |metadata| &metadata.name)
    }
}

fn variable((key, value): (String, String)) -> v1::KeyValue {
    v1::KeyValue {
        key,
        value: value.into(),
    }
}

fn mount(mount: &BindMount) -> v1::Mount {
    v1::Mount {
        container_path: mount.container_path.clone(),
        host_path: mount.host_path.to_string_lossy().into_owned(),
        readonly: mount.read_only,
        selinux_relabel: mount.is_ours,
        propagation: v1::MountPropagation::PropagationPrivate.into(),
    }
}
