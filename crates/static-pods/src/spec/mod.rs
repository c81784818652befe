//! What is wanted of a pod: as much of a manifest as can be done, with the defaults of the API
//! server filled in.

mod container;
mod probe;
#[cfg(test)]
pub(crate) mod sample;
mod security;
mod volume;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::PodRef;

pub use container::{
    ContainerSpec, EnvVar, Field, Mount, Port, Protocol, PullPolicy, Resources, Role, Value,
};
pub use probe::{Check, Probe, Probes, Scheme};
pub use security::{ContainerSecurity, PodSecurity, Seccomp};
pub use volume::{HostPathType, Medium, Volume};

/// A pod as its manifest wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSpec {
    /// Its names. The UID is a hash of the manifest, as a kubelet's for static pods: a changed
    /// manifest is another pod of the same name.
    pub pod: PodRef,
    /// The name of the file that its manifest is in.
    pub file: Arc<str>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// Which network it has.
    pub network: Network,
    /// When its containers are started again.
    pub restart_policy: RestartPolicy,
    /// `terminationGracePeriodSeconds`: from the request to end to SIGKILL. 30 s by default.
    pub grace_period: Duration,
    /// `priorityClassName: system-node-critical`: of all pods, the kernel kills its processes last
    /// when memory is short (`oom_score_adj` -997).
    pub node_critical: bool,
    /// Where names are looked up, if not where the host looks.
    pub dns: Option<Dns>,
    /// What holds for all its containers.
    pub security: PodSecurity,
    /// Its volumes, by name.
    pub volumes: BTreeMap<String, Volume>,
    /// Init containers and sidecars in their order, then the containers.
    pub containers: Vec<ContainerSpec>,
}

/// Which network a pod has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// `hostNetwork: true`.
    Host,
    /// That of the runtime's CNI plugins.
    Pod {
        /// Its host name: `spec.hostname`, or the pod's name.
        hostname: String,
    },
}

/// `restartPolicy`: when a container that has exited is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// However it ended.
    Always,
    /// Unless it ended with 0.
    OnFailure,
    /// Never.
    Never,
}

/// `dnsConfig` under `dnsPolicy: None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    /// `nameservers`.
    pub servers: Vec<String>,
    /// `searches`.
    pub searches: Vec<String>,
    /// `options`, as they stand in resolv.conf: `ndots:5`.
    pub options: Vec<String>,
}

impl PodSpec {
    /// The containers that run before the others, in their order: init containers and sidecars.
    pub fn before(&self) -> impl Iterator<Item = &ContainerSpec> {
        let mut containers = self.containers.iter();
        std::iter::from_fn(move || containers.find(|it| it.role != Role::Container))
    }

    /// The containers that run side by side once those before them have.
    pub fn side_by_side(&self) -> impl Iterator<Item = &ContainerSpec> {
        let mut containers = self.containers.iter();
        std::iter::from_fn(move || containers.find(|it| it.role == Role::Container))
    }

    /// A container by its name.
    pub fn container(&self, name: &str) -> Option<&ContainerSpec> {
        self.containers.iter().find(|it| it.name == name)
    }
}
