//! The sync loop on tokio: the task that owns the core, and a task for each sync.

use std::sync::Arc;
use std::time::Duration;

use pleg::Pleg;
use pleg::model::event::EventType;
use pleg::model::id::{PodRef, PodUid};
use pleg::model::wall_time::WallClock;
use pleg::out::cache::{Entry, Stopped};
use pleg::out::health::{HealthState, Reason};
use pleg::out::status_report::StatusReport;
use pleg::out::subscribers::Subscription;
use pleg::out::told::Record;
use pleg::runtime::{CallError, Conditions};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::core::{self, Action, Input};
use crate::ready_condition::{Inputs, ReadyCondition, Transition};
use crate::runtime_state::{FailedCheck, RuntimeState, STATUS_PERIOD, aggregate};
use crate::trouble::Trouble;
use crate::{Goal, Outcome, Policy, Source, SyncPod, Turn, Waker};

/// How often the reasons that stop all pods are checked: a kubelet's `syncTicker`.
const TICK: Duration = Duration::from_secs(1);

/// How long a sync waits for a status that is newer than the last one.
const STATUS_DEADLINE: Duration = Duration::from_secs(10);

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
    /// When all pods are stopped.
    pub policy: Policy,
    /// The clock for times of day.
    pub clock: WallClock,
    /// Spreads the resyncs of the pods.
    pub jitter: fastrand::Rng,
}

/// A running sync loop. It ends when this is dropped; all pods remain as they are.
#[derive(Debug)]
pub struct SyncLoop {
    ready: watch::Receiver<Option<ReadyCondition>>,
    task: JoinHandle<Stopped>,
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
        let (shown, ready) = watch::channel(None);
        let task = tokio::spawn(async move {
            let Err(stopped) = run(parts, shown).await;
            stopped
        });
        Self { ready, task }
    }

    /// The node's Ready condition, as a kubelet would compute it now; `None` before the first call
    /// of `Status`.
    pub fn ready(&self) -> watch::Receiver<Option<ReadyCondition>> {
        self.ready.clone()
    }

    /// Waits until the loop has stopped, which happens only if the PLEG stops.
    pub async fn stopped(&mut self) {
        // A panic in the task has been reported already.
        let _ = (&mut self.task).await;
    }
}

impl Drop for SyncLoop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

enum Never {}

async fn run<Q, P, C, A>(
    parts: Parts<Q, P, C>,
    shown: watch::Sender<Option<ReadyCondition>>,
) -> Result<Never, Stopped>
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
    let mut core = core::SyncLoop::new(started, policy, jitter);
    let mut node = Node {
        policy,
        clock,
        state: RuntimeState::default(),
        trouble: Trouble::default(),
        shown,
    };
    let mut events = pleg.subscribe().await?;
    let (wakers, mut wakes) = mpsc::unbounded_channel();
    let mut syncs = JoinSet::new();
    let mut asked = JoinSet::new();
    asked.spawn(conditions());
    let mut ticks = interval(TICK);
    let mut status_ticks = interval(STATUS_PERIOD);
    for ticker in [&mut ticks, &mut status_ticks] {
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let mut source_is_open = true;
    loop {
        let alarm = core.alarm();
        let input = match node.trouble.next() {
            Some(uid) => Input::Woken(uid),
            None => tokio::select! {
                change = source.next(), if source_is_open => match change {
                    Some(change) => Input::Change(change),
                    None => {
                        source_is_open = false;
                        continue;
                    }
                },
                input = woken(&mut events) => input.ok_or(Stopped)?,
                Some(uid) = wakes.recv() => Input::Woken(uid),
                Some(ended) = syncs.join_next() => match ended {
                    Ok((pod, outcome)) => {
                        tell(&pod, &outcome);
                        Input::Ended(pod.uid, outcome)
                    }
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                Some(answer) = asked.join_next() => {
                    node.answered(answer);
                    Input::Errors(node.look(&pleg).await?)
                }
                _ = status_ticks.tick() => {
                    // A call that hangs is not repeated.
                    if asked.is_empty() {
                        asked.spawn(conditions());
                    }
                    continue;
                }
                _ = ticks.tick() => Input::Errors(node.look(&pleg).await?),
                () = sleep_until(alarm.unwrap_or(started)), if alarm.is_some() => match core.gate() {
                    crate::gate::Gate::Open => Input::Time,
                    crate::gate::Gate::Closed { .. } => Input::Errors(node.look(&pleg).await?),
                },
            },
        };
        for action in core.step(Instant::now(), input) {
            match action {
                Action::Sync { pod, goal, since } => {
                    let turn = Sync {
                        pod,
                        goal,
                        since: since.unwrap_or(started),
                        network_ready: node.state.network_error().is_none(),
                        wakers: wakers.clone(),
                    };
                    let sync_pod = sync_pod.clone();
                    let pleg = pleg.clone();
                    syncs.spawn(async move { turn.perform(&pleg, &*sync_pod).await });
                }
                Action::Skip { errors, .. } => {
                    let err = aggregate(&errors).unwrap_or_default();
                    tracing::error!(%err, "Skipping pod synchronization");
                }
                Action::Opened { closed_for } => {
                    tracing::info!(closed_for = ?closed_for, "Pods are synchronized again");
                }
                Action::Gone(pod) => tracing::debug!(%pod, "nothing is left of the pod"),
            }
        }
    }
}

fn tell(pod: &PodRef, outcome: &Outcome) {
    match outcome {
        Outcome::Failed(error) => tracing::warn!(%pod, error, "Error syncing pod, skipping"),
        Outcome::NetworkNotReady => {
            tracing::warn!(%pod, "Error syncing pod, skipping: network is not ready");
        }
        Outcome::Done { .. } | Outcome::Ended => {}
    }
}

/// The input for the next record of the PLEG; `None` when there are no more.
async fn woken<S>(events: &mut Subscription) -> Option<Input<S>> {
    loop {
        return Some(match events.next().await? {
            // As in a kubelet, a removed container needs no sync.
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
    state: RuntimeState,
    trouble: Trouble,
    shown: watch::Sender<Option<ReadyCondition>>,
}

impl Node {
    fn answered(&mut self, answer: Result<Result<Conditions, CallError>, tokio::task::JoinError>) {
        match answer {
            Ok(Ok(conditions)) => self.state.answered(Instant::now(), &conditions),
            Ok(Err(error)) => tracing::warn!(%error, "Container runtime sanity check failed"),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Checks the runtime and the PLEG: returns the reasons that stop all pods now, and updates the
    /// Ready condition.
    async fn look(&mut self, pleg: &Pleg) -> Result<Vec<String>, Stopped> {
        let report = pleg.status().await?;
        self.trouble.reported(&report);
        let now = Instant::now();
        let runtime = self.state.errors(now, self.unhealthy(&report).as_slice());
        let stopping = match self.policy {
            Policy::Node => runtime.clone(),
            Policy::Pod => {
                let silent = is_silent(&report).then(|| report.health.message.clone());
                let runtime_error = self.state.runtime_error().map(str::to_owned);
                silent.into_iter().chain(runtime_error).collect()
            }
        };
        self.show(runtime);
        Ok(stopping)
    }

    /// The failed health check of the PLEG: by a kubelet's rule, or by ours, for which a node is
    /// unhealthy only if no pod is observed.
    fn unhealthy(&self, report: &StatusReport) -> Option<FailedCheck> {
        let why = match self.policy {
            Policy::Node => report.kubelet_view.pleg_error().map(str::to_owned),
            Policy::Pod => {
                let is_unhealthy = report.health.state == HealthState::Unhealthy;
                is_unhealthy.then(|| report.health.message.clone())
            }
        };
        why.map(|why| FailedCheck { name: "PLEG", why })
    }

    fn show(&self, runtime: Vec<String>) {
        let inputs = Inputs {
            runtime,
            network: self.state.network_error().map(str::to_owned),
            ..Inputs::default()
        };
        self.shown.send_modify(|shown| {
            let now = (self.clock)();
            let (condition, turned) = ReadyCondition::compute(now, &inputs, shown.as_ref());
            match turned {
                Some(Transition::NodeReady) => tracing::info!("Node became ready"),
                Some(Transition::NodeNotReady) => {
                    tracing::warn!(message = condition.message, "Node became not ready");
                }
                None => {}
            }
            *shown = Some(condition);
        });
    }
}

/// Whether the runtime is unresponsive, so that no pod could be synced. Health reports with a delay
/// that it answers again; coverage shows it at once.
fn is_silent(report: &StatusReport) -> bool {
    let reason = report.health.reason;
    let is_said = matches!(reason, Reason::RuntimeSilent | Reason::RuntimeUnreachable);
    report.health.state == HealthState::Unhealthy || is_said && !report.blind.is_empty()
}

/// A sync to be done.
struct Sync<S> {
    pod: PodRef,
    goal: Goal<S>,
    since: Instant,
    network_ready: bool,
    wakers: mpsc::UnboundedSender<PodUid>,
}

impl<S> Sync<S> {
    /// The status of the pod, observed since its last sync with a change.
    async fn status(&self, pleg: &Pleg) -> Result<Entry, String> {
        let newer = || pleg.cache().newer_than(&self.pod.uid, self.since);
        let known = timeout(Duration::ZERO, newer()).await;
        let entry = match known {
            Ok(entry) => entry,
            Err(_) => {
                // Only a relist confirms a pod of which nothing changes.
                pleg.request_relist();
                let late = |_| format!("its status was not seen within {STATUS_DEADLINE:?}");
                timeout(STATUS_DEADLINE, newer()).await.map_err(late)?
            }
        };
        entry.map_err(|stopped| stopped.to_string())
    }

    async fn perform<P: SyncPod<Spec = S>>(self, pleg: &Pleg, sync_pod: &P) -> (PodRef, Outcome) {
        let pod = self.pod.clone();
        let entry = match self.status(pleg).await {
            Ok(entry) => entry,
            Err(why) => return (pod, Outcome::Failed(why)),
        };
        let turn = Turn {
            pod: self.pod,
            goal: self.goal,
            since: self.since,
            is_complete: entry.complete_as_of > Some(self.since),
            entry,
            network_ready: self.network_ready,
            waker: Waker {
                pod: pod.uid.clone(),
                woken: self.wakers,
            },
        };
        let outcome = sync_pod.sync(turn).await;
        if let Outcome::Done { changed: true, .. } | Outcome::Ended = outcome {
            pleg.request_relist();
        }
        (pod, outcome)
    }
}
