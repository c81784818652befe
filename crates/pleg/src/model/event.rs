//! Events: what happened in a pod, inferred from observations.
//!
//! ```
//! use pleg::model::event::{Event, EventType};
//!
//! let event: Event = serde_json::from_str(
//!     r#"{
//!         "time": "2026-01-01T00:00:10.050000000Z",
//!         "type": "ContainerDied",
//!         "pod": {"uid": "0b1c", "namespace": "default", "name": "web-0"},
//!         "id": "61ac7eca54e9",
//!         "subject": "container",
//!         "container": "app",
//!         "exitCode": 137,
//!         "reason": "Error",
//!         "initial": false,
//!         "source": "kernel"
//!     }"#,
//! )?;
//! assert_eq!(event.event_type, EventType::ContainerDied);
//! assert_eq!(event.pod.to_string(), "default/web-0");
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::id::{Id, PodRef};
use crate::model::wall_time::WallTime;
use crate::records::diff::Subject;

/// The kubelet's event types, under its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventType {
    /// A container or sandbox runs.
    ContainerStarted,
    /// A container or sandbox has exited.
    ContainerDied,
    /// The runtime no longer has a container or sandbox.
    ContainerRemoved,
    /// The pod was inspected on request, and nothing happened.
    PodSync,
}

impl EventType {
    /// All types, in the order in which they are shown.
    pub const ALL: [Self; 4] = [
        Self::ContainerStarted,
        Self::ContainerDied,
        Self::ContainerRemoved,
        Self::PodSync,
    ];

    /// The type's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContainerStarted => "ContainerStarted",
            Self::ContainerDied => "ContainerDied",
            Self::ContainerRemoved => "ContainerRemoved",
            Self::PodSync => "PodSync",
        }
    }
}

/// What caused the observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// The periodic list.
    Relist,
    /// A sweep by id, while a list is unavailable.
    Sweep,
    /// A hint of the runtime's event stream.
    Stream,
    /// A hint of the kernel: a process exited, or a container or sandbox was about to start.
    Kernel,
}

impl Source {
    /// The source's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Relist => "relist",
            Self::Sweep => "sweep",
            Self::Stream => "stream",
            Self::Kernel => "kernel",
        }
    }
}

/// Something happened in a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When the event was reported.
    pub time: WallTime,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The pod.
    pub pod: PodRef,
    /// The container or sandbox; `None` for `PodSync`.
    pub id: Option<Id>,
    /// Whether the id belongs to a container or a sandbox; `None` for `PodSync`.
    pub subject: Option<Subject>,
    /// The container's name; `None` for a sandbox.
    pub container: Option<Arc<str>>,
    /// The exit code of a container that died, where the runtime still knows it.
    pub exit_code: Option<i32>,
    /// The runtime's reason for the exit (`Error`, `OOMKilled`, `Completed`).
    pub reason: Option<Arc<str>>,
    /// Whether the event describes what existed already, and not a change that was observed.
    pub initial: bool,
    /// What caused the observation.
    pub source: Source,
}
