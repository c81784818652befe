//! Applies an event to the last known status of its pod, for clients that follow events between two
//! readings of the status.
//!
//! ```
//! use pleg::model::listed::SandboxState;
//! use pleg::model::status::PodStatus;
//! use pleg::out::apply::apply;
//!
//! let started = serde_json::from_str(
//!     r#"{"time": "2026-01-01T00:00:00Z", "type": "ContainerStarted", "id": "61ac7eca54e9",
//!         "pod": {"uid": "u", "namespace": "default", "name": "web-0"}, "subject": "sandbox",
//!         "initial": false, "source": "relist"}"#,
//! )?;
//! let mut status = PodStatus::unknown("u".into());
//! apply(&mut status, &started, None);
//! assert_eq!(status.sandboxes[0].state, SandboxState::Ready);
//! # Ok::<(), serde_json::Error>(())
//! ```

use crate::model::event::{Event, EventType};
use crate::model::id::Id;
use crate::model::listed::{ContainerState, SandboxState};
use crate::model::status::{ContainerStatus, PodStatus, SandboxStatus};
use crate::model::wall_time::WallTime;
use crate::records::diff::Subject;

/// Applies an event to the status of its pod; `happened` is when the runtime says that it happened, if
/// known. Applying it twice changes nothing more. Events carry no image and no address: those of a new
/// container or sandbox are empty.
pub fn apply(status: &mut PodStatus, event: &Event, happened: Option<WallTime>) {
    let Some(id) = &event.id else {
        return;
    };
    match (event.subject, event.event_type) {
        (_, EventType::PodSync) => {}
        (Some(Subject::Sandbox), EventType::ContainerRemoved) => {
            status.sandboxes.retain(|it| it.id != *id);
        }
        (Some(Subject::Sandbox), EventType::ContainerStarted) => {
            sandbox(status, id).state = SandboxState::Ready;
        }
        (Some(Subject::Sandbox), EventType::ContainerDied) => {
            sandbox(status, id).state = SandboxState::NotReady;
        }
        (_, EventType::ContainerRemoved) => {
            status.containers.retain(|it| it.id != *id);
        }
        (_, EventType::ContainerStarted) => {
            let container = container(status, id, event);
            container.state = ContainerState::Running;
            container.started_at = happened.or(container.started_at);
        }
        (_, EventType::ContainerDied) => {
            let container = container(status, id, event);
            container.state = ContainerState::Exited;
            container.exit_code = event.exit_code.or(container.exit_code);
            if event.reason.is_some() {
                container.reason.clone_from(&event.reason);
            }
            container.finished_at = happened.or(container.finished_at);
        }
    }
}

fn sandbox<'a>(status: &'a mut PodStatus, id: &Id) -> &'a mut SandboxStatus {
    let sandboxes = &mut status.sandboxes;
    let place = sandboxes.iter().position(|it| it.id == *id);
    let place = place.unwrap_or_else(|| {
        let attempt = sandboxes.iter().map(|it| it.attempt + 1).max();
        let new = SandboxStatus {
            attempt: attempt.unwrap_or(0),
            ..SandboxStatus::unknown(id.clone())
        };
        sandboxes.insert(0, new);
        0
    });
    &mut sandboxes[place]
}

fn container<'a>(status: &'a mut PodStatus, id: &Id, event: &Event) -> &'a mut ContainerStatus {
    let containers = &mut status.containers;
    let name = event.container.clone().unwrap_or_else(|| "".into());
    let place = containers.iter().position(|it| it.id == *id);
    let place = place.unwrap_or_else(|| {
        // Events do not carry the attempt. A kubelet counts upwards; the next status shows the number.
        let same_name = containers.iter().filter(|it| it.name == name);
        let attempt = same_name.map(|it| it.attempt + 1).max();
        let new = ContainerStatus {
            attempt: attempt.unwrap_or(0),
            ..ContainerStatus::unknown(id.clone(), name)
        };
        containers.insert(0, new);
        0
    });
    &mut containers[place]
}
