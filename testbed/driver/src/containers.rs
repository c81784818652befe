//! Creates, starts, stops, kills and removes a container.

use cri::Rpc;
use cri::v1::{
    ContainerState, CreateContainerRequest, CreateContainerResponse, PodSandboxMetadata,
    RemoveContainerRequest, RemoveContainerResponse, StartContainerRequest, StartContainerResponse,
    StopContainerRequest, StopContainerResponse,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::kubelet;
use crate::spec::{Container, ContainerSpec, Pod};

impl Driver {
    /// Creates a container in `pod` without starting it. Returns its id.
    pub async fn create_container(&self, pod: &Pod, spec: &ContainerSpec) -> Result<String> {
        let metadata = metadata(pod);
        let request = CreateContainerRequest {
            pod_sandbox_id: pod.sandbox_id.clone(),
            config: Some(kubelet::container_config(&metadata, spec)),
            // containerd reads the cgroup from here, not from the sandbox.
            sandbox_config: Some(kubelet::sandbox_config(
                metadata,
                spec.network,
                self.cgroup(&pod.uid),
            )),
        };
        let about = format!("{} in the pod {:?}", spec.name, pod.name);
        let answer: CreateContainerResponse =
            self.call(Rpc::CreateContainer, &about, request).await?;
        Ok(answer.container_id)
    }

    /// Starts a created container.
    pub async fn start_container(&self, id: &str) -> Result<()> {
        let container_id = id.to_owned();
        let request = StartContainerRequest { container_id };
        let _: StartContainerResponse = self.call(Rpc::StartContainer, id, request).await?;
        Ok(())
    }

    /// Creates and starts a container.
    pub async fn run_container(&self, pod: &Pod, spec: &ContainerSpec) -> Result<Container> {
        let id = self.create_container(pod, spec).await?;
        self.start_container(&id).await?;
        Ok(Container {
            name: spec.name.clone(),
            id,
            attempt: spec.attempt,
            state: ContainerState::ContainerRunning,
        })
    }

    /// Starts the next attempt of a container of a listed pod. The current one is stopped if it runs.
    pub async fn restart_container(&self, pod: &Pod, container: &str) -> Result<Container> {
        let last = pod.newest(container)?;
        let verbose = self.verbose_status(&last.id).await?;
        if last.state == ContainerState::ContainerRunning {
            self.stop_container(&last.id).await?;
        }
        let next = ContainerSpec {
            name: last.name.clone(),
            command: verbose.command,
            attempt: last.attempt + 1,
            network: verbose.network,
        };
        self.run_container(pod, &next).await
    }

    /// Stops a container without a grace period: a process with PID 1 ignores a SIGTERM that it does not
    /// handle, so waiting is useless.
    pub async fn stop_container(&self, id: &str) -> Result<()> {
        let request = StopContainerRequest {
            container_id: id.to_owned(),
            timeout: 0,
        };
        let _: StopContainerResponse = self.call(Rpc::StopContainer, id, request).await?;
        Ok(())
    }

    /// Removes a container.
    pub async fn remove_container(&self, id: &str) -> Result<()> {
        let container_id = id.to_owned();
        let request = RemoveContainerRequest { container_id };
        let _: RemoveContainerResponse = self.call(Rpc::RemoveContainer, id, request).await?;
        Ok(())
    }

    /// Kills the init process of a container without the runtime. To kill it at an exact time, call
    /// [`Driver::pid`] before, and [`Driver::kill`] at that time.
    pub async fn kill_container(&self, id: &str) -> Result<()> {
        self.kill(id, self.pid(id).await?)
    }

    /// The init process of a running container.
    pub async fn pid(&self, id: &str) -> Result<Pid> {
        let verbose = self.verbose_status(id).await?;
        verbose.pid.ok_or_else(|| Error::NotRunning(id.to_owned()))
    }

    /// Sends SIGKILL to `pid`, the init process of the container `id`. Does not call the runtime.
    pub fn kill(&self, id: &str, pid: Pid) -> Result<()> {
        kill_process(pid, Signal::KILL).map_err(|errno| Error::Kill {
            id: id.to_owned(),
            pid: pid.as_raw_nonzero().get(),
            source: errno.into(),
        })
    }
}

pub(crate) fn metadata(pod: &Pod) -> PodSandboxMetadata {
    PodSandboxMetadata {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        attempt: pod.attempt,
    }
}
