//! The specification of a pod: the supported fields of its manifest, with the defaults of an API
//! server.

mod container;
mod probe;
mod security;
mod volume;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::PodRef;

pub use container::{
    ContainerSpec, EnvVar, Field, Mount, Port, Protocol, PullPolicy, Resources, Role, Value,
};
pub use probe::{Check, Probe, ProbeKind, Probes, Scheme};
pub use security::{ContainerSecurity, PodSecurity, Seccomp};
pub use volume::{HostPathType, Medium, Volume};

/// The specification of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSpec {
    /// Its namespace, name and UID. As in the kubelet, the UID of a static pod is a hash of the
    /// manifest, so a changed manifest defines another pod with the same name.
    pub pod: PodRef,
    /// The name of the manifest file.
    pub file: Arc<str>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// Its network.
    pub network: Network,
    /// When its containers are restarted.
    pub restart_policy: RestartPolicy,
    /// `terminationGracePeriodSeconds`: the time from the start of the pod's end to SIGKILL, which
    /// includes `preStop` hooks. 30 s by default.
    pub grace_period: Duration,
    /// `priorityClassName: system-node-critical`: when memory is short, the kernel kills the pod's
    /// processes last (`oom_score_adj` -997).
    pub node_critical: bool,
    /// Its DNS configuration, if it is not the host's.
    pub dns: Option<Dns>,
    /// The security context of the pod.
    pub security: PodSecurity,
    /// Its volumes, by name.
    pub volumes: BTreeMap<String, Volume>,
    /// Its init containers and sidecars in their order, then its main containers.
    pub containers: Vec<ContainerSpec>,
}

/// The network of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// `hostNetwork: true`.
    Host,
    /// A network of its own, from the runtime's CNI plugins.
    Pod {
        /// Its host name: `spec.hostname`, or the pod's name, shortened to what the kernel accepts.
        hostname: String,
    },
}

/// `restartPolicy`: when a container that has exited is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// A container is restarted after each exit.
    Always,
    /// A container is restarted unless its exit code is 0.
    OnFailure,
    /// A container is never restarted.
    Never,
}

/// `dnsConfig` under `dnsPolicy: None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    /// `nameservers`.
    pub servers: Vec<String>,
    /// `searches`.
    pub searches: Vec<String>,
    /// `options`, in the form of resolv.conf: `ndots:5`.
    pub options: Vec<String>,
}

impl PodSpec {
    /// The init containers and sidecars, in their order. They start before the other containers.
    pub fn init_containers(&self) -> impl Iterator<Item = &ContainerSpec> {
        let containers = self.containers.iter();
        containers.filter(|it| it.role != Role::Container)
    }

    /// The containers other than init containers and sidecars. They run in parallel.
    pub fn main_containers(&self) -> impl Iterator<Item = &ContainerSpec> {
        let containers = self.containers.iter();
        containers.filter(|it| it.role == Role::Container)
    }

    /// A container by its name.
    pub fn container(&self, name: &str) -> Option<&ContainerSpec> {
        self.containers.iter().find(|it| it.name == name)
    }
}
