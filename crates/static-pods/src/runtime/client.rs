//! The calls that change pods, and the few questions that the PLEG does not ask.

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

/// The runtime, for those who change pods. Clones are not needed: all calls take `&self`.
///
/// No call has a deadline of its own. The kubelet's is 2 minutes unless a method says otherwise;
/// dropping a call's future cancels it, though what the runtime does by then may be done anyway.
#[derive(Debug)]
pub struct RuntimeClient {
    client: Client,
    speaks_only_v1alpha2: AtomicBool,
}

/// How a command in a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEnd {
    /// By itself.
    Exited {
        /// Its exit code.
        code: i32,
        /// What it wrote to standard output.
        stdout: Vec<u8>,
        /// What it wrote to standard error.
        stderr: Vec<u8>,
    },
    /// The runtime killed it when its time was over.
    TimedOut,
}

impl RuntimeClient {
    /// A client of the runtime at `endpoint`, spoken to in v1 until [`Self::version`] finds that
    /// it does not know it.
    ///
    /// Must be called within a tokio runtime.
    pub fn new(endpoint: &Endpoint) -> Self {
        Self {
            client: Client::new(endpoint, MAX_MESSAGE_SIZE),
            speaks_only_v1alpha2: AtomicBool::new(false),
        }
    }

    /// Asks who answers, and settles in which version of CRI. To be called first, and again after
    /// the runtime was away: it may be another one then.
    pub async fn version(&self) -> Result<RuntimeVersion, CallFailed> {
        let (api, answer) = match self.version_in(ApiVersion::V1).await {
            Err(error) if matches!(error.why, CallError::Unimplemented(_)) => {
                let api = ApiVersion::V1Alpha2;
                let answer = self.version_in(api).await;
                // Neither is served: what v1 said is what a person wants to read.
                (api, answer.map_err(|_| error)?)
            }
            answer => (ApiVersion::V1, answer?),
        };
        let is_old = api == ApiVersion::V1Alpha2;
        self.speaks_only_v1alpha2.store(is_old, Ordering::Relaxed);
        Ok(RuntimeVersion {
            name: answer.runtime_name.into(),
            version: answer.runtime_version.trim_start_matches('v').into(),
            api_version: api.as_str().into(),
        })
    }

    /// Whether the runtime and its network are ready: without the latter, only pods on the host's
    /// network can be run.
    pub async fn conditions(&self) -> Result<Conditions, CallFailed> {
        Ok(self.status().await?.into())
    }

    /// Who makes the runtime's cgroups: asked by `RuntimeConfig` (containerd 2.0, CRI-O 1.28), or
    /// else taken from the runtime's configuration, or from whether systemd runs.
    pub async fn cgroup_driver(&self, systemd_runs: bool) -> Result<CgroupDriver, CallFailed> {
        let request = v1::RuntimeConfigRequest {};
        let asked = self.call(Rpc::RuntimeConfig, "the runtime", request).await;
        let answer: Result<v1::RuntimeConfigResponse, CallFailed> = asked;
        match answer {
            Err(error) if matches!(error.why, CallError::Unimplemented(_)) => {
                Ok(cgroup::guessed(&self.status().await?, systemd_runs))
            }
            answer => Ok(answer?.into()),
        }
    }

    /// Makes a sandbox and starts it: the network is set up, the pause image pulled if need be.
    /// The kubelet waits 4 minutes.
    pub async fn run_sandbox(&self, config: &SandboxConfig) -> Result<Id, CallFailed> {
        let request = v1::RunPodSandboxRequest {
            config: Some(config.0.clone()),
            runtime_handler: String::new(),
        };
        let (call, subject) = (Rpc::RunPodSandbox, config.subject());
        let answer: v1::RunPodSandboxResponse = self.call(call, &subject, request).await?;
        Ok(answer.pod_sandbox_id.into())
    }

    /// Kills what runs in a sandbox and takes down its network. One that is gone has been.
    pub async fn stop_sandbox(&self, id: &Id) -> Result<(), CallFailed> {
        let request = v1::StopPodSandboxRequest {
            pod_sandbox_id: id.to_string(),
        };
        let answer = self.call(Rpc::StopPodSandbox, id.as_str(), request).await;
        gone_is_well(answer.map(|_: v1::StopPodSandboxResponse| ()))
    }

    /// Removes a sandbox with its containers. One that is gone has been.
    pub async fn remove_sandbox(&self, id: &Id) -> Result<(), CallFailed> {
        let request = v1::RemovePodSandboxRequest {
            pod_sandbox_id: id.to_string(),
        };
        let answer = self.call(Rpc::RemovePodSandbox, id.as_str(), request).await;
        gone_is_well(answer.map(|_: v1::RemovePodSandboxResponse| ()))
    }

    /// Makes a container, which does not run yet. `config_of_sandbox` is what its sandbox was
    /// made by: containerd takes the cgroup and the place of the log from there.
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

    /// Starts a container that was made.
    pub async fn start_container(&self, id: &Id) -> Result<(), CallFailed> {
        let request = v1::StartContainerRequest {
            container_id: id.to_string(),
        };
        let call = Rpc::StartContainer;
        let _: v1::StartContainerResponse = self.call(call, id.as_str(), request).await?;
        Ok(())
    }

    /// Asks a container to end, and kills it after the grace period; returns when it has ended.
    /// One that is gone has. The kubelet waits 2 minutes longer than the grace period.
    pub async fn stop_container(&self, id: &Id, grace: Duration) -> Result<(), CallFailed> {
        let request = v1::StopContainerRequest {
            container_id: id.to_string(),
            timeout: seconds(grace),
        };
        let answer = self.call(Rpc::StopContainer, id.as_str(), request).await;
        gone_is_well(answer.map(|_: v1::StopContainerResponse| ()))
    }

    /// Removes a container. One that is gone has been.
    pub async fn remove_container(&self, id: &Id) -> Result<(), CallFailed> {
        let request = v1::RemoveContainerRequest {
            container_id: id.to_string(),
        };
        let answer = self.call(Rpc::RemoveContainer, id.as_str(), request).await;
        gone_is_well(answer.map(|_: v1::RemoveContainerResponse| ()))
    }

    /// Runs a command in a container to its end. The runtime kills it after `timeout`, which it
    /// counts in whole seconds; zero is no timeout. The kubelet waits 2 minutes longer than that.
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

    /// Lets the runtime open a container's log anew, after the file was renamed.
    pub async fn reopen_log(&self, id: &Id) -> Result<(), CallFailed> {
        let request = v1::ReopenContainerLogRequest {
            container_id: id.to_string(),
        };
        let call = Rpc::ReopenContainerLog;
        let _: v1::ReopenContainerLogResponse = self.call(call, id.as_str(), request).await?;
        Ok(())
    }

    /// The image of that name, if the runtime has it.
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

    /// Pulls an image for a pod, and gives what the runtime calls it. The kubelet waits as long
    /// as it takes; the runtime itself gives up when nothing comes.
    pub async fn pull_image(&self, name: &str, pod: &SandboxConfig) -> Result<String, CallFailed> {
        let request = v1::PullImageRequest {
            image: Some(image(name)),
            sandbox_config: Some(pod.0.clone()),
        };
        let answer: v1::PullImageResponse = self.call(Rpc::PullImage, name, request).await?;
        Ok(answer.image_ref)
    }

    /// The sandboxes of that owner, whatever their state.
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

    /// The containers of that owner, whatever their state.
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
        let api = match self.speaks_only_v1alpha2.load(Ordering::Relaxed) {
            true => ApiVersion::V1Alpha2,
            false => ApiVersion::V1,
        };
        let answer = self.client.unary(api, call, request).await;
        answer.map_err(|status| CallFailed::new(call, subject, status))
    }
}

/// Some runtimes refuse to end what is gone already; that it is gone is what was wanted.
fn gone_is_well(answer: Result<(), CallFailed>) -> Result<(), CallFailed> {
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

/// Whole seconds, and never fewer than were given: zero means something else.
fn seconds(time: Duration) -> i64 {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    i64::try_from(whole).unwrap_or(i64::MAX)
}
