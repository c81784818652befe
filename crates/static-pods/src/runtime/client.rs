//! The calls that change pods, and the queries that the PLEG does not make.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cri::{ApiVersion, Client, v1};
use pleg::model::id::Id;
use pleg::runtime::grpc::{Endpoint, MAX_MESSAGE_SIZE};
use pleg::runtime::{CallError, Conditions, Rpc, RuntimeVersion};
use prost::Message;

use super::{
    CallFailed, CgroupDriver, ContainerConfig, Image, OwnedContainer, OwnedSandbox, SandboxConfig,
    cgroup, metadata,
};

/// A client of the runtime for calls that change pods.
///
/// Calls have no deadline. The kubelet's is 2 minutes unless a method documents another one.
/// Dropping the future of a call cancels it, but the runtime may still complete it.
#[derive(Debug)]
pub struct RuntimeClient {
    client: Client,
    uses_v1alpha2: AtomicBool,
}

/// How a command in a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEnd {
    /// It exited.
    Exited {
        /// Its exit code.
        code: i32,
        /// What it wrote to standard output.
        stdout: Vec<u8>,
        /// What it wrote to standard error.
        stderr: Vec<u8>,
    },
    /// The runtime killed it after its timeout.
    TimedOut,
}

impl RuntimeClient {
    /// A client of the runtime at `endpoint`. It uses CRI v1 until [`Self::version`] finds that the
    /// runtime only serves v1alpha2. Must be called within a tokio runtime.
    pub fn new(endpoint: &Endpoint) -> Self {
        Self {
            client: Client::acting(endpoint, MAX_MESSAGE_SIZE),
            uses_v1alpha2: AtomicBool::new(false),
        }
    }

    /// Requests the runtime's version, and chooses the version of CRI. Call this first, and again
    /// after the runtime was unreachable, because it may have been replaced.
    pub async fn version(&self) -> Result<RuntimeVersion, CallFailed> {
        let (api, answer) = match self.version_in(ApiVersion::V1).await {
            // If neither is served, the error of v1 is reported.
            Err(error) if matches!(error.why, CallError::Unimplemented(_)) => {
                let answer = self.version_in(ApiVersion::V1Alpha2).await;
                (ApiVersion::V1Alpha2, answer.map_err(|_| error)?)
            }
            answer => (ApiVersion::V1, answer?),
        };
        let is_old = api == ApiVersion::V1Alpha2;
        self.uses_v1alpha2.store(is_old, Ordering::Relaxed);
        Ok(RuntimeVersion {
            name: answer.runtime_name.into(),
            version: answer.runtime_version.trim_start_matches('v').into(),
            api_version: api.as_str().into(),
        })
    }

    /// Whether the runtime and its network are ready. Without the network, only pods on the host's
    /// network can run.
    pub async fn conditions(&self) -> Result<Conditions, CallFailed> {
        Ok(self.status().await?.into())
    }

    /// The runtime's cgroup driver: from `RuntimeConfig` (containerd 2.0, CRI-O 1.28), or else from
    /// the runtime's configuration, or else by whether systemd runs.
    pub async fn cgroup_driver(&self, systemd_runs: bool) -> Result<CgroupDriver, CallFailed> {
        let request = v1::RuntimeConfigRequest {};
        let answer: Result<v1::RuntimeConfigResponse, CallFailed> =
            self.call(Rpc::RuntimeConfig, "the runtime", request).await;
        match answer {
            Err(error) if matches!(error.why, CallError::Unimplemented(_)) => {
                Ok(cgroup::guess_driver(&self.status().await?, systemd_runs))
            }
            answer => Ok(answer?.into()),
        }
    }

    /// Creates and starts a sandbox. The runtime sets up its network, and pulls the pause image if
    /// it is missing. The kubelet's deadline is 4 minutes.
    pub async fn run_sandbox(&self, config: &SandboxConfig) -> Result<Id, CallFailed> {
        let request = v1::RunPodSandboxRequest {
            config: Some(config.0.clone()),
            runtime_handler: String::new(),
        };
        let (call, subject) = (Rpc::RunPodSandbox, config.subject());
        let answer: v1::RunPodSandboxResponse = self.call(call, &subject, request).await?;
        Ok(answer.pod_sandbox_id.into())
    }

    /// Kills the containers of a sandbox and removes its network. Succeeds if the sandbox does not
    /// exist.
    pub async fn stop_sandbox(&self, id: &Id) -> Result<(), CallFailed> {
        let request = v1::StopPodSandboxRequest {
            pod_sandbox_id: id.to_string(),
        };
        let answer = self.call(Rpc::StopPodSandbox, id.as_str(), request).await;
        ignore_not_found(answer.map(|_: v1::StopPodSandboxResponse| ()))
    }

    /// Removes a sandbox with its containers. Succeeds if it does not exist.
    pub async fn remove_sandbox(&self, id: &Id) -> Result<(), CallFailed> {
        let request = v1::RemovePodSandboxRequest {
            pod_sandbox_id: id.to_string(),
        };
        let answer = self.call(Rpc::RemovePodSandbox, id.as_str(), request).await;
        ignore_not_found(answer.map(|_: v1::RemovePodSandboxResponse| ()))
    }

    /// Creates a container without starting it. `config_of_sandbox` is the configuration of its
    /// sandbox, from which containerd takes the cgroup and the log directory.
    pub async fn create_container(
        &self,
        sandbox: &Id,
        config: &ContainerConfig,
        config_of_sandbox: &SandboxConfig,
    ) -> Result<Id, CallFailed> {
        let subject = format!("{} in {}", config.subject(), config_of_sandbox.subject());
        let request = v1::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_string(),
            config: Some(config.0.clone()),
            sandbox_config: Some(config_of_sandbox.0.clone()),
        };
        let call = Rpc::CreateContainer;
        let answer: v1::CreateContainerResponse = self.call(call, &subject, request).await?;
        Ok(answer.container_id.into())
    }

    /// Starts a container that was created.
    pub async fn start_container(&self, id: &Id) -> Result<(), CallFailed> {
        let request = v1::StartContainerRequest {
            container_id: id.to_string(),
        };
        let call = Rpc::StartContainer;
        let _: v1::StartContainerResponse = self.call(call, id.as_str(), request).await?;
        Ok(())
    }

    /// Sends a container its stop signal, and kills it after the grace period. Returns when it has
    /// exited, or if it does not exist. The kubelet's deadline is 2 minutes after the grace period.
    pub async fn stop_container(&self, id: &Id, grace: Duration) -> Result<(), CallFailed> {
        let request = v1::StopContainerRequest {
            container_id: id.to_string(),
            timeout: seconds(grace),
        };
        let answer = self.call(Rpc::StopContainer, id.as_str(), request).await;
        ignore_not_found(answer.map(|_: v1::StopContainerResponse| ()))
    }

    /// Removes a container. Succeeds if it does not exist.
    pub async fn remove_container(&self, id: &Id) -> Result<(), CallFailed> {
        let request = v1::RemoveContainerRequest {
            container_id: id.to_string(),
        };
        let answer = self.call(Rpc::RemoveContainer, id.as_str(), request).await;
        ignore_not_found(answer.map(|_: v1::RemoveContainerResponse| ()))
    }

    /// Runs a command in a container to its end. The runtime kills it after `timeout`, rounded up
    /// to seconds; zero means no timeout. The kubelet's deadline is 2 minutes after the timeout.
    pub async fn exec_sync(
        &self,
        id: &Id,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecEnd, CallFailed> {
        let request = v1::ExecSyncRequest {
            container_id: id.to_string(),
            cmd: command.to_vec(),
            timeout: seconds(timeout),
        };
        let answer = self.call(Rpc::ExecSync, id.as_str(), request).await;
        match answer {
            Err(error) if error.is_deadline() => Ok(ExecEnd::TimedOut),
            answer => {
                let answer: v1::ExecSyncResponse = answer?;
                Ok(ExecEnd::Exited {
                    code: answer.exit_code,
                    stdout: answer.stdout,
                    stderr: answer.stderr,
                })
            }
        }
    }

    /// Makes the runtime reopen a container's log, after the file was renamed.
    pub async fn reopen_log(&self, id: &Id) -> Result<(), CallFailed> {
        let request = v1::ReopenContainerLogRequest {
            container_id: id.to_string(),
        };
        let call = Rpc::ReopenContainerLog;
        let _: v1::ReopenContainerLogResponse = self.call(call, id.as_str(), request).await?;
        Ok(())
    }

    /// The image with this name, if the runtime has it.
    pub async fn image_status(&self, name: &str) -> Result<Option<Image>, CallFailed> {
        let request = v1::ImageStatusRequest {
            image: Some(image(name)),
            verbose: false,
        };
        let answer = self.call(Rpc::ImageStatus, name, request).await;
        match answer {
            Err(error) if error.is_not_found() => Ok(None),
            answer => {
                let answer: v1::ImageStatusResponse = answer?;
                Ok(answer.image.map(Image::from))
            }
        }
    }

    /// Pulls an image for a pod, and returns the runtime's reference to it. As in the kubelet, there
    /// is no deadline: the runtime stops a pull that makes no progress.
    pub async fn pull_image(&self, name: &str, pod: &SandboxConfig) -> Result<String, CallFailed> {
        let request = v1::PullImageRequest {
            image: Some(image(name)),
            sandbox_config: Some(pod.0.clone()),
        };
        let answer: v1::PullImageResponse = self.call(Rpc::PullImage, name, request).await?;
        Ok(answer.image_ref)
    }

    /// The sandboxes of this owner, in any state.
    pub async fn sandboxes(&self, owner: &str) -> Result<Vec<OwnedSandbox>, CallFailed> {
        let filter = v1::PodSandboxFilter {
            label_selector: selector(owner),
            ..Default::default()
        };
        let request = v1::ListPodSandboxRequest {
            filter: Some(filter),
        };
        let call = Rpc::ListPodSandbox;
        let answer: v1::ListPodSandboxResponse = self.call(call, owner, request).await?;
        let rows = answer.items.into_iter();
        Ok(rows
            .filter_map(|row| OwnedSandbox::read(row, owner))
            .collect())
    }

    /// The containers of this owner, in any state.
    pub async fn containers(&self, owner: &str) -> Result<Vec<OwnedContainer>, CallFailed> {
        let filter = v1::ContainerFilter {
            label_selector: selector(owner),
            ..Default::default()
        };
        let request = v1::ListContainersRequest {
            filter: Some(filter),
        };
        let call = Rpc::ListContainers;
        let answer: v1::ListContainersResponse = self.call(call, owner, request).await?;
        let rows = answer.containers.into_iter();
        Ok(rows
            .filter_map(|row| OwnedContainer::read(row, owner))
            .collect())
    }

    async fn status(&self) -> Result<v1::StatusResponse, CallFailed> {
        let request = v1::StatusRequest { verbose: true };
        self.call(Rpc::Status, "the runtime", request).await
    }

    async fn version_in(&self, api: ApiVersion) -> Result<v1::VersionResponse, CallFailed> {
        let request = v1::VersionRequest {
            version: "0.1.0".to_owned(),
        };
        let answer = self.client.unary(api, Rpc::Version, request).await;
        answer.map_err(|status| CallFailed::new(Rpc::Version, "the runtime", status))
    }

    async fn call<Q, A>(&self, call: Rpc, subject: &str, request: Q) -> Result<A, CallFailed>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let api = match self.uses_v1alpha2.load(Ordering::Relaxed) {
            true => ApiVersion::V1Alpha2,
            false => ApiVersion::V1,
        };
        let answer = self.client.unary(api, call, request).await;
        answer.map_err(|status| CallFailed::new(call, subject, status))
    }
}

/// Treats "not found" as a success. Some runtimes refuse to stop or remove what does not exist, but that
/// is the wanted state.
fn ignore_not_found(answer: Result<(), CallFailed>) -> Result<(), CallFailed> {
    match answer {
        Err(error) if error.is_not_found() => Ok(()),
        answer => answer,
    }
}

fn image(name: &str) -> v1::ImageSpec {
    v1::ImageSpec {
        image: super::with_tag(name),
        ..Default::default()
    }
}

fn selector(owner: &str) -> metadata::Map {
    [(metadata::OWNER.to_owned(), owner.to_owned())].into()
}

/// Whole seconds, rounded up, because zero has another meaning.
fn seconds(time: Duration) -> i64 {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    i64::try_from(whole).unwrap_or(i64::MAX)
}
