//! Performing a step: the calls of it, and the work on the host that goes with them.

mod create;
mod turns;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pleg::model::id::{Id, PodRef};
use pleg::runtime::{CallError, Runtime};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::decide::{Outcome, Step};
use crate::logs::LogFolders;
use crate::probe::perform::perform as check;
use crate::probe::{CheckToMake, Finding};
use crate::runtime::{CallFailed, Host, Image, RuntimeClient};
use crate::spec::PodSpec;
use crate::volumes::{PodFolder, VolumeError};
use turns::Turns;

/// A kubelet's `runtimeRequestTimeout`.
const CALL: Duration = Duration::from_secs(2 * 60);

/// A runtime is left at least this much of a grace period.
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// Where the kernel shows cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";

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
    turns: Turns,
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
            turns: Turns::new(),
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
            NotDone::Late => Self::Unanswered("the runtime has not answered".into()),
            NotDone::Call(error) if error.is_not_found() => Self::Gone,
            // The name is taken by a creation whose answer was lost; or the connection was lost, or
            // the runtime gave up, in the middle of it: what was done then has to be seen.
            NotDone::Call(error)
                if error.is_name_taken()
                    || error.is_deadline()
                    || matches!(error.why, CallError::Unavailable(_)) =>
            {
                Self::Unanswered(error.to_string().into())
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
        self.turns
            .perform(|| self.perform(step, pod, spec, ip))
            .await
    }

    async fn check(&self, to_make: &CheckToMake, ip: Option<IpAddr>) -> Finding {
        let ip = ip.or_else(|| self.host.node_ip());
        check(to_make, ip, &*self.client).await
    }
}

impl<R: Runtime> OnHost<R> {
    async fn perform(
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
            cgroups.check_empty(Path::new(CGROUPS), &pod.uid)?;
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
