//! Inspecting a pod: a status call for each of its sandboxes and containers.
//!
//! Each inspection is its own little life. Many run at once, within [`Lanes`]; one that
//! takes long gives its place to others and goes on by itself until the runtime answers.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use futures_util::{StreamExt, stream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::calls::{About, Calls};
use crate::health::short;
use crate::id::{Id, PodRef};
use crate::listed::ListedPod;
use crate::runtime::{Call, CallError, Runtime};
use crate::status::{PodStatus, SandboxStatus};

/// Why a pod has no fresh status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// A call failed.
    #[error("{call} of {} failed: {error}", short(.id))]
    Failed {
        /// Which call.
        call: Call,
        /// Of which container or sandbox.
        id: Id,
        /// Why.
        error: CallError,
    },
    /// A call has not been answered yet, and is overdue.
    #[error("{call} of {} has not answered", short(.id))]
    Overdue {
        /// Which call.
        call: Call,
        /// Of which container or sandbox.
        id: Id,
    },
}

/// Inspects every sandbox and container that is listed. One that the runtime does not
/// have any more is skipped, as the kubelet does; any other error ends the inspection.
pub async fn inspect<R: Runtime>(
    runtime: &R,
    calls: &Calls,
    listed: &ListedPod,
) -> Result<PodStatus, InspectError> {
    let about = |call: Call, id: &Id, container: Option<&Arc<str>>| About {
        call,
        id: Some(id.clone()),
        // One that was only met by its id has no name yet.
        container: container.filter(|name| !name.is_empty()).cloned(),
        pod: Some(listed.pod.clone()),
    };
    // What an event said of whose it is may be wrong.
    let is_its = |pod: &Option<PodRef>| pod.as_ref().is_none_or(|pod| pod.uid == listed.pod.uid);
    let sandboxes = listed.sandboxes.iter().map(|row| {
        let call = Call::PodSandboxStatus;
        let asked = calls.run(about(call, &row.id, None), runtime.sandbox_status(&row.id));
        async move {
            let status = unless_gone(call, &row.id, asked.await)?;
            let status = status.filter(|status: &SandboxStatus| is_its(&status.pod));
            // Each container is asked for itself.
            Ok(status.map(|status| SandboxStatus {
                containers: Vec::new(),
                ..status
            }))
        }
    });
    let sandboxes = sandboxes.collect();
    let containers = listed.containers.iter().map(|row| {
        let call = Call::ContainerStatus;
        let about = about(call, &row.id, Some(&row.name));
        let asked = calls.run(about, runtime.container_status(&row.id));
        async move {
            let status = unless_gone(call, &row.id, asked.await)?;
            Ok(status.filter(|status| is_its(&status.pod)))
        }
    });
    let containers = containers.collect();
    let (sandboxes, containers) = join(together(sandboxes), together(containers)).await;
    let (sandboxes, containers) = (sandboxes?, containers?);
    Ok(PodStatus {
        uid: listed.pod.uid.clone(),
        namespace: listed.pod.namespace.clone(),
        name: listed.pod.name.clone(),
        sandboxes,
        containers,
    })
}

/// How many calls of a kind a pod has under way at once.
const TOGETHER: usize = 4;

/// Asks for all, a few at a time. All are waited for even if one fails: giving up the
/// others would leave them with a runtime that is then asked again.
async fn together<Status>(
    asking: Vec<impl Future<Output = Result<Option<Status>, InspectError>>>,
) -> Result<Vec<Status>, InspectError> {
    let answers: Vec<_> = stream::iter(asking).buffered(TOGETHER).collect().await;
    let found: Result<Vec<Option<Status>>, InspectError> = answers.into_iter().collect();
    Ok(found?.into_iter().flatten().collect())
}

fn unless_gone<T>(
    call: Call,
    id: &Id,
    answer: Result<T, CallError>,
) -> Result<Option<T>, InspectError> {
    match answer {
        Ok(status) => Ok(Some(status)),
        Err(CallError::NotFound(_)) => Ok(None),
        Err(error) => Err(InspectError::Failed {
            call,
            id: id.clone(),
            error,
        }),
    }
}

/// After this long an inspection counts as slow. A healthy one takes a millisecond a call.
const SLOW: Duration = Duration::from_millis(250);

/// How many slow inspections may have left their place to others.
const MAX_SLOW: usize = 64;

/// How many inspections run at once.
///
/// ```text
///   wait --> prompt (16 places) --250 ms--> slow (64 places) --overdue--> stuck (no place taken)
/// ```
///
/// Stuck pods, however many, take nothing from the others. A runtime that is merely slow
/// is not flooded either: it meets at most 80 inspections that are not overdue.
#[derive(Clone, Debug)]
pub struct Lanes {
    prompt: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    overdue: Duration,
}

impl Lanes {
    /// `places` inspections at once; one counts as stuck after `overdue`.
    pub fn new(places: usize, overdue: Duration) -> Self {
        Self {
            prompt: Arc::new(Semaphore::new(places)),
            slow: Arc::new(Semaphore::new(MAX_SLOW)),
            overdue,
        }
    }

    /// Does `work` once there is a place for it.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let place = self.prompt.acquire().await.expect("it is never closed");
        if let Ok(done) = timeout(SLOW, &mut work).await {
            return done;
        }
        let place = match self.slow.try_acquire() {
            Ok(slow) => {
                drop(place);
                slow
            }
            Err(_) => place,
        };
        if let Ok(done) = timeout(self.overdue.saturating_sub(SLOW), &mut work).await {
            return done;
        }
        drop(place);
        work.await
    }
}
