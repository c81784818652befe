//! The steps that change a pod. Each step writes one line of output and makes one or a few calls.

use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;

use super::why::Why;
use crate::spec::PullPolicy;

/// A step and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub step: Step,
    pub why: Why,
}

/// A step that changes a pod. The steps of one decision are performed in parallel, and the outcome
/// of each is passed to [`Memory::note_outcome`](super::Memory::note_outcome).
///
/// Pull, create and start are three steps, so that a pod can end while an image is pulled. A
/// container that was created but not started is handled the same way, whichever run created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `RunPodSandbox`. Ends with [`Outcome::Created`].
    CreateSandbox { attempt: Attempt },
    /// `StopPodSandbox`.
    StopSandbox { id: Id },
    /// `RemovePodSandbox`.
    RemoveSandbox { id: Id },
    /// Checks for the image, and pulls it if the policy requires it. Ends with [`Outcome::Pulled`].
    EnsureImage {
        container: Arc<str>,
        /// The image as the manifest names it.
        image: String,
        /// When to pull the image.
        policy: PullPolicy,
    },
    /// `CreateContainer`. Ends with [`Outcome::Created`].
    CreateContainer {
        container: Arc<str>,
        attempt: Attempt,
        /// The sandbox that it runs in.
        sandbox: Id,
        /// The attempt of that sandbox.
        sandbox_attempt: u32,
        /// The image reference from [`Outcome::Pulled`].
        image: Arc<str>,
        /// The previous container with this name, which the runtime has shown as exited.
        after: Option<Id>,
    },
    /// `StartContainer`.
    StartContainer {
        container: Arc<str>,
        id: Id,
        attempt: u32,
    },
    /// Runs `pre_stop` in the container, then sends `StopContainer` with the rest of `grace`, but
    /// with at least 2 s.
    KillContainer {
        container: Arc<str>,
        id: Id,
        /// The time until SIGKILL, including the time in which `pre_stop` runs.
        grace: Duration,
        /// The command to run in the container first.
        pre_stop: Option<Vec<String>>,
    },
    /// `RemoveContainer`, then the removal of the container's logs.
    RemoveContainer {
        container: Arc<str>,
        id: Id,
        attempt: u32,
    },
    /// Removes the pod's volumes and logs on this host, once nothing of it is in the runtime.
    RemoveVolumes,
}

impl Step {
    /// The name of the container, if the step concerns one.
    pub fn container(&self) -> Option<&Arc<str>> {
        match self {
            Self::EnsureImage { container, .. }
            | Self::CreateContainer { container, .. }
            | Self::StartContainer { container, .. }
            | Self::KillContainer { container, .. }
            | Self::RemoveContainer { container, .. } => Some(container),
            _ => None,
        }
    }

    /// The name of the step, for programs.
    pub fn action(&self) -> &'static str {
        match self {
            Self::CreateSandbox { .. } => "CreateSandbox",
            Self::StopSandbox { .. } => "StopSandbox",
            Self::RemoveSandbox { .. } => "RemoveSandbox",
            Self::EnsureImage { .. } => "EnsureImage",
            Self::CreateContainer { .. } => "CreateContainer",
            Self::StartContainer { .. } => "StartContainer",
            Self::KillContainer { .. } => "KillContainer",
            Self::RemoveContainer { .. } => "RemoveContainer",
            Self::RemoveVolumes => "RemoveVolumes",
        }
    }
}

/// The attempt of a sandbox or container that can be created now.
///
/// It exists only if it is certain that nothing with that name runs. A runtime reserves names by
/// attempt, and an attempt is reused until it has been observed. So a creation whose answer was lost
/// cannot lead to a second copy, even if it is still in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt(u32);

impl Attempt {
    /// The attempt after the highest one that was observed.
    pub(super) fn after(highest: Option<u32>) -> Self {
        Self(highest.map_or(0, |highest| highest.saturating_add(1)))
    }
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The sandbox or container was created.
    Created(Id),
    /// The runtime has the image, under this reference.
    Pulled(Arc<str>),
    /// The runtime has no such container or sandbox.
    Gone,
    /// The step was not done: the runtime refused, or a check before the call failed.
    Failed(Arc<str>),
    /// The step may have been done or may still be done: for this reason, no usable answer will
    /// arrive.
    AnswerLost(Arc<str>),
}
