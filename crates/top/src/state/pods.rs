//! The pods as of the last list, with the events since.

use std::collections::BTreeMap;
use std::time::Duration;

use pleg::model::event::Event;
use pleg::model::id::{Id, PodUid};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::model::status::{ContainerStatus, PodStatus};
use pleg::model::wall_time::WallTime;
use pleg::out::apply::apply;
use pleg::out::pods::{PodReport, Waiting};

/// A pod, with the content of its row.
#[derive(Clone, Debug)]
pub struct Pod {
    /// The pod as of the last list, with the events since.
    pub report: PodReport,
    /// The condition that the pod itself shows.
    pub condition: Condition,
    /// The number of restarts of the pod's containers.
    pub restarts: u32,
    /// The time of the last change in the pod.
    pub changed: Option<WallTime>,
    /// The latency of the pod's last event: the time from the event to its report.
    pub latency: Option<Duration>,
}

/// The condition of a pod, worst first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// A call about the pod is stuck.
    Stuck,
    /// A call about the pod fails.
    Failing,
    /// The runtime does not know the state of one of the pod's containers.
    Unknown,
    /// The newest instance of one of the pod's containers ended with an error.
    Failed {
        /// The exit code, if the runtime knows it.
        exit_code: Option<i32>,
    },
    /// The static pod or one of its containers waits, for example in `CrashLoopBackOff`.
    Waiting {
        /// The reason, in one word.
        reason: String,
    },
    /// A container was created and does not run yet, or a sandbox is ready and has no container yet.
    Starting,
    /// A container runs.
    Running,
    /// The newest instance of each container has exited, none of them with an error.
    Completed,
    /// The pod has no container, and no sandbox that is ready.
    Stopped,
}

impl Condition {
    /// Whether the condition is a fault.
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Stuck | Self::Failing | Self::Unknown | Self::Failed { .. } => true,
            Self::Waiting { reason } => {
                reason.contains("BackOff") || reason.contains("Error") || reason.contains("Fail")
            }
            Self::Starting | Self::Running | Self::Completed | Self::Stopped => false,
        }
    }
}

impl Pod {
    fn new(report: PodReport, known: Option<&Pod>) -> Self {
        let mut pod = Self {
            condition: Condition::Stopped,
            restarts: 0,
            changed: known.and_then(|known| known.changed),
            latency: known.and_then(|known| known.latency),
            report,
        };
        pod.derive();
        pod
    }

    /// Derives the content of the row.
    fn derive(&mut self) {
        let containers = &self.report.status.containers;
        let times = containers
            .iter()
            .flat_map(|it| [it.finished_at, it.started_at, it.created_at])
            .flatten();
        self.changed = times.chain(self.changed).max();
        self.condition = condition(&self.report);
        self.restarts = restarts(&self.report);
    }

    /// The newest instance of each container, by name.
    pub fn current(&self) -> impl Iterator<Item = &ContainerStatus> {
        current(&self.report.status).into_values()
    }
}

fn current(status: &PodStatus) -> BTreeMap<&str, &ContainerStatus> {
    let mut newest: BTreeMap<&str, &ContainerStatus> = BTreeMap::new();
    for container in &status.containers {
        let known = newest.entry(&container.name).or_insert(container);
        if container.attempt > known.attempt {
            *known = container;
        }
    }
    newest
}

fn condition(report: &PodReport) -> Condition {
    if report.error.is_some() {
        return Condition::Failing;
    }
    let current = current(&report.status);
    let is = |state| current.values().any(|it| it.state == state);
    let failed = current
        .values()
        .find(|it| it.state == ContainerState::Exited && it.exit_code != Some(0));
    match (failed, waiting(report)) {
        _ if is(ContainerState::Unknown) => Condition::Unknown,
        (_, Some(waiting)) => Condition::Waiting {
            reason: waiting.reason.clone(),
        },
        (Some(failed), None) => Condition::Failed {
            exit_code: failed.exit_code,
        },
        _ if is(ContainerState::Created) => Condition::Starting,
        _ if is(ContainerState::Running) => Condition::Running,
        _ if !current.is_empty() => Condition::Completed,
        _ if has_ready_sandbox(&report.status) => Condition::Starting,
        _ => Condition::Stopped,
    }
}

/// Why a static pod, or a container of it, waits.
pub fn waiting(report: &PodReport) -> Option<&Waiting> {
    let its = report.static_pod.as_ref()?;
    let mut containers = its.containers.iter();
    let of_container = || containers.find_map(|it| it.waiting.as_ref());
    its.waiting.as_ref().or_else(of_container)
}

fn has_ready_sandbox(status: &PodStatus) -> bool {
    let mut sandboxes = status.sandboxes.iter();
    sandboxes.any(|it| it.state == SandboxState::Ready)
}

/// The sum of the attempt numbers of the newest instances, which begin at 0. A static pod counts its
/// restarts itself.
fn restarts(report: &PodReport) -> u32 {
    match &report.static_pod {
        Some(its) => its.containers.iter().map(|it| it.restarts).sum(),
        None => current(&report.status).values().map(|it| it.attempt).sum(),
    }
}

/// All known pods.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    pods: BTreeMap<PodUid, Pod>,
}

impl Pods {
    /// Replaces all pods by a new list.
    pub fn replace(&mut self, reports: Vec<PodReport>) {
        let mut known = std::mem::take(&mut self.pods);
        let pods = reports.into_iter().map(|report| {
            let uid = report.status.uid.clone();
            let known = known.remove(&uid);
            (uid, Pod::new(report, known.as_ref()))
        });
        self.pods = pods.collect();
    }

    /// Applies an event that is newer than the list.
    pub fn apply(&mut self, event: &Event) {
        let uid = &event.pod.uid;
        let pod = self.pods.entry(uid.clone()).or_insert_with(|| {
            let status = PodStatus {
                namespace: event.pod.namespace.clone(),
                name: event.pod.name.clone(),
                ..PodStatus::unknown(uid.clone())
            };
            let report = PodReport {
                status,
                as_of: None,
                error: None,
                static_pod: None,
            };
            Pod::new(report, None)
        });
        apply(&mut pod.report.status, event, None);
        if !event.initial {
            pod.changed = pod.changed.max(Some(event.time));
        }
        pod.derive();
        // A static pod exists before its first sandbox and after its last.
        let status = &pod.report.status;
        let is_gone = status.containers.is_empty() && status.sandboxes.is_empty();
        if is_gone && pod.report.static_pod.is_none() {
            self.pods.remove(uid);
        }
    }

    /// Sets the latency of a pod's last event: the time from the event to its report.
    pub fn set_latency(&mut self, uid: &PodUid, latency: Duration) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.latency = Some(latency);
        }
    }

    /// All pods, by UID.
    pub fn all(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    /// The number of pods.
    pub fn count(&self) -> usize {
        self.pods.len()
    }

    /// The pod with this UID.
    pub fn get(&self, uid: &PodUid) -> Option<&Pod> {
        self.pods.get(uid)
    }

    /// The pod that has a container or sandbox with this id, and the container's name.
    pub fn owner(&self, id: &Id) -> Option<(&Pod, Option<&str>)> {
        self.all().find_map(|pod| {
            let status = &pod.report.status;
            if let Some(container) = status.container(id) {
                return Some((pod, Some(&*container.name)));
            }
            let mut sandboxes = status.sandboxes.iter();
            sandboxes.any(|it| it.id == *id).then_some((pod, None))
        })
    }
}
