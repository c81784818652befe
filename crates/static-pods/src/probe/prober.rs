//! Which checks of a pod are due, and how their results change its health.
//!
//! As in the kubelet:
//!
//! - The other probes start when the startup probe has succeeded, and the startup probe then ends.
//! - The first check is performed `initialDelaySeconds` after the start of the container, and each
//!   further one `periodSeconds` after the start of the previous one. A check that takes longer
//!   delays the next one.
//! - The first checks of containers that an earlier run started are delayed by a random part of
//!   their period, so that they are not all performed at once.
//! - Before the first result, a container is not started, not ready, and alive.
//! - A probe succeeds after `successThreshold` successes in a row, and fails after
//!   `failureThreshold` failures in a row. A check that could not be performed has no result.
//! - After a startup or liveness probe has failed, no check is performed until the next container
//!   runs.
//!
//! Unlike in the kubelet, the results in a row are counted anew for each container.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use tokio::time::Instant;

use super::CheckResult;
use super::health::{ContainerHealth, FailedProbe, Health};
use super::worker::{ProbeResult, Worker};
use crate::spec::{Check, PodSpec, Probe, ProbeKind, Probes};

/// The probes of a pod.
#[derive(Debug)]
pub struct Prober {
    created_at: Instant,
    random: fastrand::Rng,
    is_ending: bool,
    workers: BTreeMap<(Arc<str>, ProbeKind), Worker>,
    health: Health,
}

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub name: Arc<str>,
    pub id: Id,
    /// How long it has run, if an earlier run started it; otherwise zero.
    pub age: Duration,
}

/// A check that is due. Its result is passed to [`Prober::apply_result`].
#[derive(Clone, Debug, PartialEq)]
pub struct DueCheck {
    pub container: Arc<str>,
    pub id: Id,
    pub kind: ProbeKind,
    pub check: Check,
    pub timeout: Duration,
}

/// A change of a container's health, for the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The startup probe has succeeded.
    Started,
    /// The readiness probe has succeeded.
    Ready,
    /// The readiness probe has failed.
    NotReady(Arc<str>),
    /// The startup or liveness probe has failed, so the container must be killed.
    Failed(FailedProbe),
}

impl Prober {
    /// A prober without containers.
    pub fn new(now: Instant, random: fastrand::Rng) -> Self {
        Self {
            created_at: now,
            random,
            is_ending: false,
            workers: BTreeMap::new(),
            health: Health::default(),
        }
    }
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Notes that the pod is ending: from now on, no container is killed because of a probe.
    /// Readiness probes continue.
    pub fn end(&mut self) {
        self.is_ending = true;
        self.workers
            .retain(|(_, kind), _| *kind == ProbeKind::Readiness);
    }

    /// Applies which containers run, and returns the checks that are due. The checks are noted as
    /// started.
    pub fn due(&mut self, pod: &PodSpec, running: &[Running], now: Instant) -> Vec<DueCheck> {
        let is_there = |id: &Id| running.iter().any(|it| it.id == *id);
        self.workers.retain(|_, worker| is_there(&worker.id));
        self.health.containers.retain(|id, _| is_there(id));
        let mut checks = Vec::new();
        for container in running {
            let Some(spec) = pod.container(&container.name) else {
                continue;
            };
            let health = self.health.containers.entry(container.id.clone());
            health.or_default();
            let kinds = [
                ProbeKind::Startup,
                ProbeKind::Liveness,
                ProbeKind::Readiness,
            ];
            checks.extend(kinds.map(|kind| self.due_of(container, kind, &spec.probes, now)));
        }
        checks.into_iter().flatten().collect()
    }

    fn due_of(
        &mut self,
        container: &Running,
        kind: ProbeKind,
        probes: &Probes,
        now: Instant,
    ) -> Option<DueCheck> {
        let probe = probes.get(kind)?;
        let is_startup = kind == ProbeKind::Startup;
        let kills = kind != ProbeKind::Readiness;
        // A container that is being killed is not checked.
        let is_failed = self.health.failed(&container.id).is_some();
        if is_failed || (kills && self.is_ending) {
            return None;
        }
        let key = (container.name.clone(), kind);
        let worker = self.workers.get(&key);
        if worker.is_none_or(|worker| worker.id != container.id) {
            let jitter = self.jitter(container, probe, now);
            let started = now.checked_sub(container.age).unwrap_or(now);
            let worker = Worker::new(container.id.clone(), probe, started, jitter);
            self.workers.insert(key.clone(), worker);
        }
        if !is_startup && !self.health.is_started(&container.id, probes) {
            return None;
        }
        let worker = self.workers.get_mut(&key)?;
        worker.due().filter(|due| *due <= now)?;
        worker.begin(probe, now);
        Some(DueCheck {
            container: container.name.clone(),
            id: container.id.clone(),
            kind,
            check: probe.check.clone(),
            timeout: probe.timeout,
        })
    }

    /// The extra delay of the first check. Only containers that an earlier run started have one.
    fn jitter(&mut self, container: &Running, probe: &Probe, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.created_at);
        if container.age > passed {
            // If the initial delay is over, the part of the period is counted from now.
            let over = container.age.saturating_sub(probe.initial_delay);
            over + probe.period.mul_f64(self.random.f64())
        } else {
            Duration::ZERO
        }
    }

    /// When the next check is due.
    pub fn wake_at(&self, pod: &PodSpec) -> Option<Instant> {
        let due = self.workers.iter().filter_map(|((name, kind), worker)| {
            let probes = &pod.container(name)?.probes;
            let is_gated =
                *kind != ProbeKind::Startup && !self.health.is_started(&worker.id, probes);
            let is_failed = self.health.failed(&worker.id).is_some();
            worker.due().filter(|_| !is_gated && !is_failed)
        });
        due.min()
    }

    /// Applies the result of a check. Returns the change that it causes.
    pub fn apply_result(
        &mut self,
        pod: &PodSpec,
        check: &DueCheck,
        result: CheckResult,
    ) -> Option<Change> {
        let key = (check.container.clone(), check.kind);
        // Another container may have the name by now.
        let worker = self.workers.get_mut(&key);
        let worker = worker.filter(|worker| worker.id == check.id)?;
        let probe = pod.container(&check.container)?.probes.get(check.kind)?;
        let kills = check.kind != ProbeKind::Readiness;
        let result = worker.apply_result(probe, result, kills)?;
        let health = self.health.containers.entry(check.id.clone());
        let health: &mut ContainerHealth = health.or_default();
        match (check.kind, result) {
            (ProbeKind::Startup, ProbeResult::Success) => {
                worker.stop();
                health.is_started = true;
                Some(Change::Started)
            }
            (ProbeKind::Liveness, ProbeResult::Success) => None,
            (ProbeKind::Readiness, ProbeResult::Success) => {
                health.is_ready = true;
                Some(Change::Ready)
            }
            (ProbeKind::Readiness, ProbeResult::Failure(message)) => {
                // Also reported for a container that was never ready, so that the reason is
                // visible.
                health.is_ready = false;
                // A container that is being killed is not ready anyway, so this is not reported.
                health.failed.is_none().then_some(Change::NotReady(message))
            }
            (kind, ProbeResult::Failure(message)) => {
                let failed = FailedProbe { kind, message };
                health.is_ready = false;
                health.failed = Some(failed.clone());
                Some(Change::Failed(failed))
            }
        }
    }
}

#[cfg(test)]
mod tests;
