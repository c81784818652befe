//! Ids that are missing from the runtime's answers, by mistake or because they are gone.

use std::time::Duration;

use cri::{Rpc, v1};
use prost::Message;

use crate::node::{MADE, Node, container_id, create_container, request_for, sandbox_id};

const CONTAINERS: usize = 40;
const SECOND: Duration = Duration::from_secs(1);

fn is_it(id: &str) -> bool {
    id == container_id(7)
}

/// A node whose last list is one second old.
fn node() -> Node {
    let mut node = Node::new(20, CONTAINERS);
    node.pass(SECOND);
    node
}

/// A node whose list hangs, and on which two status calls did not find the container.
fn node_that_lacked_it() -> Node {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    node.lacks = |rpc, id| rpc == Rpc::ContainerStatus && is_it(id);
    assert!(!shows_it(&mut node), "two status calls did not find it");
    node.lacks = |_, _| false;
    node
}

/// The ids in a list of containers.
fn listed(node: &mut Node) -> Vec<String> {
    let (list, _) = node.call(Rpc::ListContainers, "");
    let list = v1::ListContainersResponse::decode(list.expect("it is answered")).unwrap();
    list.containers.into_iter().map(|row| row.id).collect()
}

fn shows_it(node: &mut Node) -> bool {
    listed(node).iter().any(|id| is_it(id))
}

fn one() -> Vec<u8> {
    request_for(&container_id(7))
}

/// Enforces G4.
#[test]
fn a_container_that_one_status_call_did_not_find_is_in_every_list() {
    let mut node = node();
    node.lacks = |rpc, id| rpc == Rpc::ContainerStatus && is_it(id);
    assert_eq!(node.call(Rpc::ContainerStatus, one()).0, None, "not found");
    node.lacks = |_, _| false;
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    for _ in 0..5 {
        assert!(shows_it(&mut node), "it is running");
        node.pass(SECOND);
    }
}

/// Enforces G4.
#[test]
fn a_container_that_was_missing_from_one_list_is_in_every_list_that_the_guard_answers() {
    let mut node = node();
    node.lacks = |rpc, id| rpc == Rpc::ListContainers && is_it(id);
    assert!(!shows_it(&mut node), "the runtime's list is passed on");
    node.lacks = |_, _| false;
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    for _ in 0..5 {
        assert!(shows_it(&mut node), "it is running");
        node.pass(SECOND);
    }
}

#[test]
fn a_container_that_was_gone_is_listed_again_once_a_later_list_has_it() {
    let mut node = node_that_lacked_it();
    node.lift();
    node.pass(SECOND * 2);
    assert!(shows_it(&mut node), "the runtime's list is passed on");
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    for _ in 0..5 {
        assert!(shows_it(&mut node), "a later list had it");
        node.pass(SECOND);
    }
}

#[test]
fn a_container_that_was_gone_is_listed_again_once_its_status_is_answered() {
    let mut node = node_that_lacked_it();
    node.call(Rpc::ContainerStatus, one());
    assert!(shows_it(&mut node), "its status was answered");
}

#[test]
fn a_container_that_was_gone_is_listed_again_once_it_is_started() {
    let mut node = node_that_lacked_it();
    let started = node.call(Rpc::StartContainer, one()).0;
    started.expect("the container exists");
    assert!(shows_it(&mut node), "it was started");
}

#[test]
fn a_list_from_before_a_container_was_gone_does_not_show_its_sandbox() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let old = node.start(Rpc::ListContainers, "");
    node.lacks = |rpc, id| rpc == Rpc::ContainerStatus && is_it(id);
    assert!(!shows_it(&mut node), "two status calls did not find it");
    node.lacks = |_, _| false;
    // The container exists after all, and its verbose status, which shows its sandbox, hangs.
    node.start(Rpc::ContainerStatus, one());
    node.hangs = |rpc, id| rpc == Rpc::ListContainers || rpc == Rpc::ContainerStatus && is_it(id);
    node.pass(Duration::from_millis(10));
    node.release(Rpc::ListContainers);
    node.pass(Duration::from_millis(10));
    assert!(node.end_of(old).is_some());
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    node.release(Rpc::ContainerStatus);
    assert!(shows_it(&mut node));
}

/// Enforces G4.
#[test]
fn a_container_that_another_client_removed_is_not_listed_after_two_status_calls() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    shows_it(&mut node);
    node.lacks = |_, id| is_it(id);
    node.pass(SECOND);
    let before = node.calls_for(&container_id(7));
    let (list, took) = node.call(Rpc::ListContainers, "");
    assert!(list.is_some() && took < SECOND, "{took:?}");
    node.pass(SECOND);
    assert!(!shows_it(&mut node), "it is gone");
    let calls = node.calls_for(&container_id(7)) - before;
    assert!(calls <= 2, "{calls} status calls");
}

#[test]
fn a_list_that_was_requested_before_a_removal_does_not_restore_the_container() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let old = node.start(Rpc::ListContainers, "");
    node.pass(SECOND);
    node.call(Rpc::RemoveContainer, one()).0.expect("removed");
    node.lift();
    node.pass(Duration::from_millis(10));
    assert!(node.end_of(old).is_some(), "the list has the container");
    node.lacks = |_, id| is_it(id);
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    for _ in 0..5 {
        assert!(!shows_it(&mut node), "it was removed");
        node.pass(SECOND);
    }
}

#[test]
fn a_removal_by_a_unique_prefix_removes_that_id() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let whole = container_id(7);
    // `crictl rm` accepts a prefix.
    let removed = |node: &mut Node, prefix: &str| {
        let request = v1::RemoveContainerRequest {
            container_id: prefix.to_owned(),
        };
        let answer = node.call(Rpc::RemoveContainer, request.encode_to_vec());
        assert!(answer.0.is_some());
        !shows_it(node)
    };
    assert!(!removed(&mut node, "0000"), "all ids have this prefix");
    assert!(removed(&mut node, &whole[..whole.len() - 1]));
}

#[test]
fn a_prefix_of_a_sandbox_id_selects_its_containers() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let whole = sandbox_id(3);
    for id in [&whole[..], &whole[..whole.len() - 1]] {
        assert_eq!(in_sandbox(&mut node, id), 2, "{id}");
    }
}

#[test]
fn a_container_of_another_client_is_listed_in_the_sandbox_of_its_verbose_status() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let before = in_sandbox(&mut node, &sandbox_id(0));
    node.makes = true;
    node.send_event(MADE);
    assert_eq!(in_sandbox(&mut node, &sandbox_id(0)), before + 1);
    assert!(listed(&mut node).iter().any(|id| id == MADE));
}

#[test]
fn no_list_is_answered_while_the_sandbox_of_a_container_is_unknown() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    listed(&mut node);
    node.send_event(MADE);
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    node.makes = true;
    assert!(listed(&mut node).iter().any(|id| id == MADE));
}

#[test]
fn the_status_of_an_unknown_container_is_requested_once_it_is_started() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    listed(&mut node);
    // The container was created while no guard was running.
    node.makes = true;
    let id = format!("{}d", "0".repeat(63));
    let request = v1::StartContainerRequest {
        container_id: id.clone(),
    };
    node.call(Rpc::StartContainer, request.encode_to_vec());
    assert!(node.calls_for(&id) > 0);
}

#[test]
fn a_container_that_is_created_by_an_ambiguous_prefix_is_listed_in_its_sandbox() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    listed(&mut node);
    node.makes = true;
    node.call(Rpc::CreateContainer, create_container("beginning"));
    let before = in_sandbox(&mut node, &sandbox_id(1));
    assert_eq!(in_sandbox(&mut node, &sandbox_id(0)), before + 1);
}

/// The number of containers in a list of this sandbox.
fn in_sandbox(node: &mut Node, id: &str) -> usize {
    let filter = v1::ContainerFilter {
        pod_sandbox_id: id.to_owned(),
        ..Default::default()
    };
    let request = v1::ListContainersRequest {
        filter: Some(filter),
    };
    let (list, _) = node.call(Rpc::ListContainers, request.encode_to_vec());
    let list = v1::ListContainersResponse::decode(list.expect("it is answered")).unwrap();
    list.containers.len()
}

#[test]
fn an_empty_list_for_a_prefix_does_not_make_ids_missing() {
    let mut node = node();
    let whole = sandbox_id(3);
    for _ in 0..3 {
        assert_eq!(in_sandbox(&mut node, &whole[..whole.len() - 1]), 0);
        node.pass(Duration::from_millis(100));
    }
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    assert_eq!(listed(&mut node).len(), CONTAINERS);
}
