//! The kinds of episodes: the rows of a timeline.

use causes::Cause;
use serde::{Deserialize, Serialize};

/// The kind of an episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "what",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum What {
    /// A call to the runtime was not answered, or was answered after its limit.
    HungCall {
        /// The CRI method.
        call: String,
    },
    /// A task was blocked in the kernel, as the kernel reported.
    TaskBlocked,
    /// The node was NotReady, as the kubelet itself reported.
    NotReady,
    /// A kubelet on this node would have been NotReady.
    WouldBeNotReady,
    /// The kubelet neither started nor stopped pods, because its PLEG was not healthy.
    PodsSkipped,
    /// pleg was not healthy.
    Health {
        /// `Degraded` or `Unhealthy`.
        state: String,
    },
    /// No relist completed.
    NoRelist,
    /// A pod was not observed.
    PodWaited,
    /// The runtime could not be reached.
    RuntimeUnreachable,
    /// The runtime was unresponsive.
    RuntimeSilent,
    /// The runtime started.
    RuntimeStarted,
    /// The kubelet started.
    KubeletStarted,
    /// The guard answered lists in the runtime's place.
    Guarding,
    /// Something happened to a container or sandbox.
    Event {
        /// The kubelet's name for the event, such as `ContainerDied`.
        event: String,
        /// What reported it: `relist`, `sweep`, `stream` or `kernel`.
        source: String,
        /// Seconds from the event to its report; `None` if the runtime does not report when the
        /// event happened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay_seconds: Option<f64>,
    },
    /// There were no hints from the runtime or the kernel, so events were found by relists only.
    HintsMissing,
    /// A diagnosis of the node.
    Finding {
        /// The cause.
        cause: Cause,
        /// `low`, `medium`, `high` or `certain`.
        confidence: String,
    },
    /// A line that supports a cause.
    Sign {
        /// The cause.
        cause: Cause,
    },
    /// Nothing was recorded, or the recording is lost.
    NotRecorded,
}

/// The severity of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// For information.
    Info,
    /// A part of the node is affected, or the whole node may become affected.
    Warning,
    /// The whole node is affected.
    Error,
}

impl What {
    /// The severity.
    pub fn level(&self) -> Level {
        match self {
            Self::NotReady
            | Self::WouldBeNotReady
            | Self::PodsSkipped
            | Self::RuntimeUnreachable
            | Self::RuntimeSilent => Level::Error,
            Self::Health { state } if state == "Unhealthy" => Level::Error,
            Self::HungCall { .. }
            | Self::TaskBlocked
            | Self::Health { .. }
            | Self::NoRelist
            | Self::PodWaited
            | Self::Guarding
            | Self::Finding { .. }
            | Self::Sign { .. }
            | Self::NotRecorded => Level::Warning,
            Self::RuntimeStarted
            | Self::KubeletStarted
            | Self::HintsMissing
            | Self::Event { .. } => Level::Info,
        }
    }

    /// Its title in a list.
    pub fn title(&self) -> String {
        match self {
            Self::HungCall { call } => format!("{call} hangs"),
            Self::TaskBlocked => "task blocked".into(),
            Self::NotReady => "NotReady".into(),
            Self::WouldBeNotReady => "would be NotReady".into(),
            Self::PodsSkipped => "pods are not synced".into(),
            Self::Health { state } => state.clone(),
            Self::NoRelist => "no relist".into(),
            Self::PodWaited => "pod not observed".into(),
            Self::RuntimeUnreachable => "runtime unreachable".into(),
            Self::RuntimeSilent => "runtime unresponsive".into(),
            Self::RuntimeStarted => "runtime started".into(),
            Self::KubeletStarted => "kubelet started".into(),
            Self::Guarding => "guarding".into(),
            Self::Event { event, .. } => event.clone(),
            Self::HintsMissing => "event stream or kernel hints missing".into(),
            Self::Finding { cause, .. } | Self::Sign { cause } => cause.id().into(),
            Self::NotRecorded => "not recorded".into(),
        }
    }
}
