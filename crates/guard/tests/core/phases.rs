//! The phase that a guard reports during a fault.

use std::time::Duration;

use cri::Rpc;
use guard::core::Phase;

use crate::node::{Node, locked};

const CONTAINERS: usize = 40;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_phase_is_not_guarding_while_the_runtime_is_unresponsive() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |_, _| true;
    node.pass(Duration::from_millis(1));
    let mut phases = vec![node.phase()];
    for _ in 0..40 {
        if phases.len() % 5 == 1 {
            node.start(Rpc::ListContainers, "");
        }
        node.pass(SECOND / 2);
        phases.push(node.phase());
    }
    let is_guarding = |phase: &Phase| matches!(phase, Phase::Guarding { .. });
    assert!(!phases.iter().any(is_guarding), "{phases:?}");
    let last = phases.last().unwrap();
    assert!(matches!(last, Phase::Unresponsive { .. }), "{phases:?}");
    // The runtime recovers, and one container gets stuck.
    node.lift();
    node.pass(SECOND * 3);
    assert_eq!(node.phase(), Phase::Passing);
    node.hangs = locked;
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert!(is_guarding(&node.phase()));
    // During that fault, the whole runtime becomes unresponsive.
    node.hangs = |_, _| true;
    node.pass(SECOND * 5);
    assert!(matches!(node.phase(), Phase::Unresponsive { .. }));
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    node.lift();
    node.pass(SECOND * 3);
    assert_eq!(node.phase(), Phase::Passing);
}

#[test]
fn the_phase_is_refusing_while_lists_cannot_be_answered() {
    let mut node = Node::new(20, CONTAINERS);
    // The list and every status hang: nothing confirms a row, but the runtime answers other calls.
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainers | Rpc::ContainerStatus);
    node.pass(SECOND * 5);
    let call = node.start(Rpc::ListContainers, "");
    let mut phases = Vec::new();
    for _ in 0..100 {
        node.pass(SECOND / 10);
        phases.push(node.phase());
    }
    assert_eq!(node.end_of(call), None);
    node.abandon(call);
    let is_guarding = |phase: &Phase| matches!(phase, Phase::Guarding { .. });
    assert!(!phases.iter().any(is_guarding), "{phases:?}");
    let phase = node.phase();
    assert!(matches!(phase, Phase::Refusing { .. }), "{phase:?}");
    // Now only one container is stuck: the next list is answered.
    node.lift();
    node.hangs = locked;
    node.pass(SECOND * 3);
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert!(matches!(node.phase(), Phase::Guarding { .. }));
    node.lift();
    node.pass(SECOND * 3);
    assert_eq!(node.phase(), Phase::Passing);
}

#[test]
fn the_phase_is_waiting_until_a_client_requests_a_list() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    let ours = node.start_ours(Rpc::ListContainers, "");
    node.pass(SECOND * 10);
    assert_eq!(
        node.end_of(ours),
        None,
        "the observer's list is not answered"
    );
    assert!(matches!(node.phase(), Phase::Waiting { .. }));
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert!(matches!(node.phase(), Phase::Guarding { .. }));
}

#[test]
fn the_phase_is_refusing_until_the_first_complete_list() {
    let mut node = Node::starting(20, CONTAINERS);
    node.hangs = locked;
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    assert!(matches!(node.phase(), Phase::Refusing { .. }));
    node.lift();
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert_eq!(node.phase(), Phase::Passing);
}
