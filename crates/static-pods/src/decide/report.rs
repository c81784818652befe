//! A pod's state, to be shown: phase, containers, readiness, as Kubernetes defines them.

use std::net::IpAddr;
use std::sync::Arc;

use pleg::model::id::Id;
use pleg::model::wall_time::WallTime;

use super::Want;
use super::draft::Draft;
use super::memory::Memory;
use super::phase::Phase;
use super::run::Verdict;
use super::slot::{Known, Life, Slot, Start};
use super::view::View;
use super::why::Why;
use crate::probe::Health;
use crate::spec::{Probes, Role};

/// A pod's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How far it is.
    pub phase: Phase,
    /// All containers that are to be ready are.
    pub is_ready: bool,
    /// Its addresses, the primary one first.
    pub ips: Vec<IpAddr>,
    /// What the pod as a whole waits for.
    pub waits: Option<Why>,
    /// Its containers, in the order of the manifest.
    pub containers: Vec<ContainerReport>,
}

impl Report {
    /// That of a pod with which nothing is done yet.
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

/// A container's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerReport {
    /// Its name.
    pub name: Arc<str>,
    /// Its id, once it was created.
    pub id: Option<Id>,
    /// What it does.
    pub state: ContainerView,
    /// What keeps it from being what it should be.
    pub waits: Option<Why>,
    /// It runs, as the kernel knows it, too, and its readiness probe, if it has one, says that it
    /// is ready; of an init container, that it has succeeded. Nothing of a pod that is being ended
    /// is.
    pub is_ready: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// How the one before it ended, or it itself if it waits to be restarted.
    pub last_exit: Option<Exit>,
}

/// `state` of a container's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerView {
    /// It does not run yet, or not again.
    Waiting(Why),
    /// It runs.
    Running {
        /// Since when, by the runtime.
        since: Option<WallTime>,
    },
    /// It has ended.
    Terminated(Exit),
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, if the runtime knows it.
    pub code: Option<i32>,
    /// The runtime's word for it.
    pub reason: Option<Arc<str>>,
    /// When.
    pub finished_at: Option<WallTime>,
    /// The runtime's words if it has not even started: it refused.
    pub message: Option<Arc<str>>,
}

impl Memory {
    pub(super) fn report(
        &self,
        want: Want,
        verdict: Option<Verdict>,
        view: &View,
        health: &Health,
        draft: &Draft,
    ) -> Report {
        let mut containers = Vec::new();
        let is_over = matches!(verdict, Some(Verdict::Over { .. }));
        let mut is_ready = !is_over;
        let mut is_initial = false;
        match want {
            Want::Run(spec) => {
                for container in &spec.containers {
                    let name: Arc<str> = container.name.as_str().into();
                    let slot = self.slots.get(&name);
                    let mut report = self.shown(name, slot, &container.probes, health, draft);
                    report.is_ready &= !is_over;
                    if container.role == Role::Init {
                        let current = slot.and_then(Slot::current);
                        report.is_ready = current.is_some_and(|(_, it)| it.life.succeeded());
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
                    ..self.shown(name.clone(), Some(slot), &none, health, draft)
                }));
            }
        }
        let phase = match verdict {
            // What is left of it is ended first: how it has gone is known when all have exited.
            Some(Verdict::Over { .. }) if self.may_run() => Phase::Running,
            Some(Verdict::Over { failed: true, .. }) => Phase::Failed,
            Some(Verdict::Over { failed: false, .. }) => Phase::Succeeded,
            Some(Verdict::GoesOn) if is_initial && !self.was_seen() => Phase::Unknown,
            Some(Verdict::GoesOn) if is_initial => Phase::Pending,
            Some(Verdict::GoesOn) => Phase::Running,
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

    /// Whether a container of it has a process, or may have.
    fn may_run(&self) -> bool {
        let mut known = self.slots.values().flat_map(|slot| slot.known.values());
        known.any(|known| known.life.is_live())
    }

    /// That of a pod that is being ended.
    fn last_phase(&self) -> Phase {
        let known = self.slots.values().filter_map(Slot::current);
        let lives: Vec<_> = known.map(|(_, known)| known.life).collect();
        match self.wanted_phase {
            _ if self.may_run() => Phase::Running,
            // Not all of its containers have ever run.
            Some(Phase::Pending) => Phase::Pending,
            _ if lives.is_empty() || lives.iter().any(|life| !life.is_over()) => Phase::Pending,
            _ if lives.iter().all(|life| life.succeeded()) => Phase::Succeeded,
            _ => Phase::Failed,
        }
    }

    fn shown(
        &self,
        name: Arc<str>,
        slot: Option<&Slot>,
        probes: &Probes,
        health: &Health,
        draft: &Draft,
    ) -> ContainerReport {
        let current = slot.and_then(Slot::current);
        let unseen = current.and_then(|(id, _)| self.why_unseen(id));
        let dead = unseen.filter(|why| **why == Why::ProcessDead);
        let waits = draft.containers.get(&name).or(dead).cloned();
        let life = current.map(|(_, known)| known.life);
        let waiting = |waits: &Option<Why>| {
            ContainerView::Waiting(waits.clone().unwrap_or(Why::ContainerCreating))
        };
        let mut last_exit = slot.and_then(newest_exit);
        let state = match (life, &waits) {
            (Some(Life::Running), _) => ContainerView::Running {
                since: current
                    .and_then(|(_, known)| known.status.as_ref())
                    .and_then(|status| status.started_at),
            },
            (Some(Life::Unknown), _) => ContainerView::Waiting(Why::StateUnknown),
            (Some(Life::Exited { .. }), None) => {
                let exit = current.map(|(_, known)| exit_of(known));
                // It is the last one itself.
                last_exit = None;
                exit.map_or_else(|| waiting(&None), ContainerView::Terminated)
            }
            _ => waiting(&waits),
        };
        let is_ready = life == Some(Life::Running)
            && dead.is_none()
            && current.is_some_and(|(id, _)| health.is_ready(id, probes));
        ContainerReport {
            name,
            id: current.map(|(id, _)| id.clone()),
            state,
            waits,
            is_ready,
            restarts: current.map_or(0, |(_, known)| known.attempt),
            last_exit,
        }
    }
}

fn newest_exit(slot: &Slot) -> Option<Exit> {
    let dead = slot.known.values().filter(|known| known.life.is_over());
    dead.max_by_key(|known| known.attempt).map(exit_of)
}

fn exit_of(known: &Known) -> Exit {
    let code = match known.life {
        Life::Exited { code, .. } => code,
        _ => None,
    };
    let status = known.status.as_ref();
    Exit {
        code,
        reason: status.and_then(|status| status.reason.clone()),
        finished_at: status.and_then(|status| status.finished_at),
        message: match known.start {
            Start::Refused => known.retry.message().cloned(),
            Start::Untried => None,
        },
    }
}
