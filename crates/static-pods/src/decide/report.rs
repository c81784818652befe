//! The state of a pod: phase, containers and readiness, as Kubernetes defines them.

use std::net::IpAddr;
use std::sync::Arc;

use pleg::model::id::Id;

use super::Want;
use super::draft::Draft;
use super::memory::Memory;
use super::phase::Phase;
use super::run::Course;
use super::slot::{KnownContainer, Life, Slot};
use super::view::View;
use super::why::Why;
use crate::probe::Health;
use crate::spec::{Probes, Role};

/// The state of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its phase.
    pub phase: Phase,
    /// Whether all containers other than init containers are ready.
    pub is_ready: bool,
    /// Its addresses, the primary one first.
    pub ips: Vec<IpAddr>,
    /// Why the pod as a whole waits.
    pub waits: Option<Why>,
    /// Its containers, in the order of the manifest.
    pub containers: Vec<ContainerReport>,
}

impl Report {
    /// The report of a pod before its first decision.
    pub(crate) fn pending() -> Self {
        Self {
            phase: Phase::Pending,
            is_ready: false,
            ips: Vec::new(),
            waits: None,
            containers: Vec::new(),
        }
    }
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerReport {
    /// Its name.
    pub name: Arc<str>,
    /// Its id, once it has been created.
    pub id: Option<Id>,
    /// Whether it waits, runs or has exited.
    pub state: ContainerView,
    /// Why it waits for its next step, if it does.
    pub waits: Option<Why>,
    /// Whether it runs and its readiness probe, if any, has succeeded. A container whose process is
    /// dead according to the kernel is not ready, even if the runtime reports that it runs. An init
    /// container is ready when it has succeeded. In a pod that is ending, no container is ready.
    pub is_ready: bool,
    /// How many times it was restarted.
    pub restarts: u32,
    /// The last exit of a container with this name, unless `state` contains it.
    pub last_exit: Option<Exit>,
}

/// The `state` in a Kubernetes container status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerView {
    /// It does not run yet, or waits for its restart.
    Waiting(Why),
    /// It runs.
    Running,
    /// It has exited.
    Terminated(Exit),
}

/// How a container exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, if the runtime reports it.
    pub code: Option<i32>,
    /// The runtime's reason.
    pub reason: Option<Arc<str>>,
    /// The runtime's message, if the start failed.
    pub message: Option<Arc<str>>,
}

impl Memory {
    pub(super) fn report(
        &self,
        want: Want,
        course: Option<Course>,
        view: &View,
        health: &Health,
        draft: &Draft,
    ) -> Report {
        let mut containers = Vec::new();
        let is_over = matches!(course, Some(Course::Over { .. }));
        let mut is_ready = !is_over;
        let mut is_initial = false;
        match want {
            Want::Run(spec) => {
                for container in &spec.containers {
                    let name: Arc<str> = container.name.as_str().into();
                    let slot = self.slots.get(&name);
                    let mut report =
                        self.container_report(name, slot, &container.probes, health, draft);
                    report.is_ready &= !is_over;
                    if container.role == Role::Init {
                        let current = slot.and_then(Slot::current);
                        report.is_ready = current.is_some_and(|it| it.life.succeeded());
                    } else {
                        is_ready &= report.is_ready;
                    }
                    if container.role == Role::Container {
                        let never_ran = report.last_exit.is_none()
                            && matches!(report.state, ContainerView::Waiting(_));
                        is_initial |= never_ran || report.waits == Some(Why::PodInitializing);
                    }
                    containers.push(report);
                }
            }
            Want::End { .. } => {
                is_ready = false;
                let none = Probes::default();
                let slots = self.slots.iter();
                containers.extend(slots.map(|(name, slot)| ContainerReport {
                    is_ready: false,
                    ..self.container_report(name.clone(), Some(slot), &none, health, draft)
                }));
            }
        }
        let phase = match course {
            // A pod has succeeded or failed only once all its containers have exited.
            Some(Course::Over { .. }) if self.may_run() => Phase::Running,
            Some(Course::Over { failed: true, .. }) => Phase::Failed,
            Some(Course::Over { failed: false, .. }) => Phase::Succeeded,
            Some(Course::Continues) if is_initial && !self.was_observed() => Phase::Unknown,
            Some(Course::Continues) if is_initial => Phase::Pending,
            Some(Course::Continues) => Phase::Running,
            None => self.last_phase(),
        };
        Report {
            is_ready: is_ready && phase == Phase::Running,
            phase,
            ips: view.status.ips().to_vec(),
            waits: draft.sandbox.clone(),
            containers,
        }
    }

    /// Whether a container of the pod has a process or may have one.
    fn may_run(&self) -> bool {
        self.containers().any(|known| known.life.is_live())
    }

    /// The phase of a pod that is ending.
    fn last_phase(&self) -> Phase {
        let known = self.slots.values().filter_map(Slot::current);
        let lives: Vec<_> = known.map(|known| known.life).collect();
        match self.wanted_phase {
            _ if self.may_run() => Phase::Running,
            // Not all of its containers have run.
            Some(Phase::Pending) => Phase::Pending,
            _ if lives.is_empty() || lives.iter().any(|life| !life.is_over()) => Phase::Pending,
            _ if lives.iter().all(|life| life.succeeded()) => Phase::Succeeded,
            _ => Phase::Failed,
        }
    }

    fn container_report(
        &self,
        name: Arc<str>,
        slot: Option<&Slot>,
        probes: &Probes,
        health: &Health,
        draft: &Draft,
    ) -> ContainerReport {
        let current = slot.and_then(Slot::current);
        let unobserved = current.and_then(|known| self.why_unobserved(known));
        let dead = unobserved.filter(|why| **why == Why::ProcessDead);
        let waits = draft.containers.get(&name).or(dead).cloned();
        let state = match (current, &waits) {
            (Some(known), _) if known.life == Life::Running => ContainerView::Running,
            (Some(known), _) if known.life == Life::Unknown => {
                ContainerView::Waiting(Why::StateUnknown)
            }
            (Some(known), None) if known.life.is_over() => {
                ContainerView::Terminated(exit_of(known))
            }
            (_, waits) => ContainerView::Waiting(waits.clone().unwrap_or(Why::ContainerCreating)),
        };
        let is_running = state == ContainerView::Running;
        let is_terminated = matches!(state, ContainerView::Terminated(_));
        let last_exited = slot.and_then(Slot::last_exited);
        ContainerReport {
            name,
            id: current.map(|known| known.id.clone()),
            is_ready: is_running
                && dead.is_none()
                && current.is_some_and(|known| health.is_ready(&known.id, probes)),
            restarts: current.map_or(0, |known| known.attempt),
            last_exit: last_exited.filter(|_| !is_terminated).map(exit_of),
            state,
            waits,
        }
    }
}

fn exit_of(known: &KnownContainer) -> Exit {
    let code = match known.life {
        Life::Exited { code, .. } => code,
        _ => None,
    };
    let status = known.status.as_ref();
    Exit {
        code,
        reason: status.and_then(|status| status.reason.clone()),
        message: known
            .retry
            .message()
            .filter(|_| known.start_refused)
            .cloned(),
    }
}
