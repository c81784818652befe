//! The cases of a kubelet's own test of its Ready condition, in other words.

use super::*;

fn at(seconds: i64) -> WallTime {
    WallTime::from_unix_nanos((1_700_000_000 + seconds) * 1_000_000_000).unwrap()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// The status, the reason and the message of a node's first condition.
fn first(inputs: &Inputs) -> (Status, Reason, String) {
    let (condition, transition) = ReadyCondition::compute(at(0), inputs, None);
    assert_eq!(transition, None, "the first one turns nothing");
    assert_eq!(condition.last_transition_time, at(0));
    (condition.status, condition.reason, condition.message)
}

fn not_ready(message: &str) -> (Status, Reason, String) {
    (Status::False, Reason::KubeletNotReady, message.to_owned())
}

fn ready(message: &str) -> (Status, Reason, String) {
    (Status::True, Reason::KubeletReady, message.to_owned())
}

#[test]
fn a_node_without_errors_is_ready() {
    let inputs = Inputs::default();
    assert_eq!(first(&inputs), ready("kubelet is posting ready status"));
}

#[test]
fn a_warning_stands_behind_and_leaves_it_ready() {
    let inputs = Inputs {
        warning: text("soft requirement not met"),
        ..Inputs::default()
    };
    let message = "kubelet is posting ready status. WARNING: soft requirement not met";
    assert_eq!(first(&inputs), ready(message));
}

#[test]
fn errors_of_storage_and_a_shutdown_make_it_not_ready() {
    let storage = Inputs {
        storage: text("some storage error"),
        ..Inputs::default()
    };
    assert_eq!(first(&storage), not_ready("some storage error"));
    let shutdown = Inputs {
        shutdown: text("node is shutting down"),
        ..Inputs::default()
    };
    assert_eq!(first(&shutdown), not_ready("node is shutting down"));
}

#[test]
fn several_errors_stand_in_brackets_in_the_order_of_a_kubelet() {
    let inputs = Inputs {
        runtime: vec!["runtime".to_owned()],
        network: text("network"),
        ..Inputs::default()
    };
    assert_eq!(first(&inputs), not_ready("[runtime, network]"));
}

#[test]
fn missing_capacities_are_named() {
    let inputs = Inputs {
        missing_capacities: vec!["cpu", "memory", "pods", "ephemeral-storage"],
        ..Inputs::default()
    };
    let message = "missing node capacity for resources: cpu, memory, pods, ephemeral-storage";
    assert_eq!(first(&inputs), not_ready(message));
}

#[test]
fn a_turn_has_its_event_and_its_time_and_what_stays_keeps_the_old_time() {
    let well = Inputs::default();
    let unwell = Inputs {
        runtime: vec!["container runtime is down".to_owned()],
        ..Inputs::default()
    };
    let (ready, _) = ReadyCondition::compute(at(0), &well, None);
    let (still, turned) = ReadyCondition::compute(at(10), &well, Some(&ready));
    assert_eq!(turned, None);
    assert_eq!(still.last_transition_time, at(0));
    assert_eq!(still.last_heartbeat_time, at(10));

    let (not_ready, turned) = ReadyCondition::compute(at(20), &unwell, Some(&still));
    assert_eq!(turned, Some(Transition::NodeNotReady));
    assert_eq!(not_ready.last_transition_time, at(20));

    let (still, turned) = ReadyCondition::compute(at(30), &unwell, Some(&not_ready));
    assert_eq!(turned, None);
    assert_eq!(still.last_transition_time, at(20));

    let (ready, turned) = ReadyCondition::compute(at(40), &well, Some(&still));
    assert_eq!(turned, Some(Transition::NodeReady));
    assert_eq!(ready.last_transition_time, at(40));
}

#[test]
fn it_is_written_as_kubernetes_writes_conditions() {
    let (condition, _) = ReadyCondition::compute(at(0), &Inputs::default(), None);
    assert_eq!(
        serde_json::to_value(condition).unwrap(),
        serde_json::json!({
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": "2023-11-14T22:13:20Z",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
        })
    );
}
