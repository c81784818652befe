//! The health of the running containers, according to their probes.

use std::collections::BTreeMap;
use std::sync::Arc;

use pleg::model::id::Id;

use crate::spec::{ProbeKind, Probes};

/// A probe that has failed, so that its container must be killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedProbe {
    /// The kind of the probe: startup or liveness.
    pub kind: ProbeKind,
    /// The message of the last check.
    pub message: Arc<str>,
}

/// The health of a pod's containers, by container id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    pub(super) containers: BTreeMap<Id, ContainerHealth>,
}

/// The health of one container. Before the first result it is not started, not ready, and alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerHealth {
    pub(super) is_started: bool,
    pub(super) is_ready: bool,
    pub(super) failed: Option<FailedProbe>,
}

impl Health {
    /// For tests: the health of containers that have started, and of some whose liveness probe has
    /// failed.
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
            let (kind, message) = (ProbeKind::Liveness, "refused".into());
            let entry = health.containers.entry(id.clone()).or_default();
            entry.failed = Some(FailedProbe { kind, message });
        }
        health
    }

    /// Why the container must be killed, if it must.
    pub fn failed(&self, id: &Id) -> Option<&FailedProbe> {
        self.containers.get(id)?.failed.as_ref()
    }

    /// Whether a running container counts as started: once its startup probe has succeeded, or at
    /// once if it has none.
    pub fn is_started(&self, id: &Id, probes: &Probes) -> bool {
        let has_succeeded = self.containers.get(id).is_some_and(|it| it.is_started);
        probes.startup.is_none() || has_succeeded
    }

    /// Whether a running container is ready.
    pub fn is_ready(&self, id: &Id, probes: &Probes) -> bool {
        let has_succeeded = self.containers.get(id).is_some_and(|it| it.is_ready);
        self.is_started(id, probes) && (probes.readiness.is_none() || has_succeeded)
    }
}
