//! Performs steps: the calls to the runtime, and the work on the host.

mod create;
mod step_limit;

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

use crate::decide::{MIN_GRACE_PERIOD, Outcome, Step};
use crate::logs::LogFolders;
use crate::probe::perform::perform as check;
use crate::probe::{CheckResult, DueCheck};
use crate::runtime::{CallFailed, Host, Image, RuntimeClient};
use crate::spec::PodSpec;
use crate::volumes::{PodFolder, VolumeError};
use step_limit::StepLimit;

/// How long a call may take: the kubelet's `runtimeRequestTimeout`.
const CALL_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// Where cgroups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Performs steps and checks.
pub trait Perform: Send + Sync + 'static {
    /// Performs a step of a pod. Without `spec`, the pod's specification, nothing is created. `ip`
    /// is the pod's address, if it is known. Returns [`Outcome::AnswerLost`] if the runtime does not
    /// answer a call in time.
    fn step(
        &self,
        step: Step,
        pod: PodRef,
        spec: Option<Arc<PodSpec>>,
        ip: Option<IpAddr>,
    ) -> impl Future<Output = Outcome> + Send;

    /// Performs a check of a container. `ip` is the address of its pod, if it is known.
    fn check(&self, due: &DueCheck, ip: Option<IpAddr>)
    -> impl Future<Output = CheckResult> + Send;
}

/// Performs steps on a runtime and on this host.
pub struct OnHost<R> {
    /// The client for calls that change pods.
    client: Arc<RuntimeClient>,
    /// The runtime, for inspections.
    runtime: Arc<R>,
    /// The data of the node that requests contain.
    host: Host,
    /// The directory of the pods' volumes.
    root: PathBuf,
    /// The directories of the logs.
    logs: LogFolders,
    /// The images that were found in the runtime, by reference.
    images: Mutex<BTreeMap<Arc<str>, Image>>,
    step_limit: StepLimit,
}

impl<R> OnHost<R> {
    /// `root` is the directory of the pods' volumes.
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
            step_limit: StepLimit::new(),
        }
    }
}

/// Why a step was not done: an error on this host, a failed call, or a call that timed out.
enum NotDone {
    Host(String),
    Call(CallFailed),
    Timeout,
}

impl From<CallFailed> for NotDone {
    fn from(error: CallFailed) -> Self {
        Self::Call(error)
    }
}

impl From<VolumeError> for NotDone {
    fn from(error: VolumeError) -> Self {
        Self::Host(error.to_string())
    }
}

impl From<io::Error> for NotDone {
    fn from(error: io::Error) -> Self {
        Self::Host(error.to_string())
    }
}

impl From<NotDone> for Outcome {
    fn from(why: NotDone) -> Self {
        match why {
            NotDone::Host(why) => Self::Failed(why.into()),
            NotDone::Timeout => Self::AnswerLost("the runtime has not answered".into()),
            NotDone::Call(error) if error.is_not_found() => Self::Gone,
            // The name is reserved by a creation whose answer was lost, or the connection was lost
            // or a deadline exceeded during the call. Only a view shows what was done.
            NotDone::Call(error)
                if error.is_name_taken()
                    || error.is_deadline()
                    || matches!(error.why, CallError::Unavailable(_)) =>
            {
                Self::AnswerLost(error.to_string().into())
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
        self.step_limit
            .perform(|| self.perform(step, pod, spec, ip))
            .await
    }

    async fn check(&self, due: &DueCheck, ip: Option<IpAddr>) -> CheckResult {
        let ip = ip.or_else(|| self.host.node_ip());
        check(due, ip, &*self.client).await
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
            Step::StopSandbox { id } => {
                with_timeout(CALL_TIMEOUT, self.client.stop_sandbox(&id)).await
            }
            Step::RemoveSandbox { id } => {
                with_timeout(CALL_TIMEOUT, self.client.remove_sandbox(&id)).await
            }
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
        with_timeout(CALL_TIMEOUT, self.client.start_container(&id)).await?;
        let (logs, pod, name) = (self.logs.clone(), pod.clone(), container.clone());
        let linked = blocking(move || Ok(logs.link(&pod, &name, attempt, &id)?)).await;
        if let Err(NotDone::Host(error)) = linked {
            tracing::warn!(container = &**container, error, "cannot link the log");
        }
        Ok(())
    }

    /// Runs the `pre_stop` command, and then stops the container. As in the kubelet, the time that
    /// the command takes is a part of the grace period.
    async fn kill(
        &self,
        id: &Id,
        grace: Duration,
        pre_stop: Option<Vec<String>>,
    ) -> Result<(), NotDone> {
        let start = Instant::now();
        if let Some(command) = pre_stop {
            let ran = timeout(grace, self.client.exec_sync(id, &command, grace)).await;
            if let Ok(Err(error)) = ran {
                tracing::warn!(%id, %error, "PreStop hook failed");
            }
        }
        let rest = grace.saturating_sub(start.elapsed()).max(MIN_GRACE_PERIOD);
        with_timeout(CALL_TIMEOUT + rest, self.client.stop_container(id, rest)).await
    }

    async fn remove(
        &self,
        pod: &PodRef,
        container: Arc<str>,
        id: Id,
        attempt: u32,
    ) -> Result<(), NotDone> {
        with_timeout(CALL_TIMEOUT, self.client.remove_container(&id)).await?;
        let (logs, pod) = (self.logs.clone(), pod.clone());
        let removed = blocking(move || Ok(logs.remove_container(&pod, &container, attempt, &id)?));
        if let Err(NotDone::Host(error)) = removed.await {
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

async fn with_timeout<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, CallFailed>>,
) -> Result<T, NotDone> {
    match timeout(limit, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(NotDone::Timeout),
    }
}

/// Runs file work on a thread, because it may block forever on a failed disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NotDone> + Send + 'static,
) -> Result<T, NotDone> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
