//! A decision in progress.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::retry::Retry;
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
            let container = container.clone();
            self.containers
                .entry(container)
                .or_insert(Why::ContainerCreating);
        }
        self.steps.push(Planned { step, why });
    }

    /// Adds a step that ends the pod, or a wait if the last attempt failed recently.
    pub(super) fn end_step(&mut self, step: Step, retry: &Retry, why: &Why) {
        match retry.blocked_by(self.now) {
            Some(failure) => {
                let (until, message) = (failure.until, failure.message.clone());
                self.sandbox_waits(Why::StopError { until, message });
            }
            None => self.step(step, why.clone()),
        }
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
        match why {
            Why::NotSeen | Why::AnswerLost => self.needs_view = true,
            Why::CrashLoopBackOff { until, .. }
            | Why::SandboxBackOff { until, .. }
            | Why::ImagePullBackOff { until, .. }
            | Why::CreateContainerError { until, .. }
            | Why::CreateSandboxError { until, .. }
            | Why::StopError { until, .. } => self.wake(*until),
            _ => {}
        }
    }

    /// Requests another decision at this time.
    pub(super) fn wake(&mut self, at: Instant) {
        self.wake_at = Some(self.wake_at.map_or(at, |wake_at| wake_at.min(at)));
    }
}
