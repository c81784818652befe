//! A decision in progress.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::retry::Retry;
use super::slot::{KnownContainer, Life};
use super::step::{Planned, Step};
use super::why::Why;

/// The steps so far, and what the pod and its containers wait for.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) now: Instant,
    pub(super) steps: Vec<Planned>,
    pub(super) wake_at: Option<Instant>,
    /// Whether something waits for a newer view.
    pub(super) needs_view: bool,
    /// Why the sandbox, or the pod as a whole, waits.
    pub(super) sandbox: Option<Why>,
    /// Why containers wait.
    pub(super) containers: BTreeMap<Arc<str>, Why>,
}

impl Draft {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            now,
            steps: Vec::new(),
            wake_at: None,
            needs_view: false,
            sandbox: None,
            containers: BTreeMap::new(),
        }
    }

    pub(super) fn step(&mut self, step: Step, why: Why) {
        if let Some(container) = step.container() {
            let waits = self.containers.entry(container.clone());
            waits.or_insert(Why::ContainerCreating);
        }
        self.steps.push(Planned { step, why });
    }

    /// Adds a step that ends a sandbox or removes the volumes. If the last attempt failed recently,
    /// this notes a wait instead.
    pub(super) fn end_step(&mut self, step: Step, retry: &Retry, why: &Why) {
        match retry.blocked_by(self.now) {
            Some(failure) => self.sandbox_waits(Why::StopError(failure.clone())),
            None => self.step(step, why.clone()),
        }
    }

    /// Adds a step that kills a container, or notes why it must wait. `pre_stop` is the command of
    /// the container's hook.
    pub(super) fn kill(
        &mut self,
        known: &KnownContainer,
        grace: Duration,
        pre_stop: Option<&Vec<String>>,
        why: Why,
    ) {
        if known.was_stopped && !known.is_fresh() {
            self.container_waits(&known.name, Why::NotSeen);
        } else if self.can_begin_step(known) {
            // A command can only run in a running container.
            let pre_stop = pre_stop.filter(|_| known.life == Life::Running);
            let step = Step::KillContainer {
                container: known.name.clone(),
                id: known.id.clone(),
                grace,
                pre_stop: pre_stop.cloned(),
            };
            self.step(step, why);
        }
    }

    /// Adds a step that removes a container, or notes why it must wait.
    pub(super) fn remove(&mut self, known: &KnownContainer, why: Why) {
        if self.can_begin_step(known) {
            self.step(known.removal(), why);
        }
    }

    /// Whether a step on a container may start: no other step on it is in progress, and none failed
    /// recently. If one failed recently, this notes the wait.
    pub(super) fn can_begin_step(&mut self, known: &KnownContainer) -> bool {
        if known.operation.is_some() {
            return false;
        }
        let failure = known.retry.blocked_by(self.now);
        if let Some(failure) = failure {
            self.container_waits(&known.name, Why::StopError(failure.clone()));
        }
        failure.is_none()
    }

    /// Notes why the sandbox waits.
    pub(super) fn sandbox_waits(&mut self, why: Why) {
        self.note(&why);
        self.sandbox = Some(why);
    }

    /// Notes why a container waits.
    pub(super) fn container_waits(&mut self, container: &Arc<str>, why: Why) {
        self.note(&why);
        self.containers.insert(container.clone(), why);
    }

    fn note(&mut self, why: &Why) {
        self.needs_view |= matches!(why, Why::NotSeen | Why::AnswerLost);
        if let Some(until) = why.until() {
            self.wake(until);
        }
    }

    /// Requests another decision no later than at this time.
    pub(super) fn wake(&mut self, at: Instant) {
        self.wake_at = Some(self.wake_at.map_or(at, |wake_at| wake_at.min(at)));
    }
}
