//! A decision that is being made.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::retry::Retry;
use super::step::{Planned, Step};
use super::why::Why;

/// The steps so far, and what is waited for.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) now: Instant,
    pub(super) steps: Vec<Planned>,
    pub(super) wake_at: Option<Instant>,
    /// Something can only be done after a newer look.
    pub(super) wants_look: bool,
    /// What the sandbox waits for.
    pub(super) sandbox: Option<Why>,
    /// What containers wait for.
    pub(super) containers: BTreeMap<Arc<str>, Why>,
}

impl Draft {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            now,
            steps: Vec::new(),
            wake_at: None,
            wants_look: false,
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

    /// A step towards the pod's end, or a wait after the failure of the last attempt.
    pub(super) fn end_step(&mut self, step: Step, retry: &Retry, why: &Why) {
        match retry.holds(self.now) {
            Some(failure) => {
                let (until, message) = (failure.until, failure.message.clone());
                self.sandbox_waits(Why::StopError { until, message });
            }
            None => self.step(step, why.clone()),
        }
    }

    /// The sandbox waits.
    pub(super) fn sandbox_waits(&mut self, why: Why) {
        self.note(&why);
        self.sandbox = Some(why);
    }

    /// A container waits.
    pub(super) fn waits(&mut self, container: &Arc<str>, why: Why) {
        self.note(&why);
        self.containers.insert(container.clone(), why);
    }

    fn note(&mut self, why: &Why) {
        match why {
            Why::NotSeen | Why::AnswerLost => self.wants_look = true,
            Why::CrashLoopBackOff { until, .. }
            | Why::SandboxBackOff { until, .. }
            | Why::ImagePullBackOff { until, .. }
            | Why::CreateContainerError { until, .. }
            | Why::CreateSandboxError { until, .. }
            | Why::StopError { until, .. } => self.wake(*until),
            _ => {}
        }
    }

    /// At this time the decision is made again.
    pub(super) fn wake(&mut self, at: Instant) {
        self.wake_at = Some(self.wake_at.map_or(at, |wake_at| wake_at.min(at)));
    }
}
