//! The specs of pods and containers, and the pods and containers that exist.

use cri::v1::ContainerState;

use crate::error::{Error, Result};

/// The network of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// The network of the host: fast, without CNI.
    #[default]
    Host,
    /// A separate address on the bridge of the instance.
    Pod,
}

/// The spec of a pod.
#[derive(Clone, Debug)]
pub struct PodSpec {
    /// The pod's name.
    pub name: String,
    /// The pod's namespace. The default is "default".
    pub namespace: String,
    /// The pod's UID. The default is a random one; set it to add a second sandbox to a pod.
    pub uid: Option<String>,
    /// The attempt of the sandbox: 0 for the first. Its containers begin with this attempt.
    pub attempt: u32,
    /// The containers, in the order in which they are started.
    pub containers: Vec<ContainerSpec>,
    /// The network of the sandbox and all its containers.
    pub network: Network,
}

impl PodSpec {
    /// A pod without containers, on the host's network.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: "default".into(),
            uid: None,
            attempt: 0,
            containers: Vec::new(),
            network: Network::Host,
        }
    }

    /// Adds a container. A container that is given only by its name runs until it is stopped.
    #[must_use]
    pub fn container(mut self, container: impl Into<ContainerSpec>) -> Self {
        self.containers.push(container.into());
        self
    }
}

/// The spec of a container.
#[derive(Clone, Debug, Default)]
pub struct ContainerSpec {
    /// The container's name in its pod.
    pub name: String,
    /// The command. If it is empty, the command of the image, which runs until SIGTERM.
    pub command: Vec<String>,
    /// The attempt: 0 for the first container of this name.
    pub attempt: u32,
    /// The network of the pod. [`crate::Driver::run_pod`] sets it.
    pub network: Network,
}

impl ContainerSpec {
    /// A container that runs `command`.
    pub fn new(name: impl Into<String>, command: &[&str]) -> Self {
        Self {
            name: name.into(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            ..Self::default()
        }
    }
}

impl From<&str> for ContainerSpec {
    fn from(name: &str) -> Self {
        Self::new(name, &[])
    }
}

/// An existing sandbox with its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The pod's UID.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The attempt of the sandbox: 0 for the first.
    pub attempt: u32,
    /// The sandbox's id.
    pub sandbox_id: String,
    /// Whether the sandbox is ready; false if it was stopped.
    pub ready: bool,
    /// The containers: ordered by name and attempt in a list, in the order of the spec after a run.
    pub containers: Vec<Container>,
}

impl Pod {
    /// The id of the newest container of that name.
    pub fn id(&self, container: &str) -> Result<&str> {
        self.newest(container).map(|found| found.id.as_str())
    }

    /// The newest container of that name.
    pub fn newest(&self, container: &str) -> Result<&Container> {
        self.containers
            .iter()
            .filter(|candidate| candidate.name == container)
            .max_by_key(|candidate| candidate.attempt)
            .ok_or_else(|| Error::NoContainer {
                pod: self.name.clone(),
                kind: "container",
                container: container.into(),
            })
    }

    /// Whether `reference` (`NAME` or `NAMESPACE/NAME`) is this pod.
    pub fn is(&self, reference: &str) -> bool {
        match reference.split_once('/') {
            Some((namespace, name)) => self.namespace == namespace && self.name == name,
            None => self.name == reference,
        }
    }
}

/// An existing container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The container's name in the pod.
    pub name: String,
    /// The container's id.
    pub id: String,
    /// The attempt: 0 for the first container of this name.
    pub attempt: u32,
    /// The container's state when it was listed.
    pub state: ContainerState,
}
