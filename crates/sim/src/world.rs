//! The pods of a simulated node. Plain data, whose changes take effect at once.
//!
//! Ids are readable: `web-0/app.2` is the third container `app` of the pod `web-0`, and `web-0.1` its
//! second sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cri::v1;
use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::model::wall_time::WallTime;

/// The default image of a container.
pub(crate) const IMAGE: &str = "pleg.test/busybox:latest";

/// The exit code of a process that was killed.
const KILLED: i32 = 137;

/// The exit code that CRI-O reports while it does not know the real one.
const UNKNOWN_CODE: i32 = -1;

/// The pods of a node, and what else its runtime knows.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The pods, by name. If the name is taken, the key also contains the namespace, and the UID if
    /// necessary.
    pub pods: BTreeMap<String, Pod>,
    /// Images that were pulled.
    pub images: BTreeSet<String>,
    /// How commands end, by the container's name and the command. Other commands succeed at once.
    pub commands: BTreeMap<(String, Vec<String>), CommandEnd>,
    /// The containers whose logs were reopened, in the order of the calls.
    pub reopened_logs: Vec<Id>,
    /// Why the network of pods is not ready; `None` if it is ready.
    pub network_error: Option<String>,
    /// All ids that clients received, which are not used again.
    pub(crate) given_ids: BTreeSet<Id>,
}

/// What a client specified when it created a sandbox or a container. It is returned unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// A container's image.
    pub image: String,
    /// The path of a container's log, which is not written.
    pub log_path: String,
    /// A sandbox's runtime handler.
    pub runtime_handler: String,
    /// The whole configuration of a sandbox.
    pub sandbox_config: Option<v1::PodSandboxConfig>,
    /// The whole configuration of a container.
    pub container_config: Option<v1::ContainerConfig>,
}

/// How a command in a container ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandEnd {
    /// Its exit code.
    pub exit_code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A pod with its sandboxes and containers, oldest first.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its UID, namespace and name.
    pub pod: PodRef,
    /// Its sandboxes.
    pub sandboxes: Vec<Sandbox>,
    /// Its containers.
    pub containers: Vec<Container>,
}

/// A sandbox.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// Its id.
    pub id: Id,
    /// Its state.
    pub state: SandboxState,
    /// Its number in the pod, from 0.
    pub attempt: u32,
    /// When it was created.
    pub created_at: WallTime,
    /// Its addresses.
    pub ips: Vec<IpAddr>,
    /// What a client specified; `None` for the defaults of a kubelet.
    pub given: Option<Arc<Given>>,
}

/// A container.
#[derive(Clone, Debug)]
pub struct Container {
    /// Its id.
    pub id: Id,
    /// The sandbox that it runs in.
    pub sandbox_id: Id,
    /// Its name in the pod.
    pub name: String,
    /// The number of this container among the pod's containers of this name, from 0.
    pub attempt: u32,
    /// Its state.
    pub state: ContainerState,
    /// When it was created.
    pub created_at: WallTime,
    /// When it was started.
    pub started_at: Option<WallTime>,
    /// When it ended, and with which code.
    pub ended: Option<(WallTime, i32)>,
    /// Its state in the list, if it differs from the real one.
    pub listed_as: Option<ContainerState>,
    /// How long the runtime does not know the exit code after the container has ended.
    pub exit_code_delay: Duration,
    /// What a client specified; `None` for the defaults of a kubelet.
    pub given: Option<Arc<Given>>,
}

impl Pod {
    /// The newest sandbox.
    pub fn sandbox(&mut self) -> Option<&mut Sandbox> {
        self.sandboxes.last_mut()
    }

    /// The newest container with this name.
    pub fn container(&mut self, name: &str) -> Option<&mut Container> {
        self.containers
            .iter_mut()
            .rev()
            .find(|container| container.name == name)
    }

    /// Creates a container in the newest sandbox, without starting it.
    pub fn create(&mut self, name: &str, now: WallTime) -> &mut Container {
        let of_name = self.containers.iter().filter(|it| it.name == name);
        let attempt = of_name.map(|it| it.attempt + 1).max().unwrap_or_default();
        let sandbox_id = self.sandboxes.last().map(|sandbox| sandbox.id.clone());
        let sandbox_id = sandbox_id.unwrap_or_else(|| "".into());
        let id = format!("{}/{name}.{attempt}", self.pod.name).into();
        let container = Container::new(id, sandbox_id, (name, attempt), now);
        self.containers.push(container);
        self.containers.last_mut().expect("it was just pushed")
    }

    /// Ends the running container with this name, if there is one, and starts its successor.
    pub fn restart(&mut self, name: &str, code: i32, now: WallTime) {
        if let Some(container) = self.container(name)
            && container.state == ContainerState::Running
        {
            container.exit(code, now);
        }
        self.create(name, now).start(now);
    }

    /// Ends everything in the pod.
    pub fn stop(&mut self, now: WallTime) {
        self.stop_sandboxes(|_| true, now);
    }

    /// Stops the sandboxes whose ids satisfy `is_stopped`, and kills their running containers.
    pub(crate) fn stop_sandboxes(&mut self, is_stopped: impl Fn(&Id) -> bool, now: WallTime) {
        let containers = self.containers.iter_mut();
        for container in containers.filter(|it| is_stopped(&it.sandbox_id)) {
            if container.state == ContainerState::Running {
                container.exit(KILLED, now);
            }
        }
        let sandboxes = self.sandboxes.iter_mut();
        for sandbox in sandboxes.filter(|it| is_stopped(&it.id)) {
            sandbox.state = SandboxState::NotReady;
            sandbox.ips.clear();
        }
    }
}

impl Container {
    /// A container that was created and not started.
    pub(crate) fn new(
        id: Id,
        sandbox_id: Id,
        (name, attempt): (&str, u32),
        created_at: WallTime,
    ) -> Self {
        Self {
            id,
            sandbox_id,
            name: name.to_owned(),
            attempt,
            state: ContainerState::Created,
            created_at,
            started_at: None,
            ended: None,
            listed_as: None,
            exit_code_delay: Duration::ZERO,
            given: None,
        }
    }

    /// Its image.
    pub fn image(&self) -> &str {
        self.given.as_ref().map_or(IMAGE, |given| &given.image)
    }

    /// Starts the container.
    pub fn start(&mut self, now: WallTime) {
        self.state = ContainerState::Running;
        self.started_at = Some(now);
        self.listed_as = None;
    }

    /// Ends the container.
    pub fn exit(&mut self, code: i32, now: WallTime) {
        self.state = ContainerState::Exited;
        self.ended = Some((now, code));
        self.exit_code_delay = Duration::ZERO;
    }

    /// Ends the container without changing its state in the list.
    pub fn exit_unlisted(&mut self, code: i32, now: WallTime) {
        self.listed_as = Some(self.listed());
        self.exit(code, now);
    }

    /// Its state in the list.
    pub fn listed(&self) -> ContainerState {
        self.listed_as.unwrap_or(self.state)
    }

    /// When it ended and with which code, as its status reports at `now`.
    pub(crate) fn reported_end(&self, now: WallTime) -> Option<(WallTime, i32)> {
        let exited = self.state == ContainerState::Exited;
        let (time, code) = self.ended.filter(|_| exited)?;
        let known = now.since(time) >= self.exit_code_delay;
        Some((time, if known { code } else { UNKNOWN_CODE }))
    }
}

impl World {
    /// Adds a pod in the namespace `default`, and starts its containers.
    pub fn run(&mut self, name: &str, containers: &[&str], now: WallTime) -> &mut Pod {
        let number = self.pods.len() % 250 + 1;
        let mut pod = Pod {
            pod: PodRef {
                uid: format!("uid-{name}").into(),
                namespace: "default".into(),
                name: name.into(),
            },
            sandboxes: vec![Sandbox {
                id: format!("{name}.0").into(),
                state: SandboxState::Ready,
                attempt: 0,
                created_at: now,
                ips: vec![IpAddr::from([10, 0, 0, number as u8])],
                given: None,
            }],
            containers: Vec::new(),
        };
        for container in containers {
            pod.create(container, now).start(now);
        }
        self.pods.insert(name.to_owned(), pod);
        self.pod(name)
    }

    /// All sandboxes with their pods.
    pub fn sandboxes(&self) -> impl Iterator<Item = (&Pod, &Sandbox)> {
        let of = |pod| move |sandbox| (pod, sandbox);
        self.pods
            .values()
            .flat_map(move |pod| pod.sandboxes.iter().map(of(pod)))
    }

    /// All containers with their pods.
    pub fn containers(&self) -> impl Iterator<Item = (&Pod, &Container)> {
        let of = |pod| move |container| (pod, container);
        self.pods
            .values()
            .flat_map(move |pod| pod.containers.iter().map(of(pod)))
    }

    /// The pod with this name. Panics if there is none.
    pub fn pod(&mut self, name: &str) -> &mut Pod {
        self.pods
            .get_mut(name)
            .unwrap_or_else(|| panic!("no pod {name:?} in this world"))
    }

    /// The newest container `name` of the pod. Panics if there is none.
    pub fn container(&mut self, pod: &str, name: &str) -> &mut Container {
        self.pod(pod)
            .container(name)
            .unwrap_or_else(|| panic!("no container {name:?} in pod {pod:?}"))
    }

    /// Removes a pod at once.
    pub fn remove(&mut self, name: &str) {
        self.pods.remove(name);
    }
}
