//! Events as containerd sends them: what happened and, if wanted, the status of the sandbox and
//! of all its containers.

use cri::v1::{self, ContainerEventType};
use pleg::model::listed::{ContainerState, SandboxState};

use super::messages;
use crate::changes::State;
use crate::stream::StreamEvent;

/// The responses that announce a change, one for each stage that it passes. A new container that is already
/// running was created and started.
pub(super) fn responses(event: StreamEvent) -> Vec<v1::ContainerEventResponse> {
    let change = &event.change;
    let kinds = kinds(stage(change.before), stage(change.after));
    let mut message = v1::ContainerEventResponse {
        container_id: change.id.to_string(),
        created_at: event.created_at.as_unix_nanos(),
        ..Default::default()
    };
    if event.with_status
        && let Some(pod) = &change.pod
    {
        let of_sandbox = |it: &&crate::Sandbox| it.id == change.sandbox.id;
        let sandbox = pod.sandboxes.iter().find(of_sandbox);
        let sandbox = sandbox.map(|sandbox| messages::sandbox_status((pod, sandbox)));
        message.pod_sandbox_status = sandbox.and_then(|answer| answer.status);
        let containers = pod.containers.iter();
        let containers = containers.filter(|it| it.sandbox_id == change.sandbox.id);
        let statuses = containers.map(|it| {
            messages::container_status((pod, it), Default::default(), event.created_at).status
        });
        message.containers_statuses = statuses.flatten().collect();
    }
    let of_kind = |kind: ContainerEventType| v1::ContainerEventResponse {
        container_event_type: kind.into(),
        ..message.clone()
    };
    kinds.into_iter().map(of_kind).collect()
}

/// The stages in the life of a container or sandbox.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Absent,
    Created,
    Started,
    Stopped,
}

fn stage(state: Option<State>) -> Stage {
    match state {
        None => Stage::Absent,
        Some(State::Container(ContainerState::Created | ContainerState::Unknown)) => Stage::Created,
        Some(State::Container(ContainerState::Running)) => Stage::Started,
        Some(State::Container(ContainerState::Exited)) => Stage::Stopped,
        Some(State::Sandbox(SandboxState::Ready)) => Stage::Started,
        Some(State::Sandbox(SandboxState::NotReady | SandboxState::Unknown)) => Stage::Stopped,
    }
}

/// The events between two stages. A change to [`Stage::Absent`] is a removal.
fn kinds(before: Stage, after: Stage) -> Vec<ContainerEventType> {
    let stages = [
        (Stage::Created, ContainerEventType::ContainerCreatedEvent),
        (Stage::Started, ContainerEventType::ContainerStartedEvent),
        (Stage::Stopped, ContainerEventType::ContainerStoppedEvent),
    ];
    let passed = |from: Stage, to: Stage| {
        let passed = stages.iter().filter(move |(it, _)| from < *it && *it <= to);
        passed.map(|(_, kind)| *kind)
    };
    if after != Stage::Absent {
        return passed(before, after).collect();
    }
    // Before its removal, only a container that was running is stopped.
    let last = match before {
        Stage::Started => Stage::Stopped,
        before => before,
    };
    let deleted = ContainerEventType::ContainerDeletedEvent;
    passed(before, last).chain([deleted]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_the_events_of_all_stages_that_it_passes() {
        use ContainerEventType::{
            ContainerCreatedEvent as Created, ContainerDeletedEvent as Deleted,
            ContainerStartedEvent as Started, ContainerStoppedEvent as Stopped,
        };
        let absent = Stage::Absent;
        assert_eq!(kinds(absent, Stage::Created), [Created]);
        assert_eq!(kinds(absent, Stage::Started), [Created, Started]);
        assert_eq!(kinds(absent, Stage::Stopped), [Created, Started, Stopped]);
        assert_eq!(kinds(Stage::Created, Stage::Started), [Started]);
        assert_eq!(kinds(Stage::Started, Stage::Stopped), [Stopped]);
        assert_eq!(kinds(Stage::Started, absent), [Stopped, Deleted]);
        assert_eq!(kinds(Stage::Created, absent), [Deleted]);
        assert_eq!(kinds(Stage::Stopped, absent), [Deleted]);
    }
}
