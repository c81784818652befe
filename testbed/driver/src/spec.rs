//! What is wanted (a spec) and what is there (a pod, a container).

use cri::v1::ContainerState;

use crate::error::{Error, Result};

/// Where a pod's network comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// The host's: quick, no CNI.
    #[default]
    Host,
    /// An address of its own, on the instance's bridge.
    Pod,
}

/// A pod to be run.
#[derive(Clone, Debug)]
pub struct PodSpec {
    /// The pod's name.
    pub name: String,
    /// Its namespace; "default" unless said.
    pub namespace: String,
    /// Random unless said; say it to give a pod a second sandbox.
    pub uid: Option<String>,
    /// Of the sandbox: 0 for the first. Its containers begin with the same attempt.
    pub attempt: u32,
    /// Started in this order.
    pub containers: Vec<ContainerSpec>,
    /// Of the sandbox and of all its containers.
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

    /// Adds a container; a plain name stands for one that runs until it is stopped.
    #[must_use]
    pub fn container(mut self, container: impl Into<ContainerSpec>) -> Self {
        self.containers.push(container.into());
        self
    }
}

/// A container to be created.
#[derive(Clone, Debug, Default)]
pub struct ContainerSpec {
    /// The container's name in its pod.
    pub name: String,
    /// Empty: the image's own command, which runs until SIGTERM.
    pub command: Vec<String>,
    /// 0 for the first container of that name.
    pub attempt: u32,
    /// As the pod's, which [`crate::Driver::run_pod`] puts here.
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

/// A sandbox that is there, with its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The pod's uid.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Of the sandbox: 0 for the first.
    pub attempt: u32,
    /// The sandbox's id.
    pub sandbox_id: String,
    /// Is the sandbox ready, or has it been stopped?
    pub ready: bool,
    /// By name and attempt when listed, in the order of the spec when just run.
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

    /// Does `reference` (NAME or NAMESPACE/NAME) mean this pod?
    pub fn is(&self, reference: &str) -> bool {
        match reference.split_once('/') {
            Some((namespace, name)) => self.namespace == namespace && self.name == name,
            None => self.name == reference,
        }
    }
}

/// A container that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name in the pod.
    pub name: String,
    /// The container's id.
    pub id: String,
    /// 0 for the first of that name.
    pub attempt: u32,
    /// When it was listed.
    pub state: ContainerState,
}
