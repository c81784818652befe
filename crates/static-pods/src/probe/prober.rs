//! Which checks of a pod are due, and what follows from what they found.
//!
//! As in a kubelet:
//!
//! - a startup probe comes first; the others begin once it has succeeded, and it ends;
//! - the first check is made once the container has run for `initialDelaySeconds`, later ones
//!   `periodSeconds` after the one before was begun; one that takes longer delays the next;
//! - the first checks of containers that ran before us are put off by a random part of their
//!   period, or all of them would be made at once;
//! - before the first verdict a container is not started, not ready, and alive;
//! - a verdict takes `successThreshold` or `failureThreshold` equal results in a row, and a check
//!   that could not be made is no result;
//! - after a failed startup or liveness probe no check is made until there is another container.
//!
//! Other than in a kubelet, rows of results begin anew with each container.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use tokio::time::Instant;

use super::Finding;
use super::health::{ContainerHealth, FailedProbe, Health, Kind};
use super::worker::{Verdict, Worker};
use crate::spec::{Check, PodSpec, Probe, Probes};

/// The probes of a pod.
#[derive(Debug)]
pub struct Prober {
    began: Instant,
    random: fastrand::Rng,
    is_ending: bool,
    workers: BTreeMap<(Arc<str>, Kind), Worker>,
    health: Health,
}

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its name in the pod.
    pub name: Arc<str>,
    /// Its id.
    pub id: Id,
    /// For how long, when it is first passed: of one that was started before us, by the runtime's
    /// clock.
    pub age: Duration,
}

/// A check that is to be made now. What it found goes to [`Prober::found`].
#[derive(Clone, Debug, PartialEq)]
pub struct CheckToMake {
    /// Of which container.
    pub container: Arc<str>,
    /// Its id.
    pub id: Id,
    /// For which probe.
    pub kind: Kind,
    /// What is done.
    pub check: Check,
    /// How long it may take.
    pub timeout: Duration,
}

/// What has changed, to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The startup probe has succeeded.
    Started,
    /// The readiness probe has succeeded.
    Ready,
    /// The readiness probe has failed.
    NotReady(Arc<str>),
    /// The container must be killed.
    Failed(FailedProbe),
}

impl Prober {
    /// Nothing runs yet.
    pub fn new(now: Instant, random: fastrand::Rng) -> Self {
        Self {
            began: now,
            random,
            is_ending: false,
            workers: BTreeMap::new(),
            health: Health::default(),
        }
    }

    /// What was found up to now.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The pod is being ended: nothing is killed for its probes any more. Readiness goes on.
    pub fn end(&mut self) {
        self.is_ending = true;
        self.workers.retain(|(_, kind), _| *kind == Kind::Readiness);
    }

    /// Takes in which containers run, and gives the checks that are due. They are noted as begun.
    pub fn due(&mut self, pod: &PodSpec, running: &[Running], now: Instant) -> Vec<CheckToMake> {
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
            for (kind, probe) in of(&spec.probes) {
                if let Some(check) = self.due_of(container, kind, probe, &spec.probes, now) {
                    checks.push(check);
                }
            }
        }
        checks
    }

    fn due_of(
        &mut self,
        container: &Running,
        kind: Kind,
        probe: &Probe,
        probes: &Probes,
        now: Instant,
    ) -> Option<CheckToMake> {
        let is_startup = kind == Kind::Startup;
        let kills = kind != Kind::Readiness;
        // Of a container that is being killed nothing is asked.
        let is_failed = self.health.failed(&container.id).is_some();
        if is_failed || (kills && self.is_ending) {
            return None;
        }
        let key = (container.name.clone(), kind);
        if self
            .workers
            .get(&key)
            .is_none_or(|worker| worker.id != container.id)
        {
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
        Some(CheckToMake {
            container: container.name.clone(),
            id: container.id.clone(),
            kind,
            check: probe.check.clone(),
            timeout: probe.timeout,
        })
    }

    /// Only what ran before us is put off.
    fn jitter(&mut self, container: &Running, probe: &Probe, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.began);
        if container.age > passed {
            // The delay may be over: then a part of the period is counted from now.
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
            let is_gated = *kind != Kind::Startup && !self.health.is_started(&worker.id, probes);
            let is_failed = self.health.failed(&worker.id).is_some();
            worker.due().filter(|_| !is_gated && !is_failed)
        });
        due.min()
    }

    /// Takes in what a check found; tells what has changed by it.
    pub fn found(
        &mut self,
        pod: &PodSpec,
        check: &CheckToMake,
        finding: Finding,
    ) -> Option<Change> {
        let key = (check.container.clone(), check.kind);
        // The container may be another one by now.
        let worker = self.workers.get_mut(&key);
        let worker = worker.filter(|worker| worker.id == check.id)?;
        let probes = &pod.container(&check.container)?.probes;
        let probe = of(probes).find_map(|(kind, probe)| (kind == check.kind).then_some(probe))?;
        let kills = check.kind != Kind::Readiness;
        let verdict = worker.found(probe, finding, kills)?;
        let health = self.health.containers.entry(check.id.clone());
        let health: &mut ContainerHealth = health.or_default();
        match (check.kind, verdict) {
            (Kind::Startup, Verdict::Success) => {
                worker.hold();
                health.is_started = true;
                Some(Change::Started)
            }
            (Kind::Liveness, Verdict::Success) => None,
            (Kind::Readiness, Verdict::Success) => {
                health.is_ready = true;
                Some(Change::Ready)
            }
            (Kind::Readiness, Verdict::Failure(message)) => {
                // Also of one that never was: who waits for it wants to read why it is not.
                health.is_ready = false;
                // Of one that is being killed, that is why.
                health.failed.is_none().then_some(Change::NotReady(message))
            }
            (kind, Verdict::Failure(message)) => {
                let failed = FailedProbe { kind, message };
                health.is_ready = false;
                health.failed = Some(failed.clone());
                Some(Change::Failed(failed))
            }
        }
    }
}

fn of(probes: &Probes) -> impl Iterator<Item = (Kind, &Probe)> {
    let all = [
        (Kind::Startup, &probes.startup),
        (Kind::Liveness, &probes.liveness),
        (Kind::Readiness, &probes.readiness),
    ];
    all.into_iter()
        .filter_map(|(kind, probe)| Some((kind, probe.as_ref()?)))
}

#[cfg(test)]
mod tests;
