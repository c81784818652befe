//! Ids that the runtime's answers lack: by mistake, or because they are gone.

use std::time::Duration;

use cri::{Rpc, v1};
use prost::Message;

use crate::node::{MADE, Node, container_id, create_container, sandbox_id};

const CONTAINERS: usize = 40;
const SECOND: Duration = Duration::from_secs(1);

fn is_it(id: &str) -> bool {
    id == container_id(7)
}

/// A node whose containers were listed a while ago.
fn node() -> Node {
    let mut node = Node::new(20, CONTAINERS);
    node.pass(SECOND);
    node
}

/// A node whose list hangs, and which did not find the container when it was requested twice.
fn node_that_lacked_it() -> Node {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    node.lacks = |rpc, id| rpc == Rpc::ContainerStatus && is_it(id);
    assert!(!shows_it(&mut node), "it was asked for twice");
    node.lacks = |_, _| false;
    node
}

/// The containers that a list shows now.
fn listed(node: &mut Node) -> Vec<String> {
    let (list, _) = node.call(Rpc::ListContainers, "");
    let list = v1::ListContainersResponse::decode(list.expect("it is answered")).unwrap();
    list.containers.into_iter().map(|row| row.id).collect()
}

fn shows_it(node: &mut Node) -> bool {
    listed(node).iter().any(|id| is_it(id))
}

fn one() -> Vec<u8> {
    v1::ContainerStatusRequest {
        container_id: container_id(7),
        verbose: false,
    }
    .encode_to_vec()
}

/// Enforces G4.
#[test]
fn a_container_that_one_status_did_not_find_is_in_every_list() {
    let mut node = node();
    node.lacks = |rpc, id| rpc == Rpc::ContainerStatus && is_it(id);
    assert_eq!(node.call(Rpc::ContainerStatus, one()).0, None, "not found");
    node.lacks = |_, _| false;
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    for _ in 0..5 {
        assert!(shows_it(&mut node), "it runs");
        node.pass(SECOND);
    }
}

/// Enforces G4.
#[test]
fn a_container_that_one_list_lacked_is_in_every_list_that_is_answered_from_the_rows() {
    let mut node = node();
    node.lacks = |rpc, id| rpc == Rpc::ListContainers && is_it(id);
    assert!(!shows_it(&mut node), "the runtime's list passes");
    node.lacks = |_, _| false;
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    for _ in 0..5 {
        assert!(shows_it(&mut node), "it runs");
        node.pass(SECOND);
    }
}

#[test]
fn a_container_that_was_not_found_for_seconds_is_listed_again_once_a_later_list_has_it() {
    let mut node = node_that_lacked_it();
    node.lift();
    node.pass(SECOND * 2);
    assert!(shows_it(&mut node), "the runtime's list passes");
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    for _ in 0..5 {
        assert!(shows_it(&mut node), "a later list had it");
        node.pass(SECOND);
    }
}

#[test]
fn a_container_that_was_not_found_for_seconds_is_listed_again_once_its_status_comes() {
    let mut node = node_that_lacked_it();
    node.call(Rpc::ContainerStatus, one());
    assert!(shows_it(&mut node), "its status came");
}

#[test]
fn a_container_that_was_not_found_for_seconds_is_listed_again_once_it_is_started() {
    let mut node = node_that_lacked_it();
    let started = node.call(Rpc::StartContainer, one()).0;
    started.expect("what is started is there");
    assert!(shows_it(&mut node), "it was started");
}

#[test]
fn a_list_that_was_asked_for_before_a_container_was_gone_does_not_tell_where_it_is() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let old = node.start(Rpc::ListContainers, "");
    node.lacks = |rpc, id| rpc == Rpc::ContainerStatus && is_it(id);
    assert!(!shows_it(&mut node), "it was asked for twice");
    node.lacks = |_, _| false;
    // It is there after all, and its verbose status, which tells its sandbox, hangs.
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
fn a_container_that_others_have_removed_is_asked_for_twice_and_then_not_listed() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    shows_it(&mut node);
    node.lacks = |_, id| is_it(id);
    node.pass(SECOND);
    let asked = node.asked_for(&container_id(7));
    let (list, took) = node.call(Rpc::ListContainers, "");
    assert!(list.is_some() && took < SECOND, "{took:?}");
    node.pass(SECOND);
    assert!(!shows_it(&mut node), "it is gone");
    let asked = node.asked_for(&container_id(7)) - asked;
    assert!(asked <= 2, "asked for {asked} times");
}

#[test]
fn a_removed_container_does_not_come_back_from_a_list_that_was_asked_for_before() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let old = node.start(Rpc::ListContainers, "");
    node.pass(SECOND);
    node.call(Rpc::RemoveContainer, one())
        .0
        .expect("it is done");
    node.lift();
    node.pass(Duration::from_millis(10));
    assert!(node.end_of(old).is_some(), "it still has it");
    node.lacks = |_, id| is_it(id);
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    for _ in 0..5 {
        assert!(!shows_it(&mut node), "it was removed");
        node.pass(SECOND);
    }
}

#[test]
fn a_removal_by_the_beginning_of_an_id_is_one_of_that_id() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let whole = container_id(7);
    // That of a single one, as `crictl rm` takes it; then of all.
    let removed = |node: &mut Node, beginning: &str| {
        let request = v1::RemoveContainerRequest {
            container_id: beginning.to_owned(),
        };
        let answer = node.call(Rpc::RemoveContainer, request.encode_to_vec());
        assert!(answer.0.is_some());
        !shows_it(node)
    };
    assert!(!removed(&mut node, "0000"), "it may be any");
    assert!(removed(&mut node, &whole[..whole.len() - 1]));
}

#[test]
fn the_beginning_of_a_sandboxs_id_asks_for_its_containers() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let whole = sandbox_id(3);
    for id in [&whole[..], &whole[..whole.len() - 1]] {
        assert_eq!(in_sandbox(&mut node, id), 2, "{id}");
    }
}

#[test]
fn a_container_that_others_have_made_is_listed_in_the_sandbox_that_its_verbose_status_tells() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let before = in_sandbox(&mut node, &sandbox_id(0));
    node.makes = true;
    node.announce(MADE);
    assert_eq!(in_sandbox(&mut node, &sandbox_id(0)), before + 1);
    assert!(listed(&mut node).iter().any(|id| id == MADE));
}

#[test]
fn no_list_is_answered_while_nobody_tells_in_which_sandbox_a_container_is() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    listed(&mut node);
    node.announce(MADE);
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    node.makes = true;
    assert!(listed(&mut node).iter().any(|id| id == MADE));
}

#[test]
fn a_container_that_is_started_through_the_guard_is_asked_for_if_it_is_not_known() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    listed(&mut node);
    // Somebody made it before the guard was started again.
    node.makes = true;
    let id = format!("{}d", "0".repeat(63));
    let request = v1::StartContainerRequest {
        container_id: id.clone(),
    };
    node.call(Rpc::StartContainer, request.encode_to_vec());
    assert!(node.asked_for(&id) > 0);
}

#[test]
fn a_container_that_is_made_by_the_beginning_of_an_unknown_sandboxs_id_is_in_that() {
    let mut node = node();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    listed(&mut node);
    node.makes = true;
    node.call(Rpc::CreateContainer, create_container("beginning"));
    let before = in_sandbox(&mut node, &sandbox_id(1));
    assert_eq!(in_sandbox(&mut node, &sandbox_id(0)), before + 1);
}

/// How many containers a list of this sandbox shows.
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
fn a_runtime_that_takes_no_beginning_of_an_id_lacks_nothing() {
    let mut node = node();
    let whole = sandbox_id(3);
    for _ in 0..3 {
        assert_eq!(in_sandbox(&mut node, &whole[..whole.len() - 1]), 0);
        node.pass(Duration::from_millis(100));
    }
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    assert_eq!(listed(&mut node).len(), CONTAINERS);
}
