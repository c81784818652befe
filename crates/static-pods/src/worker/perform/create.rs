//! The steps that need the manifest: what a pod is made of, on the host and in the runtime.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pleg::model::id::Id;
use pleg::runtime::Runtime;
use tokio::time::{Instant, sleep, timeout};

use super::{CALL, CGROUPS, NotDone, OnHost, blocking, in_time};
use crate::decide::{Attempt, Outcome, Step};
use crate::runtime::{ContainerConfig, ContainerStart, PullDecision, SandboxConfig, decide_pull};
use crate::spec::{ContainerSpec, Network, PodSpec, PullPolicy};
use crate::volumes::BindMount;

/// How long a sandbox is waited for, whose image may have to be pulled: a kubelet's.
const SANDBOX_CALL: Duration = Duration::from_secs(4 * 60);

/// What a container leaves behind when it exits is killed within this time.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Where the host looks up names.
const HOSTS: &str = "/etc/hosts";

impl<R: Runtime> OnHost<R> {
    /// A step that needs the manifest.
    pub(super) async fn create(
        &self,
        step: Step,
        spec: Arc<PodSpec>,
        ip: Option<IpAddr>,
    ) -> Outcome {
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
                after,
            } => {
                if let Some(after) = after
                    && let Err(lives) = self.check_ended(&spec, after).await
                {
                    return lives.into();
                }
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
        let its = ContainerConfig::new(start, &self.host);
        in_time(CALL, self.client.create_container(sandbox, &its, config)).await
    }

    /// The runtime says that it has exited; two copies must not run. What it leaves behind ends in
    /// a moment.
    async fn check_ended(&self, spec: &PodSpec, id: Id) -> Result<(), NotDone> {
        let began = Instant::now();
        loop {
            let (cgroups, uid, id) = (self.host.cgroups, spec.pod.uid.clone(), id.clone());
            let check = move || Ok(cgroups.check_ended(Path::new(CGROUPS), &uid, &id)?);
            match blocking(check).await {
                Err(_) if began.elapsed() < ENDS_WITHIN => sleep(ENDS_WITHIN / 10).await,
                ended => return ended,
            }
        }
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
    ) -> Result<Vec<BindMount>, NotDone> {
        let (folder, logs) = (self.folder(&spec.pod)?, self.logs.clone());
        blocking(move || {
            // An earlier run may have ended in between, and somebody have cleaned up since.
            logs.make(&spec.pod, &container.name)?;
            Ok(folder.container_mounts(&spec, &container, ip, Path::new(HOSTS))?)
        })
        .await
    }
}
