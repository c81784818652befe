//! The names, labels and annotations that a kubelet sends to a runtime.
//!
//! They make up most of a list's size. Without them, every client would seem faster than it is.

use std::collections::HashMap;

use cri::v1::{
    ContainerConfig, ContainerMetadata, ImageSpec, LinuxContainerConfig,
    LinuxContainerSecurityContext, LinuxPodSandboxConfig, LinuxSandboxSecurityContext,
    NamespaceMode, NamespaceOption, PodSandboxConfig, PodSandboxMetadata,
};

use crate::spec::{ContainerSpec, Network};

/// The label of the driver's pods. A kubelet copies labels of a pod to its sandbox.
pub(crate) const LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "testbed-pods");

/// The label that holds a container's name.
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// The image that the testbed imports.
const IMAGE: &str = "pleg.test/busybox:latest";

/// A new UID in the form of the API server's: a random UUID, version 4.
pub(crate) fn new_uid() -> String {
    let random = fastrand::u128(..);
    let version_4 = random & !(0xf << 76) | 0x4 << 76;
    let uuid = format!("{:032x}", version_4 & !(0b11 << 62) | 0b10 << 62);
    [0..8, 8..12, 12..16, 16..20, 20..32]
        .map(|part| &uuid[part])
        .join("-")
}

fn map<const N: usize>(pairs: [(&str, String); N]) -> HashMap<String, String> {
    pairs.map(|(key, value)| (key.to_owned(), value)).into()
}

fn pod_labels(pod: &PodSandboxMetadata) -> HashMap<String, String> {
    map([
        ("io.kubernetes.pod.name", pod.name.clone()),
        ("io.kubernetes.pod.namespace", pod.namespace.clone()),
        ("io.kubernetes.pod.uid", pod.uid.clone()),
    ])
}

fn namespaces(network: Network) -> NamespaceOption {
    NamespaceOption {
        network: match network {
            Network::Host => NamespaceMode::Node.into(),
            Network::Pod => NamespaceMode::Pod.into(),
        },
        pid: NamespaceMode::Container.into(),
        ipc: NamespaceMode::Pod.into(),
    }
}

/// The sandbox of `pod` with its cgroup below `cgroup_parent`.
pub(crate) fn sandbox_config(
    pod: PodSandboxMetadata,
    network: Network,
    cgroup_parent: String,
) -> PodSandboxConfig {
    let mut labels = pod_labels(&pod);
    labels.insert(LABEL.0.into(), LABEL.1.into());
    PodSandboxConfig {
        // A pod on the host's network has the host's name.
        hostname: match network {
            Network::Host => String::new(),
            Network::Pod => pod.name.clone(),
        },
        metadata: Some(pod),
        labels,
        annotations: map([
            (
                "kubernetes.io/config.seen",
                jiff::Timestamp::now().to_string(),
            ),
            ("kubernetes.io/config.source", "api".into()),
        ]),
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent,
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces(network)),
                ..Default::default()
            }),
            ..Default::default()
        }),
        // Without a log directory containerd discards the output of the containers.
        ..PodSandboxConfig::default()
    }
}

/// A container of `pod`.
pub(crate) fn container_config(pod: &PodSandboxMetadata, spec: &ContainerSpec) -> ContainerConfig {
    let mut labels = pod_labels(pod);
    labels.insert(CONTAINER_NAME.into(), spec.name.clone());
    ContainerConfig {
        metadata: Some(ContainerMetadata {
            name: spec.name.clone(),
            attempt: spec.attempt,
        }),
        image: Some(ImageSpec {
            image: IMAGE.into(),
            ..ImageSpec::default()
        }),
        command: spec.command.clone(),
        labels,
        annotations: map([
            ("io.kubernetes.container.hash", hash(spec)),
            (
                "io.kubernetes.container.restartCount",
                spec.attempt.to_string(),
            ),
            (
                "io.kubernetes.container.terminationMessagePath",
                "/dev/termination-log".into(),
            ),
            (
                "io.kubernetes.container.terminationMessagePolicy",
                "File".into(),
            ),
            ("io.kubernetes.pod.terminationGracePeriod", "30".into()),
        ]),
        linux: Some(LinuxContainerConfig {
            resources: None,
            security_context: Some(LinuxContainerSecurityContext {
                namespace_options: Some(namespaces(spec.network)),
                ..Default::default()
            }),
        }),
        ..ContainerConfig::default()
    }
}

/// FNV-1a in hexadecimal, like the kubelet's hash of a container's spec. It is equal for each attempt.
fn hash(spec: &ContainerSpec) -> String {
    let words = std::iter::once(&spec.name).chain(&spec.command);
    let hash = words
        .flat_map(|word| word.bytes())
        .fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
    format!("{hash:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_has_the_form_of_a_random_uuid() {
        let uid = new_uid();
        let lengths: Vec<_> = uid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
        assert_eq!(&uid[14..15], "4", "{uid}");
        assert!("89ab".contains(&uid[19..20]), "{uid}");
    }
}
