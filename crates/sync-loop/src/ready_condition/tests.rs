//! The cases of the kubelet's own test of its Ready condition that apply here.

use super::*;

fn at(seconds: i64) -> WallTime {
    WallTime::from_unix_nanos((1_700_000_000 + seconds) * 1_000_000_000).unwrap()
}

fn errors(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// The status, the reason and the message of a node's first condition.
fn first(texts: &[&str]) -> (Status, &'static str, String) {
    let condition = ReadyCondition::compute(at(0), &errors(texts), None);
    assert_eq!(condition.last_transition_time, at(0));
    (condition.status, condition.reason, condition.message)
}

fn not_ready(message: &str) -> (Status, &'static str, String) {
    (Status::False, "KubeletNotReady", message.to_owned())
}

#[test]
fn a_node_without_errors_is_ready() {
    let message = "kubelet is posting ready status".to_owned();
    assert_eq!(first(&[]), (Status::True, "KubeletReady", message));
}

#[test]
fn several_errors_are_joined_in_brackets_in_the_kubelets_order() {
    assert_eq!(first(&["runtime"]), not_ready("runtime"));
    assert_eq!(
        first(&["runtime", "network"]),
        not_ready("[runtime, network]")
    );
}

#[test]
fn only_a_change_of_the_status_changes_the_transition_time() {
    let none = errors(&[]);
    let down = errors(&["container runtime is down"]);
    let mut last: Option<ReadyCondition> = None;
    for (now, errors, status, transition) in [
        (0, &none, Status::True, 0),
        (10, &none, Status::True, 0),
        (20, &down, Status::False, 20),
        (30, &down, Status::False, 20),
        (40, &none, Status::True, 40),
    ] {
        let condition = ReadyCondition::compute(at(now), errors, last.as_ref());
        assert_eq!(condition.status, status, "at {now} s");
        assert_eq!(condition.last_heartbeat_time, at(now));
        assert_eq!(condition.last_transition_time, at(transition), "at {now} s");
        last = Some(condition);
    }
}

#[test]
fn the_condition_is_serialized_as_in_the_kubernetes_api() {
    let condition = ReadyCondition::compute(at(0), &[], None);
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
