//! Finds objects by their ids. Most ids contain the name of their pod, which is searched first.

use pleg::model::id::Id;
use pleg::model::wall_time::WallTime;

use crate::faults::StatusOf;
use crate::world::{Container, Pod, Sandbox, World};

impl World {
    /// The sandbox with this id.
    pub fn sandbox_by_id(&self, id: &str) -> Option<(&Pod, &Sandbox)> {
        let of = |pod| sandbox_in(pod, id);
        let near = id.rsplit_once('.').and_then(|(pod, _)| self.pods.get(pod));
        near.and_then(of)
            .or_else(|| self.pods.values().find_map(of))
    }

    /// The container with this id.
    pub fn container_by_id(&self, id: &str) -> Option<(&Pod, &Container)> {
        let of = |pod| container_in(pod, id);
        let near = id.rsplit_once('/').and_then(|(pod, _)| self.pods.get(pod));
        near.and_then(of)
            .or_else(|| self.pods.values().find_map(of))
    }

    /// The sandbox that the answer to a status call describes: the one with this id, or the next
    /// one.
    pub(crate) fn sandbox_for(&self, id: &Id, of: StatusOf) -> Option<(&Pod, &Sandbox)> {
        if of == StatusOf::Requested {
            return self.sandbox_by_id(id.as_str());
        }
        let next = self.sandboxes().skip_while(|(_, it)| it.id != *id);
        let mut others = next.chain(self.sandboxes());
        others.find(|(_, it)| it.id != *id)
    }

    /// The container that the answer to a status call describes: the one with this id, or the next one.
    pub(crate) fn container_for(&self, id: &Id, of: StatusOf) -> Option<(&Pod, &Container)> {
        if of == StatusOf::Requested {
            return self.container_by_id(id.as_str());
        }
        let next = self.containers().skip_while(|(_, it)| it.id != *id);
        let mut others = next.chain(self.containers());
        others.find(|(_, it)| it.id != *id)
    }

    /// The container with this id, for changing it.
    pub fn container_by_id_mut(&mut self, id: &str) -> Option<&mut Container> {
        let mut containers = self.pods.values_mut().flat_map(|pod| &mut pod.containers);
        containers.find(|container| container.id.as_str() == id)
    }

    /// Stops a sandbox, and kills its running containers.
    pub fn stop_sandbox(&mut self, id: &str, now: WallTime) {
        if let Some(pod) = self.pod_of_sandbox(id) {
            pod.stop_sandboxes(|sandbox| sandbox.as_str() == id, now);
        }
    }

    /// Removes a sandbox with its containers, and its pod if nothing else is left of it.
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

    /// The pod of a sandbox.
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
