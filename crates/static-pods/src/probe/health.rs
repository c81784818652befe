//! What the probes have found of the containers that run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pleg::model::id::Id;

use crate::spec::Probes;

/// Which of a container's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `startupProbe`
    Startup,
    /// `livenessProbe`
    Liveness,
    /// `readinessProbe`
    Readiness,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Startup => "startup",
            Self::Liveness => "liveness",
            Self::Readiness => "readiness",
        })
    }
}

/// A probe that failed so often that its container must be killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedProbe {
    /// Startup or liveness.
    pub kind: Kind,
    /// What the last check found.
    pub message: Arc<str>,
}

/// What the probes of a pod have found, by container id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    pub(super) containers: BTreeMap<Id, ContainerHealth>,
}

/// What the probes of one container have found. Before anything was: not started, not ready, alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerHealth {
    pub(super) is_started: bool,
    pub(super) is_ready: bool,
    pub(super) failed: Option<FailedProbe>,
}

impl Health {
    /// For tests: these have started, and these have failed their liveness probe.
    #[cfg(test)]
    pub(crate) fn of_test<'a>(
        started: impl IntoIterator<Item = &'a Id>,
        failed: impl IntoIterator<Item = &'a Id>,
    ) -> Self {
        let mut health = Self::default();
        for id in started {
            health.containers.entry(id.clone()).or_default().is_started = true;
        }
        for id in failed {
            let (kind, message) = (Kind::Liveness, "refused".into());
            let entry = health.containers.entry(id.clone()).or_default();
            entry.failed = Some(FailedProbe { kind, message });
        }
        health
    }

    /// Why the container must be killed.
    pub fn failed(&self, id: &Id) -> Option<&FailedProbe> {
        self.containers.get(id)?.failed.as_ref()
    }

    /// Whether a container that runs has started: at once, or when its startup probe succeeds.
    pub fn is_started(&self, id: &Id, probes: &Probes) -> bool {
        let found = self.containers.get(id).is_some_and(|it| it.is_started);
        probes.startup.is_none() || found
    }

    /// Whether a container that runs is ready.
    pub fn is_ready(&self, id: &Id, probes: &Probes) -> bool {
        let found = self.containers.get(id).is_some_and(|it| it.is_ready);
        self.is_started(id, probes) && (probes.readiness.is_none() || found)
    }
}
