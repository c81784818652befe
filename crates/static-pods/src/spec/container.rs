//! What is wanted of a container.

use super::{ContainerSecurity, Probes};

/// A container as its manifest wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSpec {
    /// Its name, which no other container of the pod has.
    pub name: String,
    /// When it runs.
    pub role: Role,
    /// The image as the manifest names it.
    pub image: String,
    /// When the image is pulled.
    pub pull_policy: PullPolicy,
    /// In place of the image's entry point; empty for that. Variables are not expanded yet.
    pub command: Vec<String>,
    /// In place of the image's arguments. Variables are not expanded yet.
    pub args: Vec<String>,
    /// In place of the image's working directory.
    pub working_dir: Option<String>,
    /// Its environment, in the manifest's order, by which `$(NAME)` in a later value is expanded.
    pub env: Vec<EnvVar>,
    /// What it sees of the pod's volumes.
    pub mounts: Vec<Mount>,
    /// Its ports.
    pub ports: Vec<Port>,
    /// What it may use.
    pub resources: Resources,
    /// What it may do.
    pub security: ContainerSecurity,
    /// How its health is checked.
    pub probes: Probes,
    /// `lifecycle.preStop.exec.command`: what runs in it before it is asked to end.
    pub pre_stop: Option<Vec<String>>,
    /// `stdin`.
    pub stdin: bool,
    /// `tty`.
    pub tty: bool,
}

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To its end, before the next of the pod's containers is started.
    Init,
    /// An init container with `restartPolicy: Always`: the next is started once it has started,
    /// and it runs as long as the pod does.
    Sidecar,
    /// Beside the others, after all of those before it.
    Container,
}

/// `imagePullPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// At each start.
    Always,
    /// Unless the runtime has it.
    IfNotPresent,
    /// Not at all: without the image the container is not started.
    Never,
}

/// A variable of a container's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Where its value is from.
    pub value: Value,
}

/// Where the value of a variable is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The manifest. `$(NAME)` in it is not expanded yet.
    Literal(String),
    /// `valueFrom.fieldRef`.
    Field(Field),
}

/// What a `fieldRef` can name.
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

/// A volume as a container sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The volume's name in the pod.
    pub volume: String,
    /// Where the container sees it.
    pub path: String,
    /// The part of the volume that it sees; relative, and without `..`.
    pub sub_path: Option<String>,
    /// Whether it cannot write to it.
    pub read_only: bool,
}

/// A port of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name that probes may use.
    pub name: Option<String>,
    /// The port in the pod.
    pub container_port: u16,
    /// The port of the host that leads to it, where the CNI configuration has `portmap`.
    pub host_port: Option<u16>,
    /// The address of the host, if not all.
    pub host_ip: Option<String>,
    /// Of which protocol.
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
    /// `requests.cpu` in thousandths of a CPU; the limit's where only that is given.
    pub cpu_request: Option<u64>,
    /// `limits.cpu` in thousandths of a CPU.
    pub cpu_limit: Option<u64>,
    /// `requests.memory` in bytes; the limit's where only that is given.
    pub memory_request: Option<u64>,
    /// `limits.memory` in bytes.
    pub memory_limit: Option<u64>,
}
