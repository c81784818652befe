//! Which calls the guard itself makes, and how many.

use std::time::Duration;

use cri::Rpc;

use crate::node::{MADE, Node, nested};

const CONTAINERS: usize = 40;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_status_of_an_id_is_not_requested_again_once_a_list_has_the_id() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, id| rpc == Rpc::ContainerStatus && id == MADE;
    node.makes = true;
    node.send_event(MADE);
    node.call(Rpc::ListContainers, "")
        .0
        .expect("it is answered");
    node.lift();
    node.pass(SECOND * 10);
    assert_eq!(node.calls_for(MADE), 1);
}

#[test]
fn the_status_of_an_unresolved_id_is_requested_at_most_twice_per_second() {
    let mut node = Node::new(20, CONTAINERS);
    node.send_event(MADE);
    node.pass(SECOND * 10);
    let calls = node.calls_for(MADE);
    assert!((2..=21).contains(&calls), "{calls}");
}

#[test]
fn version_is_answered_during_a_fault_although_no_caller_requested_it_before() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |_, _| true;
    for rpc in [Rpc::Version, Rpc::RuntimeConfig] {
        // A request of a kubelet: `version: "0.1.0"`.
        let (answer, took) = node.call(rpc, nested(b"0.1.0"));
        assert!(answer.is_some() && took < SECOND * 3, "{rpc} took {took:?}");
    }
}

#[test]
fn the_guard_itself_requests_version_once_for_each_connection() {
    let mut node = Node::new(20, CONTAINERS);
    let requested = |node: &Node| {
        let is_version = |(rpc, _): &&(Rpc, String)| *rpc == Rpc::Version;
        node.own_calls.iter().filter(is_version).count()
    };
    assert_eq!(requested(&node), 1);
    node.pass(SECOND * 60);
    assert_eq!(requested(&node), 1);
    node.disconnect();
    node.pass(SECOND * 60);
    assert_eq!(requested(&node), 2);
}

#[test]
fn runtime_config_is_requested_only_once_from_a_runtime_without_it() {
    let mut node = Node::starting(20, CONTAINERS);
    node.fails = |rpc, _| rpc == Rpc::RuntimeConfig;
    node.pass(SECOND * 60);
    let is_config = |(rpc, _): &&(Rpc, String)| *rpc == Rpc::RuntimeConfig;
    assert_eq!(node.own_calls.iter().filter(is_config).count(), 1);
}

#[test]
fn leftover_ids_on_the_host_are_requested_at_a_bounded_rate_and_delay_no_list() {
    let mut node = Node::new(20, CONTAINERS);
    let leftovers = (0..1000).map(|number| format!("{number:063x}c"));
    node.leftovers = Some(leftovers.collect());
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node.pass(SECOND * 5);
    let before = node.own_calls.len();
    for _ in 0..10 {
        assert!(node.call(Rpc::ListContainers, "").0.is_some());
        node.pass(SECOND);
    }
    let per_second = (node.own_calls.len() - before) / 10;
    assert!(per_second < 1500, "{per_second} calls per second");
}
