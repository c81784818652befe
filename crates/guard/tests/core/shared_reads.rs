//! Reads that several callers make at once.

use std::time::Duration;

use cri::{Rpc, v1};
use guard::core::Outcome;
use prost::Message;

use crate::node::{Node, container_id, locked, request_for};

const CONTAINERS: usize = 40;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_second_read_of_a_stuck_container_counts_as_stuck_after_the_first_is_cancelled() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    let stuck = container_id(7);
    let verbose = v1::ContainerStatusRequest {
        container_id: stuck.clone(),
        verbose: true,
    };
    // `crictl inspect` has a shorter timeout than a kubelet.
    let inspected = node.start(Rpc::ContainerStatus, verbose.encode_to_vec());
    node.pass(SECOND / 10);
    let read = node.start(Rpc::ContainerStatus, request_for(&stuck));
    node.pass(SECOND / 2);
    node.abandon(inspected);
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node.pass(SECOND * 5);
    assert_eq!(
        node.end_of(read),
        Some(None),
        "it ends with an error in time"
    );
}

#[test]
fn a_shared_read_is_repeated_for_the_caller_with_the_later_deadline() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::ContainerStatus;
    let read = request_for(&container_id(7));
    let first = node.start_for(SECOND * 120, Rpc::ContainerStatus, read.clone());
    let second = node.start_for(SECOND * 121, Rpc::ContainerStatus, read);
    assert_eq!(node.passed(), 1, "it is shared");
    // The runtime ends the call at the first caller's deadline.
    node.end(Rpc::ContainerStatus, Outcome::GivenUp);
    assert_eq!(node.end_of(first), Some(None));
    assert_eq!(node.end_of(second), None);
    node.lift();
    node.pass(SECOND / 100);
    assert!(node.end_of(second).is_some_and(|end| end.is_some()));
}

#[test]
fn a_read_with_an_early_deadline_is_not_shared_with_a_caller_that_waits_longer() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::ContainerStatus;
    let read = request_for(&container_id(7));
    node.start_for(SECOND * 2, Rpc::ContainerStatus, read.clone());
    node.start_for(SECOND, Rpc::ContainerStatus, read.clone());
    assert_eq!(node.passed(), 1, "its deadline is earlier");
    node.start_for(SECOND * 120, Rpc::ContainerStatus, read);
    assert_eq!(node.passed(), 2);
}
