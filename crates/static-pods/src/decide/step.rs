//! What is done to a pod: one step is one line that people read, and one call or a few.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;

use super::why::Why;
use crate::spec::PullPolicy;

/// A step and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What to do.
    pub step: Step,
    /// Why.
    pub why: Why,
}

/// What is done to a pod. The steps of one decision are performed side by side, and each one is
/// reported to [`Memory::ended`](super::Memory::ended) once it has ended.
///
/// Pull, create and start are three steps, so that a pod can be ended while an image is pulled,
/// and a container that was created and not started is the same case for us as for our successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `RunPodSandbox`. Ends with [`Outcome::Created`].
    CreateSandbox {
        /// The attempt in its name.
        attempt: Attempt,
    },
    /// `StopPodSandbox`.
    StopSandbox {
        /// Which one.
        id: Id,
    },
    /// `RemovePodSandbox`.
    RemoveSandbox {
        /// Which one.
        id: Id,
    },
    /// Sees to it that the runtime has the image, by the policy. Ends with [`Outcome::Pulled`].
    EnsureImage {
        /// For which container.
        container: Arc<str>,
        /// The image as the manifest names it.
        image: String,
        /// Whether it is pulled.
        policy: PullPolicy,
    },
    /// `CreateContainer`. Ends with [`Outcome::Created`].
    CreateContainer {
        /// Which container of the pod.
        container: Arc<str>,
        /// The attempt in its name.
        attempt: Attempt,
        /// The sandbox that it runs in.
        sandbox: Id,
        /// The attempt of that sandbox.
        sandbox_attempt: u32,
        /// The image as [`Outcome::Pulled`] gave it.
        image: Arc<str>,
        /// The one that has exited before, as the runtime says.
        after: Option<Id>,
    },
    /// `StartContainer`.
    StartContainer {
        /// Which container of the pod.
        container: Arc<str>,
        /// Its id.
        id: Id,
        /// The attempt in its name.
        attempt: u32,
    },
    /// Runs `pre_stop` in the container, then `StopContainer` with what is left of `grace`
    /// (2 s at least).
    KillContainer {
        /// Which container of the pod.
        container: Arc<str>,
        /// Its id.
        id: Id,
        /// From now to SIGKILL.
        grace: Duration,
        /// The command to run in it before.
        pre_stop: Option<Vec<String>>,
    },
    /// `RemoveContainer`, and its logs.
    RemoveContainer {
        /// Which container of the pod.
        container: Arc<str>,
        /// Its id.
        id: Id,
        /// The attempt in its name.
        attempt: u32,
    },
    /// Removes what was made of the pod on this machine: its volumes and logs. Nothing of the pod
    /// is left in the runtime.
    RemoveVolumes,
}

impl Step {
    /// The container of the pod that it concerns.
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

    /// The word for it.
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

/// The attempt of a sandbox or container that may be created now.
///
/// Only a ledger makes one, and only where it can prove that nothing of that name lives. A runtime
/// reserves names by attempt, and an attempt is used again until it was seen: so even a creation
/// whose answer was lost and that is still under way cannot be doubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt(u32);

impl Attempt {
    /// The one after the highest that was seen.
    pub(super) fn after(highest: Option<u32>) -> Self {
        Self(highest.map_or(0, |highest| highest.saturating_add(1)))
    }

    /// Its number, from 0.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a step has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The sandbox or container was created.
    Created(Id),
    /// The runtime has the image, under this reference.
    Pulled(Arc<str>),
    /// The runtime has no such container or sandbox.
    Gone,
    /// The runtime refused, or something before the call did; it was not done.
    Failed(Arc<str>),
    /// No usable answer will arrive, for this reason: it may have been done, and may still be.
    Unanswered(Arc<str>),
}
