//! Pods, as events change them. An event does not tell an image, an address or an attempt: those
//! of what is new are empty until all pods were recorded again.

use pleg::model::event::{Event, EventType};
use pleg::model::id::Id;
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::model::status::{ContainerStatus, PodStatus, SandboxStatus};
use pleg::model::wall_time::WallTime;
use pleg::out::pods::PodReport;
use pleg::records::diff::Subject;

/// Changes the pods as the event tells.
pub(super) fn apply(pods: &mut Vec<PodReport>, event: &Event, happened: Option<WallTime>) {
    let uid = &event.pod.uid;
    let place = pods.iter().position(|pod| pod.status.uid == *uid);
    let place = match (place, event.event_type) {
        (Some(place), _) => place,
        (None, EventType::ContainerStarted | EventType::ContainerDied) => {
            pods.push(unknown(event));
            pods.len() - 1
        }
        (None, EventType::ContainerRemoved | EventType::PodSync) => return,
    };
    let pod = &mut pods[place];
    pod.as_of = Some(event.time);
    pod.error = None;
    match (event.subject, &event.id) {
        (Some(Subject::Container), Some(id)) => container(&mut pod.status, id, event, happened),
        (Some(Subject::Sandbox), Some(id)) => sandbox(&mut pod.status, id, event),
        _ => {}
    }
    if pod.status.sandboxes.is_empty() && pod.status.containers.is_empty() {
        pods.remove(place);
    }
}

fn unknown(event: &Event) -> PodReport {
    PodReport {
        status: PodStatus {
            namespace: event.pod.namespace.clone(),
            name: event.pod.name.clone(),
            ..PodStatus::unknown(event.pod.uid.clone())
        },
        as_of: None,
        error: None,
        static_pod: None,
    }
}

fn container(pod: &mut PodStatus, id: &Id, event: &Event, happened: Option<WallTime>) {
    if event.event_type == EventType::ContainerRemoved {
        pod.containers.retain(|container| container.id != *id);
        return;
    }
    if pod.container(id).is_none() {
        // The newest is the first.
        pod.containers.insert(0, new_container(id, event));
    }
    let Some(container) = pod.containers.iter_mut().find(|it| it.id == *id) else {
        return;
    };
    match event.event_type {
        EventType::ContainerStarted => {
            container.state = ContainerState::Running;
            container.started_at = happened.or(container.started_at);
        }
        EventType::ContainerDied => {
            container.state = ContainerState::Exited;
            container.exit_code = event.exit_code;
            container.reason.clone_from(&event.reason);
            container.finished_at = happened.or(container.finished_at);
        }
        EventType::ContainerRemoved | EventType::PodSync => {}
    }
}

fn new_container(id: &Id, event: &Event) -> ContainerStatus {
    ContainerStatus {
        id: id.clone(),
        name: event.container.clone().unwrap_or_default(),
        state: ContainerState::Unknown,
        attempt: 0,
        exit_code: None,
        reason: None,
        created_at: None,
        started_at: None,
        finished_at: None,
        image: "".into(),
        pod: None,
    }
}

fn sandbox(pod: &mut PodStatus, id: &Id, event: &Event) {
    let state = match event.event_type {
        EventType::ContainerStarted => SandboxState::Ready,
        EventType::ContainerDied => SandboxState::NotReady,
        EventType::ContainerRemoved => {
            pod.sandboxes.retain(|sandbox| sandbox.id != *id);
            return;
        }
        EventType::PodSync => return,
    };
    match pod.sandboxes.iter_mut().find(|it| it.id == *id) {
        Some(sandbox) => sandbox.state = state,
        None => pod.sandboxes.insert(
            0,
            SandboxStatus {
                id: id.clone(),
                state,
                attempt: 0,
                created_at: None,
                ips: Vec::new(),
                pod: None,
                containers: Vec::new(),
            },
        ),
    }
}
