//! The sync loop on tokio: the task that owns the scheduler, and a task for each sync.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use pleg::Pleg;
use pleg::model::event::EventType;
use pleg::model::id::{PodRef, PodUid};
use pleg::model::wall_time::WallClock;
use pleg::out::cache::{Entry, Stopped};
use pleg::out::health::HealthState;
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::out::subscribers::Subscription;
use pleg::runtime::{CallError, Conditions};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::failing_pods::FailingPods;
use crate::gate::Gate;
use crate::ready_condition::{ReadyCondition, Status};
use crate::runtime_state::{RuntimeState, STATUS_INTERVAL, aggregate};
use crate::scheduler::{Action, Input, Scheduler};
use crate::{Goal, Outcome, Policy, Source, SyncPod, SyncRequest, Waker};

/// How often the errors that pause all pods are checked: the kubelet's `syncTicker`.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a sync waits for a status as of the end of the last sync that changed something.
const NEWER_STATUS_TIMEOUT: Duration = Duration::from_secs(10);

/// The parts of a sync loop.
pub struct Parts<Q, P, C> {
    /// The source of the wanted pods.
    pub source: Q,
    /// The work for one pod.
    pub sync_pod: Arc<P>,
    /// The observed state of the pods.
    pub pleg: Pleg,
    /// Calls the runtime's `Status`.
    pub conditions: C,
    /// Which errors pause all pods.
    pub policy: Policy,
    /// The wall clock.
    pub clock: WallClock,
    /// The random numbers that spread the resyncs of the pods.
    pub jitter: fastrand::Rng,
}

/// A running sync loop. Dropping it ends the loop and leaves all pods as they are.
#[derive(Debug)]
pub struct SyncLoop {
    ready: watch::Receiver<Option<ReadyCondition>>,
    task: JoinHandle<Result<Infallible, Stopped>>,
}

impl SyncLoop {
    /// Starts a loop. Must be called within a tokio runtime.
    pub fn start<Q, P, C, A>(parts: Parts<Q, P, C>) -> Self
    where
        Q: Source,
        P: SyncPod<Spec = Q::Spec>,
        C: Fn() -> A + Send + 'static,
        A: Future<Output = Result<Conditions, CallError>> + Send + 'static,
    {
        let (sender, ready) = watch::channel(None);
        let task = tokio::spawn(run(parts, sender));
        Self { ready, task }
    }

    /// The node's Ready condition, as a kubelet computes it; `None` before the first answer to
    /// `Status`.
    pub fn ready(&self) -> watch::Receiver<Option<ReadyCondition>> {
        self.ready.clone()
    }

    /// Waits until the loop has stopped, which happens only if the PLEG stops.
    pub async fn stopped(&mut self) {
        // The panic hook has already reported a panic in the task.
        let _ = (&mut self.task).await;
    }
}

impl Drop for SyncLoop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run<Q, P, C, A>(
    parts: Parts<Q, P, C>,
    ready: watch::Sender<Option<ReadyCondition>>,
) -> Result<Infallible, Stopped>
where
    Q: Source,
    P: SyncPod<Spec = Q::Spec>,
    C: Fn() -> A + Send + 'static,
    A: Future<Output = Result<Conditions, CallError>> + Send + 'static,
{
    let Parts {
        mut source,
        sync_pod,
        pleg,
        conditions,
        policy,
        clock,
        jitter,
    } = parts;
    let started = Instant::now();
    let mut scheduler = Scheduler::new(started, policy, jitter);
    let mut node = Node {
        policy,
        clock,
        runtime: RuntimeState::default(),
        failing_pods: FailingPods::default(),
        ready,
    };
    let mut events = pleg.subscribe().await?;
    let (wakers, mut wakes) = mpsc::unbounded_channel();
    let mut syncs = JoinSet::new();
    let mut status_calls = JoinSet::new();
    status_calls.spawn(conditions());
    let mut ticks = interval(CHECK_INTERVAL);
    let mut status_ticks = interval(STATUS_INTERVAL);
    for ticker in [&mut ticks, &mut status_ticks] {
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let mut source_is_open = true;
    loop {
        let alarm = scheduler.alarm();
        let input = match node.failing_pods.next_due() {
            Some(uid) => Input::Woken(uid),
            None => tokio::select! {
                change = source.next(), if source_is_open => match change {
                    Some(change) => Input::Change(change),
                    None => {
                        source_is_open = false;
                        continue;
                    }
                },
                input = next_event(&mut events) => input.ok_or(Stopped)?,
                Some(uid) = wakes.recv() => Input::Woken(uid),
                Some(ended) = syncs.join_next() => match ended {
                    Ok((pod, outcome)) => {
                        log_failure(&pod, &outcome);
                        Input::Ended(pod.uid, outcome)
                    }
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                Some(answer) = status_calls.join_next() => {
                    node.status_answered(answer);
                    Input::Errors(node.check(&pleg).await?)
                }
                _ = status_ticks.tick() => {
                    // An overdue call is not repeated.
                    if status_calls.is_empty() {
                        status_calls.spawn(conditions());
                    }
                    continue;
                }
                _ = ticks.tick() => Input::Errors(node.check(&pleg).await?),
                () = sleep_until(alarm.unwrap_or(started)), if alarm.is_some() => {
                    match scheduler.gate() {
                        Gate::Open => Input::Time,
                        Gate::Closed { .. } => Input::Errors(node.check(&pleg).await?),
                    }
                }
            },
        };
        for action in scheduler.step(Instant::now(), input) {
            match action {
                Action::Sync { pod, goal, since } => {
                    let sync = Sync {
                        pod,
                        goal,
                        since: since.unwrap_or(started),
                        network_ready: node.runtime.network_error().is_none(),
                        wakers: wakers.clone(),
                    };
                    let sync_pod = sync_pod.clone();
                    let pleg = pleg.clone();
                    syncs.spawn(async move { sync.perform(&pleg, &*sync_pod).await });
                }
                Action::Skip { errors } => {
                    let err = aggregate(&errors).unwrap_or_default();
                    tracing::error!(%err, "Skipping pod synchronization");
                }
                Action::Opened { closed_for } => {
                    tracing::info!(closed_for = ?closed_for, "Pods are synchronized again");
                }
                Action::Gone(pod) => tracing::debug!(%pod, "The pod has ended and is removed"),
            }
        }
    }
}

fn log_failure(pod: &PodRef, outcome: &Outcome) {
    match outcome {
        Outcome::Failed(error) => tracing::warn!(%pod, error, "Error syncing pod, skipping"),
        Outcome::NetworkNotReady => {
            tracing::warn!(%pod, "Error syncing pod, skipping: network is not ready");
        }
        Outcome::Done { .. } | Outcome::Ended => {}
    }
}

/// Waits for the next event that causes a sync; `None` if the PLEG has stopped.
async fn next_event<S>(events: &mut Subscription) -> Option<Input<S>> {
    loop {
        return Some(match events.next().await? {
            // As in the kubelet, a removed container needs no sync.
            Record::Event(event) if event.event_type == EventType::ContainerRemoved => continue,
            Record::Event(event) => Input::Woken(event.pod.uid),
            Record::Gap { .. } => Input::AllWoken,
            Record::Synced { .. } | Record::Health(_) => continue,
        });
    }
}

/// The state of the node as a whole.
struct Node {
    policy: Policy,
    clock: WallClock,
    runtime: RuntimeState,
    failing_pods: FailingPods,
    ready: watch::Sender<Option<ReadyCondition>>,
}

impl Node {
    fn status_answered(
        &mut self,
        answer: Result<Result<Conditions, CallError>, tokio::task::JoinError>,
    ) {
        match answer {
            Ok(Ok(conditions)) => self.runtime.update(Instant::now(), &conditions),
            Ok(Err(error)) => tracing::warn!(%error, "Container runtime sanity check failed"),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Checks the runtime and the PLEG: returns the errors that pause all pods now, and updates the
    /// Ready condition.
    async fn check(&mut self, pleg: &Pleg) -> Result<Vec<String>, Stopped> {
        let report = pleg.status().await?;
        self.failing_pods.update(&report);
        let now = Instant::now();
        let errors = self.runtime.errors(now, self.pleg_error(&report));
        let stopping = match self.policy {
            Policy::Node => errors.clone(),
            Policy::Pod => {
                let unresponsive = is_unresponsive(&report).then(|| report.health.message.clone());
                let runtime_error = self.runtime.runtime_error().map(str::to_owned);
                unresponsive.into_iter().chain(runtime_error).collect()
            }
        };
        self.update_ready(errors);
        Ok(stopping)
    }

    /// Why the PLEG is unhealthy, if it is: by the kubelet's rule, or with [`Policy::Pod`] only if
    /// no pod is observed.
    fn pleg_error<'a>(&self, report: &'a StatusReport) -> Option<&'a str> {
        match self.policy {
            Policy::Node => report.kubelet_view.pleg_error(),
            Policy::Pod => {
                let is_unhealthy = report.health.state == HealthState::Unhealthy;
                is_unhealthy.then_some(&*report.health.message)
            }
        }
    }

    fn update_ready(&self, mut errors: Vec<String>) {
        errors.extend(self.runtime.network_error().map(str::to_owned));
        self.ready.send_modify(|ready| {
            let now = (self.clock)();
            let condition = ReadyCondition::compute(now, &errors, ready.as_ref());
            match (ready.as_ref().map(|last| last.status), condition.status) {
                (Some(Status::False), Status::True) => tracing::info!("Node became ready"),
                (Some(Status::True), Status::False) => {
                    tracing::warn!(message = condition.message, "Node became not ready");
                }
                _ => {}
            }
            *ready = Some(condition);
        });
    }
}

/// Whether the runtime is unresponsive, so that no pod can be synced. Health reports an improvement
/// with a delay, so the unseen parts (`blind`) are checked too: they end at once.
fn is_unresponsive(report: &StatusReport) -> bool {
    let health = &report.health;
    let is_reported = health.reason.answers_no_call();
    health.state == HealthState::Unhealthy || is_reported && !report.blind.is_empty()
}

/// A sync to perform.
struct Sync<S> {
    pod: PodRef,
    goal: Goal<S>,
    since: Instant,
    network_ready: bool,
    wakers: mpsc::UnboundedSender<PodUid>,
}

impl<S> Sync<S> {
    /// The status of the pod as of `since` or later.
    async fn status(&self, pleg: &Pleg) -> Result<Entry, String> {
        let newer = || pleg.cache().newer_than(&self.pod.uid, self.since);
        let mut entry = timeout(Duration::ZERO, newer()).await;
        if entry.is_err() {
            // Only a relist confirms the status of a pod that has not changed.
            pleg.request_relist();
            entry = timeout(NEWER_STATUS_TIMEOUT, newer()).await;
        }
        entry
            .map_err(|_| format!("the pod was not observed within {NEWER_STATUS_TIMEOUT:?}"))?
            .map_err(|stopped| stopped.to_string())
    }

    async fn perform<P: SyncPod<Spec = S>>(self, pleg: &Pleg, sync_pod: &P) -> (PodRef, Outcome) {
        let pod = self.pod.clone();
        let entry = match self.status(pleg).await {
            Ok(entry) => entry,
            Err(why) => return (pod, Outcome::Failed(why)),
        };
        let request = SyncRequest {
            pod: self.pod,
            goal: self.goal,
            since: self.since,
            is_complete: entry.complete_as_of > Some(self.since),
            entry,
            network_ready: self.network_ready,
            waker: Waker {
                pod: pod.uid.clone(),
                sender: self.wakers,
            },
        };
        let outcome = sync_pod.sync(request).await;
        if let Outcome::Done { changed: true, .. } | Outcome::Ended = outcome {
            pleg.request_relist();
        }
        (pod, outcome)
    }
}
