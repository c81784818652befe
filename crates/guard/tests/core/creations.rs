//! Creations and starts that the runtime does not answer.

use std::time::Duration;

use cri::Rpc;

use crate::node::{
    MADE, Node, container_id, create_container, request_for, run_sandbox, sandbox_id,
};

const CONTAINERS: usize = 40;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_change_is_not_completed_within_the_first_second() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::CreateContainer;
    let call = node.start(Rpc::CreateContainer, create_container(&sandbox_id(0)));
    node.makes = true;
    node.call(Rpc::ListContainers, "");
    node.pass(Duration::from_millis(900));
    assert_eq!(node.end_of(call), None, "the runtime may still answer");
    node.pass(Duration::from_millis(1200));
    assert!(matches!(node.end_of(call), Some(Some(_))), "it is listed");
}

#[test]
fn lists_are_answered_after_the_runtime_reports_that_a_creation_failed() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainers | Rpc::ListPodSandbox);
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node.fails = |rpc, _| matches!(rpc, Rpc::CreateContainer | Rpc::RunPodSandbox);
    assert_eq!(node.call(Rpc::RunPodSandbox, run_sandbox()).0, None);
    let request = create_container(&sandbox_id(0));
    assert_eq!(node.call(Rpc::CreateContainer, request).0, None);
    for rpc in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        assert!(node.call(rpc, "").0.is_some(), "{rpc}");
    }
}

#[test]
fn run_pod_sandbox_is_completed_once_the_sandbox_has_an_address_and_not_once_it_is_ready() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::RunPodSandbox;
    let run = node.start(Rpc::RunPodSandbox, run_sandbox());
    node.makes_sandbox = Some(false);
    node.pass(SECOND * 5);
    assert_eq!(node.end_of(run), None, "its network is being set up");
    node.makes_sandbox = Some(true);
    node.pass(SECOND * 2);
    assert!(matches!(node.end_of(run), Some(Some(_))));
}

#[test]
fn a_stuck_created_container_is_listed_until_its_start_is_requested() {
    let made = |rpc, id: &str| match rpc {
        Rpc::ListContainers => true,
        Rpc::ContainerStatus => id == container_id(7) || id == MADE,
        Rpc::StopContainer | Rpc::StartContainer => id == MADE,
        _ => false,
    };
    for (rpc, is_listed) in [(Rpc::StopContainer, true), (Rpc::StartContainer, false)] {
        let mut node = Node::new(20, CONTAINERS);
        node.makes = true;
        node.call(Rpc::ListContainers, "").0.expect("it is created");
        node.hangs = made;
        node.call(Rpc::ListContainers, "")
            .0
            .expect("it is answered");
        let call = node.start(rpc, request_for(MADE));
        node.pass(SECOND);
        node.abandon(call);
        let answers = node.answers_within(SECOND * 10, Rpc::ListContainers);
        assert_eq!(answers, is_listed, "{rpc}");
    }
}
