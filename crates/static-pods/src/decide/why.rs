//! Why a step is performed or delayed: the `why` of the lines that `pleg run` prints.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Why a step is performed, or why a container or a pod waits.
///
/// [`Why::name`] is one word for programs, and Kubernetes' own word where there is one. `Display`
/// is a sentence for people.
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
    /// The container failed its liveness probe.
    LivenessFailed {
        /// What the last check found.
        message: Arc<str>,
    },
    /// The container failed its startup probe.
    StartupFailed {
        /// What the last check found.
        message: Arc<str>,
    },
    /// The runtime does not know whether the container runs.
    StateUnknown,
    /// Another container with this name runs.
    SecondContainer,
    /// The container was created but could not be started.
    StartFailed {
        /// The runtime's message.
        message: Arc<str>,
    },
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
    /// All containers of the pod have exited, and none is restarted.
    PodFinished,
    /// The manifest was changed: the pod is replaced.
    ManifestChanged,
    /// The manifest was removed.
    ManifestRemoved,
    /// All pods are ended (`--down`).
    ShuttingDown,
    /// Dead containers and sandboxes are removed, except for the newest one.
    GarbageCollected,

    /// The container keeps exiting.
    CrashLoopBackOff {
        /// When it is restarted.
        until: Instant,
        /// The delay after its last exit.
        delay: Duration,
    },
    /// The pod's sandbox keeps stopping.
    SandboxBackOff {
        /// When the next one is created.
        until: Instant,
        /// The delay after the last one stopped.
        delay: Duration,
    },
    /// The image could not be pulled.
    ImagePullBackOff {
        /// When it is pulled again.
        until: Instant,
        /// The last failure.
        message: Arc<str>,
    },
    /// The container could not be created or started.
    CreateContainerError {
        /// When the next attempt starts.
        until: Instant,
        /// The last failure.
        message: Arc<str>,
    },
    /// The sandbox could not be created.
    CreateSandboxError {
        /// When the next attempt starts.
        until: Instant,
        /// The last failure.
        message: Arc<str>,
    },
    /// The runtime refused to stop or to remove something.
    StopError {
        /// When the next attempt starts.
        until: Instant,
        /// The last failure.
        message: Arc<str>,
    },
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
            Self::CrashLoopBackOff { until, .. }
            | Self::SandboxBackOff { until, .. }
            | Self::ImagePullBackOff { until, .. }
            | Self::CreateContainerError { until, .. }
            | Self::CreateSandboxError { until, .. }
            | Self::StopError { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// One word, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PodAdded => "PodAdded",
            Self::ContainerAdded => "ContainerAdded",
            Self::ContainerCreated => "ContainerCreated",
            Self::LeftUnstarted => "LeftUnstarted",
            Self::ContainerDied { .. } => "ContainerDied",
            Self::LivenessFailed { .. } => "LivenessFailed",
            Self::StartupFailed { .. } => "StartupFailed",
            Self::StateUnknown => "StateUnknown",
            Self::SecondContainer => "SecondContainer",
            Self::StartFailed { .. } => "StartFailed",
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
            Self::CrashLoopBackOff { .. } => "CrashLoopBackOff",
            Self::SandboxBackOff { .. } => "SandboxBackOff",
            Self::ImagePullBackOff { .. } => "ImagePullBackOff",
            Self::CreateContainerError { .. } => "CreateContainerError",
            Self::CreateSandboxError { .. } => "CreateSandboxError",
            Self::StopError { .. } => "StopError",
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
        match self {
            Self::PodAdded => f.write_str("a manifest was added"),
            Self::ContainerAdded => f.write_str("the container has not run yet"),
            Self::ContainerCreated => f.write_str("the container was created"),
            Self::LeftUnstarted => {
                f.write_str("an earlier run created the container and did not start it")
            }
            Self::ContainerDied {
                exit_code: Some(code),
            } => write!(f, "the container exited with code {code}"),
            Self::ContainerDied { exit_code: None } => {
                f.write_str("the container exited; its exit code is not known")
            }
            Self::LivenessFailed { message } => write!(f, "the liveness probe failed: {message}"),
            Self::StartupFailed { message } => write!(f, "the startup probe failed: {message}"),
            Self::StateUnknown => {
                f.write_str("the runtime does not know the state of the container")
            }
            Self::SecondContainer => f.write_str("another container of this name runs"),
            Self::StartFailed { message } => {
                write!(f, "the container could not be started: {message}")
            }
            Self::SandboxNotReady => f.write_str("the sandbox has stopped"),
            Self::SandboxHasNoAddress => f.write_str("the sandbox has no IP address"),
            Self::SecondSandbox => f.write_str("the pod has more than one running sandbox"),
            Self::SandboxChanged => f.write_str("the pod gets a new sandbox"),
            Self::InitContainerFailed {
                container,
                exit_code: Some(code),
            } => write!(f, "init container {container} failed with exit code {code}"),
            Self::InitContainerFailed { container, .. } => {
                write!(f, "init container {container} failed")
            }
            Self::PodFinished => f.write_str("all containers of the pod have finished"),
            Self::ManifestChanged => f.write_str("the manifest was changed"),
            Self::ManifestRemoved => f.write_str("the manifest was removed"),
            Self::ShuttingDown => f.write_str("all pods are being ended"),
            Self::GarbageCollected => f.write_str("a newer one is kept"),
            Self::CrashLoopBackOff { delay, .. } => {
                write!(f, "back-off {} s restarting the container", delay.as_secs())
            }
            Self::SandboxBackOff { delay, .. } => {
                write!(f, "back-off {} s creating a sandbox", delay.as_secs())
            }
            Self::ImagePullBackOff { message, .. } => {
                write!(f, "back-off pulling the image: {message}")
            }
            Self::CreateContainerError { message, .. } => {
                write!(f, "the container could not be created: {message}")
            }
            Self::CreateSandboxError { message, .. } => {
                write!(f, "the sandbox could not be created: {message}")
            }
            Self::StopError { message, .. } => write!(f, "it could not be ended: {message}"),
            Self::ContainerCreating => f.write_str("the container is being created"),
            Self::PodInitializing => f.write_str("waiting for the containers before it"),
            Self::ExitCodePending => f.write_str("waiting for the exit code"),
            Self::StatusStuck => f.write_str("its status call has not been answered"),
            Self::StatusFails => f.write_str("its status call fails"),
            Self::StatusContradictsList => {
                f.write_str("the runtime's list and its status contradict each other")
            }
            Self::ProcessDead => {
                f.write_str("its process is dead, but the runtime reports it as running")
            }
            Self::NetworkNotReady => {
                f.write_str("the runtime's network is not ready (pods with hostNetwork need none)")
            }
            Self::NotSeen => f.write_str("it is not known which containers of the pod run"),
            Self::AnswerLost => {
                f.write_str("the runtime has not shown yet what became of a creation")
            }
            Self::Terminating => f.write_str("it is being ended"),
        }
    }
}
