//! Performing a step: the calls of it, and the work on the host that goes with them.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pleg::model::id::{Id, PodRef};
use pleg::runtime::{CallError, Runtime};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::decide::{Attempt, Outcome, Step};
use crate::logs::LogFolders;
use crate::probe::perform::perform as check;
use crate::probe::{CheckToMake, Finding};
use crate::runtime::{
    CallFailed, ContainerConfig, ContainerStart, Host, Image, PullDecision, RuntimeClient,
    SandboxConfig, decide_pull,
};
use crate::spec::{ContainerSpec, Network, PodSpec, PullPolicy};
use crate::volumes::{PodFolder, VolumeError};

/// A kubelet's `runtimeRequestTimeout`.
const CALL: Duration = Duration::from_secs(2 * 60);

/// The same for a sandbox, whose image may have to be pulled.
const SANDBOX_CALL: Duration = Duration::from_secs(4 * 60);

/// A runtime is left at least this much of a grace period.
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// Where the kernel shows cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Where the host looks up names.
const HOSTS: &str = "/etc/hosts";

/// Does what was decided.
pub trait Perform: Send + Sync + 'static {
    /// Performs a step of a pod. `spec` is its manifest, without which nothing is created; `ip` is
    /// its address, if that was seen. It ends in any case: where the runtime does not answer, with
    /// [`Outcome::Unanswered`].
    fn step(
        &self,
        step: Step,
        pod: PodRef,
        spec: Option<Arc<PodSpec>>,
        ip: Option<IpAddr>,
    ) -> impl Future<Output = Outcome> + Send;

    /// Makes a check of a container of the pod with this address.
    fn check(
        &self,
        to_make: &CheckToMake,
        ip: Option<IpAddr>,
    ) -> impl Future<Output = Finding> + Send;
}

/// Performs steps on a runtime and on this host.
pub struct OnHost<R> {
    /// The calls that change something.
    client: Arc<RuntimeClient>,
    /// The calls that inspect.
    runtime: Arc<R>,
    /// What requests hold beside the pod.
    host: Host,
    /// Where the folders of pods are.
    root: PathBuf,
    /// Where logs are.
    logs: LogFolders,
    /// The images that were found, by reference.
    images: Mutex<BTreeMap<Arc<str>, Image>>,
}

impl<R> OnHost<R> {
    /// By these calls, with what is on this host in these places.
    pub fn new(
        client: Arc<RuntimeClient>,
        runtime: Arc<R>,
        host: Host,
        root: PathBuf,
        logs: LogFolders,
    ) -> Self {
        Self {
            client,
            runtime,
            host,
            root,
            logs,
            images: Mutex::default(),
        }
    }
}

/// Why a step was not done, before or by its call.
enum NotDone {
    Here(String),
    Call(CallFailed),
    Late,
}

impl From<CallFailed> for NotDone {
    fn from(error: CallFailed) -> Self {
        Self::Call(error)
    }
}

impl From<VolumeError> for NotDone {
    fn from(error: VolumeError) -> Self {
        Self::Here(error.to_string())
    }
}

impl From<io::Error> for NotDone {
    fn from(error: io::Error) -> Self {
        Self::Here(error.to_string())
    }
}

impl From<NotDone> for Outcome {
    fn from(why: NotDone) -> Self {
        match why {
            NotDone::Here(why) => Self::Failed(why.into()),
            NotDone::Late => Self::Unanswered,
            NotDone::Call(error) if error.is_not_found() => Self::Gone,
            // The name is taken by a creation whose answer was lost; or the connection was lost, or
            // the runtime gave up, in the middle of it: what was done then has to be seen.
            NotDone::Call(error)
                if error.is_name_taken()
                    || error.is_deadline()
                    || matches!(error.why, CallError::Unavailable(_)) =>
            {
                Self::Unanswered
            }
            NotDone::Call(error) => Self::Failed(error.to_string().into()),
        }
    }
}

impl<R: Runtime> Perform for OnHost<R> {
    async fn step(
        &self,
        step: Step,
        pod: PodRef,
        spec: Option<Arc<PodSpec>>,
        ip: Option<IpAddr>,
    ) -> Outcome {
        let done = match step {
            Step::StopSandbox { id } => in_time(CALL, self.client.stop_sandbox(&id)).await,
            Step::RemoveSandbox { id } => in_time(CALL, self.client.remove_sandbox(&id)).await,
            Step::StartContainer {
                container,
                id,
                attempt,
            } => self.start(&pod, &container, id, attempt).await,
            Step::KillContainer {
                id,
                grace,
                pre_stop,
                ..
            } => self.kill(&id, grace, pre_stop).await,
            Step::RemoveContainer {
                container,
                id,
                attempt,
            } => self.remove(&pod, container, id, attempt).await,
            Step::RemoveVolumes => self.remove_volumes(&pod).await,
            creation => {
                return match spec {
                    Some(spec) => self.create(creation, spec, ip).await,
                    None => Outcome::Failed("there is no manifest of the pod".into()),
                };
            }
        };
        done.map_or_else(Outcome::from, |()| Outcome::Done)
    }

    async fn check(&self, to_make: &CheckToMake, ip: Option<IpAddr>) -> Finding {
        check(to_make, ip.or(self.host.node_ip), &*self.client).await
    }
}

impl<R: Runtime> OnHost<R> {
    /// A step that needs the manifest.
    async fn create(&self, step: Step, spec: Arc<PodSpec>, ip: Option<IpAddr>) -> Outcome {
        let done = match step {
            Step::CreateSandbox { attempt } => {
                let created = self.create_sandbox(spec, attempt).await;
                created.map(Outcome::Created)
            }
            Step::EnsureImage {
                container,
                image,
                policy,
            } => {
                let pulled = self.pull(&spec, &container, &image, policy).await;
                pulled.map(Outcome::Pulled)
            }
            Step::CreateContainer {
                container,
                attempt,
                sandbox,
                sandbox_attempt,
                image,
            } => {
                let config = SandboxConfig::new(&spec, &self.host, sandbox_attempt);
                let sandbox = (&sandbox, &config);
                let created = self
                    .create_container(spec.clone(), &container, attempt, sandbox, &image, ip)
                    .await;
                created.map(Outcome::Created)
            }
            other => Err(NotDone::Here(format!("{} creates nothing", other.action()))),
        };
        match done {
            Ok(outcome) => outcome,
            // That a sandbox or an image does not exist refuses a creation; it undoes none.
            Err(NotDone::Call(error)) if error.is_not_found() => {
                Outcome::Failed(error.to_string().into())
            }
            Err(why) => why.into(),
        }
    }

    async fn create_sandbox(&self, spec: Arc<PodSpec>, attempt: Attempt) -> Result<Id, NotDone> {
        let config = SandboxConfig::new(&spec, &self.host, attempt.number());
        let (folder, logs) = (self.folder(&spec.pod)?, self.logs.clone());
        let owner = self.host.owner.clone();
        blocking(move || {
            folder.note(&owner, &spec)?;
            folder.set_up(&spec)?;
            for container in &spec.containers {
                logs.make(&spec.pod, &container.name)?;
            }
            Ok(())
        })
        .await?;
        in_time(SANDBOX_CALL, self.client.run_sandbox(&config)).await
    }

    /// The runtime has the image when this ends well. A pull takes as long as it takes: the runtime
    /// itself gives up when nothing comes.
    async fn pull(
        &self,
        spec: &PodSpec,
        container: &str,
        image: &str,
        policy: PullPolicy,
    ) -> Result<Arc<str>, NotDone> {
        let present = in_time(CALL, self.client.image_status(image)).await?;
        let found = match (decide_pull(policy, present.is_some()), present) {
            (PullDecision::Present, Some(image)) => image,
            (PullDecision::NeverPull, _) | (PullDecision::Present, None) => {
                let why = format!(
                    "image {image} of container {container} is not present with pull policy Never"
                );
                return Err(NotDone::Here(why));
            }
            (PullDecision::Pull, _) => {
                let config = SandboxConfig::new(spec, &self.host, 0);
                self.client.pull_image(image, &config).await?;
                let pulled = in_time(CALL, self.client.image_status(image)).await?;
                let lost = || NotDone::Here(format!("image {image} is gone after its pull"));
                pulled.ok_or_else(lost)?
            }
        };
        let reference: Arc<str> = found.reference.as_str().into();
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        images.insert(reference.clone(), found);
        Ok(reference)
    }

    async fn create_container(
        &self,
        spec: Arc<PodSpec>,
        name: &str,
        attempt: Attempt,
        (sandbox, config): (&Id, &SandboxConfig),
        image: &str,
        seen: Option<IpAddr>,
    ) -> Result<Id, NotDone> {
        let unknown = || NotDone::Here(format!("the manifest has no container {name}"));
        let container = spec.container(name).ok_or_else(unknown)?.clone();
        let image = {
            let images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
            images.get(image).cloned()
        };
        let image = image.ok_or_else(|| NotDone::Here("the image was not looked for".into()))?;
        if let Err(refused) = image.check_user(&container.security) {
            return Err(NotDone::Here(refused.to_string()));
        }
        let ip = match (&spec.network, seen) {
            (Network::Host, _) => self.host.node_ip,
            (Network::Pod { .. }, Some(ip)) => Some(ip),
            (Network::Pod { .. }, None) => self.address(sandbox).await?,
        };
        let mounts = self.mounts(spec.clone(), container.clone(), ip).await?;
        let start = ContainerStart {
            pod: &spec,
            container: &container,
            attempt: attempt.number(),
            image: &image,
            pod_ip: ip,
            mounts: &mounts,
        };
        let its = ContainerConfig::new(start, &self.host);
        in_time(CALL, self.client.create_container(sandbox, &its, config)).await
    }

    /// The address of a sandbox that the PLEG has not seen yet.
    async fn address(&self, sandbox: &Id) -> Result<Option<IpAddr>, NotDone> {
        let asked = timeout(CALL, self.runtime.sandbox_status(sandbox)).await;
        let status = asked.map_err(|_| NotDone::Late)?;
        let status = status.map_err(|error| NotDone::Here(error.to_string()))?;
        Ok(status.ips.first().copied())
    }

    async fn mounts(
        &self,
        spec: Arc<PodSpec>,
        container: ContainerSpec,
        ip: Option<IpAddr>,
    ) -> Result<Vec<crate::volumes::BindMount>, NotDone> {
        let (folder, logs) = (self.folder(&spec.pod)?, self.logs.clone());
        blocking(move || {
            // An earlier run may have ended in between, and somebody have cleaned up since.
            logs.make(&spec.pod, &container.name)?;
            Ok(folder.container_mounts(&spec, &container, ip, Path::new(HOSTS))?)
        })
        .await
    }

    async fn start(
        &self,
        pod: &PodRef,
        container: &Arc<str>,
        id: Id,
        attempt: u32,
    ) -> Result<(), NotDone> {
        in_time(CALL, self.client.start_container(&id)).await?;
        let (logs, pod, name) = (self.logs.clone(), pod.clone(), container.clone());
        let linked = blocking(move || Ok(logs.link(&pod, &name, attempt, &id)?)).await;
        if let Err(NotDone::Here(error)) = linked {
            tracing::warn!(container = &**container, error, "cannot link the log");
        }
        Ok(())
    }

    /// The command that runs before counts as a part of the grace period, as with a kubelet.
    async fn kill(
        &self,
        id: &Id,
        grace: Duration,
        pre_stop: Option<Vec<String>>,
    ) -> Result<(), NotDone> {
        let began = Instant::now();
        if let Some(command) = pre_stop {
            let ran = timeout(grace, self.client.exec_sync(id, &command, grace)).await;
            if let Ok(Err(error)) = ran {
                tracing::warn!(%id, %error, "PreStop hook failed");
            }
        }
        let left = grace.saturating_sub(began.elapsed()).max(LEAST_GRACE);
        in_time(CALL + left, self.client.stop_container(id, left)).await
    }

    async fn remove(
        &self,
        pod: &PodRef,
        container: Arc<str>,
        id: Id,
        attempt: u32,
    ) -> Result<(), NotDone> {
        in_time(CALL, self.client.remove_container(&id)).await?;
        let (logs, pod) = (self.logs.clone(), pod.clone());
        let removed = blocking(move || Ok(logs.remove_container(&pod, &container, attempt, &id)?));
        if let Err(NotDone::Here(error)) = removed.await {
            tracing::warn!(error, "cannot remove the logs of a container");
        }
        Ok(())
    }

    async fn remove_volumes(&self, pod: &PodRef) -> Result<(), NotDone> {
        let folder = self.folder(pod)?;
        let (logs, pod, cgroups) = (self.logs.clone(), pod.clone(), self.host.cgroups);
        blocking(move || {
            folder.remove()?;
            logs.remove_pod(&pod)?;
            cgroups.remove(Path::new(CGROUPS), &pod.uid)?;
            Ok(folder.forget()?)
        })
        .await
    }

    fn folder(&self, pod: &PodRef) -> Result<PodFolder, NotDone> {
        Ok(PodFolder::new(&self.root, &pod.uid)?)
    }
}

async fn in_time<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, CallFailed>>,
) -> Result<T, NotDone> {
    match timeout(limit, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(NotDone::Late),
    }
}

/// File work may block, on a disk that is gone for ever.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NotDone> + Send + 'static,
) -> Result<T, NotDone> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
