//! Finding things by their ids, as a runtime is asked for them. Ids speak, so one looks
//! where an id says, and only else everywhere.

use pleg::model::listed::{ContainerState, SandboxState};
use pleg::model::wall_time::WallTime;

use crate::world::{Container, Pod, Sandbox, World};

/// The end of a process that was killed.
const KILLED: i32 = 137;

impl World {
    /// The sandbox of that id.
    pub fn sandbox_by_id(&self, id: &str) -> Option<(&Pod, &Sandbox)> {
        let of = |pod| sandbox_in(pod, id);
        let near = id.rsplit_once('.').and_then(|(pod, _)| self.pods.get(pod));
        near.and_then(of)
            .or_else(|| self.pods.values().find_map(of))
    }

    /// The container of that id.
    pub fn container_by_id(&self, id: &str) -> Option<(&Pod, &Container)> {
        let of = |pod| container_in(pod, id);
        let near = id.rsplit_once('/').and_then(|(pod, _)| self.pods.get(pod));
        near.and_then(of)
            .or_else(|| self.pods.values().find_map(of))
    }

    /// A sandbox of another id: the next one.
    pub(crate) fn another_sandbox(&self, id: &str) -> Option<(&Pod, &Sandbox)> {
        let next = self.sandboxes().skip_while(|(_, it)| it.id.as_str() != id);
        let mut others = next.chain(self.sandboxes());
        others.find(|(_, it)| it.id.as_str() != id)
    }

    /// A container of another id: the next one.
    pub(crate) fn another_container(&self, id: &str) -> Option<(&Pod, &Container)> {
        let next = self.containers().skip_while(|(_, it)| it.id.as_str() != id);
        let mut others = next.chain(self.containers());
        others.find(|(_, it)| it.id.as_str() != id)
    }

    /// The container of that id, to be changed.
    pub fn container_by_id_mut(&mut self, id: &str) -> Option<&mut Container> {
        let mut containers = self.pods.values_mut().flat_map(|pod| &mut pod.containers);
        containers.find(|container| container.id.as_str() == id)
    }

    /// Stops a sandbox, and kills what runs in it.
    pub fn stop_sandbox(&mut self, id: &str, now: WallTime) {
        let Some(pod) = self.pod_of_sandbox(id) else {
            return;
        };
        for container in &mut pod.containers {
            if container.sandbox_id.as_str() == id && container.state == ContainerState::Running {
                container.exit(KILLED, now);
            }
        }
        for sandbox in &mut pod.sandboxes {
            if sandbox.id.as_str() == id {
                sandbox.state = SandboxState::NotReady;
                sandbox.ips.clear();
            }
        }
    }

    /// Removes a sandbox with all that is in it, and a pod of which nothing is left.
    pub fn remove_sandbox(&mut self, id: &str) {
        if let Some(pod) = self.pod_of_sandbox(id) {
            pod.sandboxes.retain(|sandbox| sandbox.id.as_str() != id);
            pod.containers
                .retain(|container| container.sandbox_id.as_str() != id);
            self.pods
                .retain(|_, pod| !pod.sandboxes.is_empty() || !pod.containers.is_empty());
        }
    }

    /// Removes a container.
    pub fn remove_container(&mut self, id: &str) {
        for pod in self.pods.values_mut() {
            pod.containers
                .retain(|container| container.id.as_str() != id);
        }
    }

    /// The pod that a sandbox is of.
    pub fn pod_of_sandbox(&mut self, id: &str) -> Option<&mut Pod> {
        let mut pods = self.pods.values_mut();
        pods.find(|pod| sandbox_in(pod, id).is_some())
    }
}

fn sandbox_in<'a>(pod: &'a Pod, id: &str) -> Option<(&'a Pod, &'a Sandbox)> {
    let mut sandboxes = pod.sandboxes.iter();
    let sandbox = sandboxes.find(|sandbox| sandbox.id.as_str() == id)?;
    Some((pod, sandbox))
}

fn container_in<'a>(pod: &'a Pod, id: &str) -> Option<(&'a Pod, &'a Container)> {
    let mut containers = pod.containers.iter();
    let container = containers.find(|container| container.id.as_str() == id)?;
    Some((pod, container))
}
