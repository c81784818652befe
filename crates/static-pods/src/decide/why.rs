//! Why a step is performed or delayed: the `why` of the lines that `pleg run` prints.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::retry::{Failure, Pause};

/// Why a step is performed, or why a container or a pod waits.
///
/// [`Why::name`] is one word for programs: Kubernetes' own where it has one. `Display` is a
/// sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is a manifest and no pod yet.
    PodAdded,
    /// The container has not run yet.
    ContainerAdded,
    /// The container was created, and is started now.
    ContainerCreated,
    /// An earlier run created the container and ended before it started it. The UID identifies the
    /// manifest, so the container is the wanted one and can be started.
    LeftUnstarted,
    /// The container has exited.
    ContainerDied {
        /// The exit code, if the runtime reports it.
        exit_code: Option<i32>,
    },
    /// The container failed its liveness probe. Contains the message of the last check.
    LivenessFailed(Arc<str>),
    /// The container failed its startup probe. Contains the message of the last check.
    StartupFailed(Arc<str>),
    /// The runtime does not know whether the container runs.
    StateUnknown,
    /// Another container with this name runs.
    SecondContainer,
    /// The container was created but could not be started. Contains the runtime's message.
    StartFailed(Arc<str>),
    /// The pod's sandbox has stopped.
    SandboxNotReady,
    /// The pod's sandbox has no IP address.
    SandboxHasNoAddress,
    /// The pod has several running sandboxes.
    SecondSandbox,
    /// The pod gets a new sandbox, in which its init containers run again.
    SandboxChanged,
    /// An init container failed, and the restart policy is `Never`.
    InitContainerFailed {
        /// The init container.
        container: Arc<str>,
        /// Its exit code.
        exit_code: Option<i32>,
    },
    /// All containers of the pod have exited, and none will be restarted.
    PodFinished,
    /// The manifest was changed: the pod is replaced.
    ManifestChanged,
    /// The manifest was removed.
    ManifestRemoved,
    /// All pods are being ended (`--down`).
    ShuttingDown,
    /// A dead container or sandbox is removed, because a newer one is kept.
    GarbageCollected,

    /// The container keeps exiting.
    CrashLoopBackOff(Pause),
    /// The pod's sandbox keeps stopping.
    SandboxBackOff(Pause),
    /// The image could not be pulled.
    ImagePullBackOff(Failure),
    /// The container could not be created or started.
    CreateContainerError(Failure),
    /// The sandbox could not be created.
    CreateSandboxError(Failure),
    /// The runtime refused to stop or to remove something.
    StopError(Failure),
    /// The image is being pulled, or the container created or started.
    ContainerCreating,
    /// Other containers of the pod must start or finish first.
    PodInitializing,
    /// The runtime does not report the exit code yet.
    ExitCodePending,
    /// The status call of the container is stuck. Nothing is done to it until the call is answered.
    StatusStuck,
    /// The status call of the container fails. Nothing is done to it until a call succeeds.
    StatusFails,
    /// The runtime's list and its status show different states. Nothing is done to the container
    /// until they agree.
    StatusContradictsList,
    /// The process is dead according to the kernel, but the runtime reports the container as
    /// running. Nothing is done to it until the runtime reports the exit.
    ProcessDead,
    /// The runtime reports that the network of pods is not ready.
    NetworkNotReady,
    /// The pod is not observed. Nothing is created until it is.
    NotSeen,
    /// The answer to a creation was lost. Nothing is created until a view shows its outcome.
    AnswerLost,
    /// The container or the pod is being ended.
    Terminating,
}

impl Why {
    /// When the wait ends, if that time is known.
    pub fn until(&self) -> Option<Instant> {
        match self {
            Self::CrashLoopBackOff(pause) | Self::SandboxBackOff(pause) => Some(pause.until),
            Self::ImagePullBackOff(failure)
            | Self::CreateContainerError(failure)
            | Self::CreateSandboxError(failure)
            | Self::StopError(failure) => Some(failure.until),
            _ => None,
        }
    }

    /// The name of the reason, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PodAdded => "PodAdded",
            Self::ContainerAdded => "ContainerAdded",
            Self::ContainerCreated => "ContainerCreated",
            Self::LeftUnstarted => "LeftUnstarted",
            Self::ContainerDied { .. } => "ContainerDied",
            Self::LivenessFailed(_) => "LivenessFailed",
            Self::StartupFailed(_) => "StartupFailed",
            Self::StateUnknown => "StateUnknown",
            Self::SecondContainer => "SecondContainer",
            Self::StartFailed(_) => "StartFailed",
            Self::SandboxNotReady => "SandboxNotReady",
            Self::SandboxHasNoAddress => "SandboxHasNoAddress",
            Self::SecondSandbox => "SecondSandbox",
            Self::SandboxChanged => "SandboxChanged",
            Self::InitContainerFailed { .. } => "InitContainerFailed",
            Self::PodFinished => "PodFinished",
            Self::ManifestChanged => "ManifestChanged",
            Self::ManifestRemoved => "ManifestRemoved",
            Self::ShuttingDown => "ShuttingDown",
            Self::GarbageCollected => "GarbageCollected",
            Self::CrashLoopBackOff(_) => "CrashLoopBackOff",
            Self::SandboxBackOff(_) => "SandboxBackOff",
            Self::ImagePullBackOff(_) => "ImagePullBackOff",
            Self::CreateContainerError(_) => "CreateContainerError",
            Self::CreateSandboxError(_) => "CreateSandboxError",
            Self::StopError(_) => "StopError",
            Self::ContainerCreating => "ContainerCreating",
            Self::PodInitializing => "PodInitializing",
            Self::ExitCodePending => "ExitCodePending",
            Self::StatusStuck => "StatusStuck",
            Self::StatusFails => "StatusFails",
            Self::StatusContradictsList => "StatusContradictsList",
            Self::ProcessDead => "ProcessDead",
            Self::NetworkNotReady => "NetworkNotReady",
            Self::NotSeen => "NotSeen",
            Self::AnswerLost => "AnswerLost",
            Self::Terminating => "Terminating",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PodAdded => "a manifest was added",
            Self::ContainerAdded => "the container has not run yet",
            Self::ContainerCreated => "the container was created",
            Self::LeftUnstarted => "an earlier run created the container and did not start it",
            Self::ContainerDied { exit_code: None } => {
                "the container exited; its exit code is not known"
            }
            Self::ContainerDied {
                exit_code: Some(code),
            } => return write!(f, "the container exited with code {code}"),
            Self::LivenessFailed(message) => {
                return write!(f, "the liveness probe failed: {message}");
            }
            Self::StartupFailed(message) => {
                return write!(f, "the startup probe failed: {message}");
            }
            Self::StateUnknown => "the runtime does not know the state of the container",
            Self::SecondContainer => "another container of this name runs",
            Self::StartFailed(message) => {
                return write!(f, "the container could not be started: {message}");
            }
            Self::SandboxNotReady => "the sandbox has stopped",
            Self::SandboxHasNoAddress => "the sandbox has no IP address",
            Self::SecondSandbox => "the pod has more than one running sandbox",
            Self::SandboxChanged => "the pod gets a new sandbox",
            Self::InitContainerFailed {
                container,
                exit_code,
            } => {
                write!(f, "init container {container} failed")?;
                return match exit_code {
                    Some(code) => write!(f, " with exit code {code}"),
                    None => Ok(()),
                };
            }
            Self::PodFinished => "all containers of the pod have finished",
            Self::ManifestChanged => "the manifest was changed",
            Self::ManifestRemoved => "the manifest was removed",
            Self::ShuttingDown => "all pods are being ended",
            Self::GarbageCollected => "a newer one is kept",
            Self::CrashLoopBackOff(Pause { length, .. }) => {
                let seconds = length.as_secs();
                return write!(f, "back-off {seconds} s restarting the container");
            }
            Self::SandboxBackOff(Pause { length, .. }) => {
                return write!(f, "back-off {} s creating a sandbox", length.as_secs());
            }
            Self::ImagePullBackOff(Failure { message, .. }) => {
                return write!(f, "back-off pulling the image: {message}");
            }
            Self::CreateContainerError(Failure { message, .. }) => {
                return write!(f, "the container could not be created: {message}");
            }
            Self::CreateSandboxError(Failure { message, .. }) => {
                return write!(f, "the sandbox could not be created: {message}");
            }
            Self::StopError(Failure { message, .. }) => {
                return write!(f, "it could not be stopped or removed: {message}");
            }
            Self::ContainerCreating => "the container is being created",
            Self::PodInitializing => "waiting for the containers before it",
            Self::ExitCodePending => "waiting for the exit code",
            Self::StatusStuck => "its status call has not been answered",
            Self::StatusFails => "its status call fails",
            Self::StatusContradictsList => {
                "the runtime's list and its status contradict each other"
            }
            Self::ProcessDead => "its process is dead, but the runtime reports it as running",
            Self::NetworkNotReady => {
                "the runtime's network is not ready (pods with hostNetwork need none)"
            }
            Self::NotSeen => "it is not known which containers of the pod run",
            Self::AnswerLost => "the runtime has not shown yet what became of a creation",
            Self::Terminating => "it is being ended",
        })
    }
}
