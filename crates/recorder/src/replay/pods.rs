//! Changes pods by events, until all pods are recorded again.

use pleg::model::event::{Event, EventType};
use pleg::model::status::PodStatus;
use pleg::model::wall_time::WallTime;
use pleg::out::apply;
use pleg::out::pods::PodReport;

/// Applies an event to the pods.
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
    apply::apply(&mut pod.status, event, happened);
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
