//! The steps that create something, on the host and in the runtime. They need the pod's
//! specification.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use pleg::model::id::Id;
use pleg::runtime::Runtime;
use tokio::time::{Instant, sleep, timeout};

use super::{CALL_TIMEOUT, CGROUPS, NotDone, OnHost, blocking, with_timeout};
use crate::decide::{Attempt, Outcome, Step};
use crate::runtime::{ContainerConfig, ContainerStart, Image, SandboxConfig};
use crate::spec::{ContainerSpec, Network, PodSpec, PullPolicy};
use crate::volumes::BindMount;

/// How long the creation of a sandbox may take, including the pull of its image, as in the kubelet.
const CREATE_SANDBOX_TIMEOUT: Duration = Duration::from_secs(4 * 60);

/// How long the last processes of an exited container may take to exit.
const PROCESS_EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The host's own `hosts` file.
const HOSTS: &str = "/etc/hosts";

impl<R: Runtime> OnHost<R> {
    /// Performs a step that creates something.
    pub(super) async fn create(
        &self,
        step: Step,
        spec: Arc<PodSpec>,
        ip: Option<IpAddr>,
    ) -> Outcome {
        let done = match step {
            Step::CreateSandbox { attempt } => self
                .create_sandbox(spec, attempt)
                .await
                .map(Outcome::Created),
            Step::EnsureImage {
                container,
                image,
                policy,
            } => self
                .pull(&spec, &container, &image, policy)
                .await
                .map(Outcome::Pulled),
            Step::CreateContainer {
                container,
                attempt,
                sandbox,
                sandbox_attempt,
                image,
                after,
            } => {
                if let Some(after) = after
                    && let Err(still_running) = self.check_ended(&spec, after).await
                {
                    return still_running.into();
                }
                let config = SandboxConfig::new(&spec, &self.host, sandbox_attempt);
                let sandbox = (&sandbox, &config);
                self.create_container(spec.clone(), &container, attempt, sandbox, &image, ip)
                    .await
                    .map(Outcome::Created)
            }
            other => Err(NotDone::Host(format!("{} creates nothing", other.action()))),
        };
        match done {
            Ok(outcome) => outcome,
            // Here, NotFound means that the sandbox or the image does not exist, so nothing was
            // created.
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
        with_timeout(CREATE_SANDBOX_TIMEOUT, self.client.run_sandbox(&config)).await
    }

    /// Pulls an image if the policy requires it, and returns the runtime's reference to it. A pull has
    /// no deadline here: the runtime stops it when there is no progress.
    async fn pull(
        &self,
        spec: &PodSpec,
        container: &str,
        image: &str,
        policy: PullPolicy,
    ) -> Result<Arc<str>, NotDone> {
        let present = with_timeout(CALL_TIMEOUT, self.client.image_status(image)).await?;
        let (found, missing) = if policy.needs_pull(present.is_some()) {
            let config = SandboxConfig::new(spec, &self.host, 0);
            self.client.pull_image(image, &config).await?;
            let pulled = with_timeout(CALL_TIMEOUT, self.client.image_status(image)).await?;
            (pulled, format!("image {image} is missing after its pull"))
        } else {
            let missing = format!(
                "image {image} of container {container} is not present with pull policy Never"
            );
            (present, missing)
        };
        let found = found.ok_or(NotDone::Host(missing))?;
        let reference: Arc<str> = found.reference.as_str().into();
        self.images().insert(reference.clone(), found);
        Ok(reference)
    }

    fn images(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Image>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn create_container(
        &self,
        spec: Arc<PodSpec>,
        name: &str,
        attempt: Attempt,
        (sandbox, config): (&Id, &SandboxConfig),
        image: &str,
        pod_ip: Option<IpAddr>,
    ) -> Result<Id, NotDone> {
        let unknown = || NotDone::Host(format!("the manifest has no container {name}"));
        let container = spec.container(name).ok_or_else(unknown)?.clone();
        let image = self.images().get(image).cloned();
        let image = image.ok_or_else(|| NotDone::Host("the image was not checked".into()))?;
        let allowed = image.check_user(&container.security);
        allowed.map_err(NotDone::Host)?;
        let ip = match (&spec.network, pod_ip) {
            (Network::Host, _) => self.host.node_ip(),
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
        let container_config = ContainerConfig::new(start, &self.host);
        with_timeout(
            CALL_TIMEOUT,
            self.client
                .create_container(sandbox, &container_config, config),
        )
        .await
    }

    /// Checks that a container that has exited according to the runtime has no process left, because
    /// two copies must not run. The last processes may need a moment to exit.
    async fn check_ended(&self, spec: &PodSpec, id: Id) -> Result<(), NotDone> {
        let start = Instant::now();
        loop {
            let (cgroups, uid, id) = (self.host.cgroups, spec.pod.uid.clone(), id.clone());
            let check = move || Ok(cgroups.check_ended(Path::new(CGROUPS), &uid, &id)?);
            match blocking(check).await {
                Err(_) if start.elapsed() < PROCESS_EXIT_TIMEOUT => {
                    sleep(PROCESS_EXIT_TIMEOUT / 10).await;
                }
                ended => return ended,
            }
        }
    }

    /// The address of a sandbox that the PLEG has not observed yet.
    async fn address(&self, sandbox: &Id) -> Result<Option<IpAddr>, NotDone> {
        let status = timeout(CALL_TIMEOUT, self.runtime.sandbox_status(sandbox)).await;
        let status = status.map_err(|_| NotDone::Timeout)?;
        let status = status.map_err(|error| NotDone::Host(error.to_string()))?;
        Ok(status.ips.first().copied())
    }

    async fn mounts(
        &self,
        spec: Arc<PodSpec>,
        container: ContainerSpec,
        ip: Option<IpAddr>,
    ) -> Result<Vec<BindMount>, NotDone> {
        let (folder, logs) = (self.folder(&spec.pod)?, self.logs.clone());
        blocking(move || {
            // If an earlier run created the sandbox, the log directory may have been removed since.
            logs.make(&spec.pod, &container.name)?;
            Ok(folder.container_mounts(&spec, &container, ip, Path::new(HOSTS))?)
        })
        .await
    }
}
