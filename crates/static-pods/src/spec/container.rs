//! The specification of a container.

use super::{ContainerSecurity, Probes};

/// The specification of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSpec {
    /// Its name, which is unique in the pod.
    pub name: String,
    /// When it runs.
    pub role: Role,
    /// The name of the image in the manifest.
    pub image: String,
    /// When the image is pulled.
    pub pull_policy: PullPolicy,
    /// Replaces the image's entry point, unless empty. Variables are not expanded yet.
    pub command: Vec<String>,
    /// Replaces the image's arguments, unless empty. Variables are not expanded yet.
    pub args: Vec<String>,
    /// Replaces the image's working directory.
    pub working_dir: Option<String>,
    /// Its environment, in the manifest's order. `$(NAME)` refers to an earlier variable.
    pub env: Vec<EnvVar>,
    /// Its mounts of the pod's volumes.
    pub mounts: Vec<Mount>,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Its requests and limits.
    pub resources: Resources,
    /// Its security context.
    pub security: ContainerSecurity,
    /// Its probes.
    pub probes: Probes,
    /// `lifecycle.preStop.exec.command`: a command that runs in the container before the stop signal.
    pub pre_stop: Option<Vec<String>>,
    /// `stdin`.
    pub stdin: bool,
    /// `tty`.
    pub tty: bool,
}

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An init container: it must succeed before the next container is started.
    Init,
    /// An init container with `restartPolicy: Always`: it must have started before the next
    /// container is started, and it runs until the pod ends.
    Sidecar,
    /// A container that runs in parallel with the others, after the init containers.
    Container,
}

/// `imagePullPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// The image is pulled before each start of the container.
    Always,
    /// The image is pulled if the runtime does not have it.
    IfNotPresent,
    /// The image is never pulled. Without the image, the container is not started.
    Never,
}

impl PullPolicy {
    /// Whether the image must be pulled. `is_present` is whether the runtime has it.
    pub fn needs_pull(self, is_present: bool) -> bool {
        match self {
            Self::Always => true,
            Self::IfNotPresent => !is_present,
            Self::Never => false,
        }
    }
}

/// A variable of a container's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// The source of its value.
    pub value: Value,
}

/// The source of a variable's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The value in the manifest. `$(NAME)` in it is not expanded yet.
    Literal(String),
    /// `valueFrom.fieldRef`.
    Field(Field),
}

/// The field of a `fieldRef`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `metadata.name`
    Name,
    /// `metadata.namespace`
    Namespace,
    /// `metadata.uid`
    Uid,
    /// `spec.nodeName`
    NodeName,
    /// `status.hostIP`
    HostIp,
    /// `status.hostIPs`
    HostIps,
    /// `status.podIP`
    PodIp,
}

/// The mount of a volume in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The volume's name in the pod.
    pub volume: String,
    /// The path in the container.
    pub path: String,
    /// The mounted part of the volume: a relative path without `..`.
    pub sub_path: Option<String>,
    /// Whether the container cannot write to it.
    pub read_only: bool,
}

/// A port of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name, by which probes can refer to it.
    pub name: Option<String>,
    /// The port in the pod.
    pub container_port: u16,
    /// The port of the host that is mapped to it, by the CNI plugin `portmap`.
    pub host_port: Option<u16>,
    /// The address of the host; all addresses by default.
    pub host_ip: Option<String>,
    /// The protocol.
    pub protocol: Protocol,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `TCP`
    Tcp,
    /// `UDP`
    Udp,
    /// `SCTP`
    Sctp,
}

/// `resources`, in the units of the kernel's interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// `requests.cpu` in thousandths of a CPU; by default the limit.
    pub cpu_request: Option<u64>,
    /// `limits.cpu` in thousandths of a CPU.
    pub cpu_limit: Option<u64>,
    /// `requests.memory` in bytes; by default the limit.
    pub memory_request: Option<u64>,
    /// `limits.memory` in bytes.
    pub memory_limit: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::PullPolicy::{Always, IfNotPresent, Never};

    #[test]
    fn the_policy_and_the_present_image_decide_on_a_pull() {
        for (policy, if_present, if_absent) in [
            (Always, true, true),
            (IfNotPresent, false, true),
            (Never, false, false),
        ] {
            assert_eq!(policy.needs_pull(true), if_present, "{policy:?}");
            assert_eq!(policy.needs_pull(false), if_absent, "{policy:?}");
        }
    }
}
