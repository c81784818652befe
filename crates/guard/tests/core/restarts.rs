//! The saved state of a guard, and a guard that replaces an earlier one during a fault.

use std::time::Duration;

use cri::Rpc;
use guard::core::{Phase, Settings};

use crate::node::{LIMIT, Node, locked};

const SECOND: Duration = Duration::from_secs(1);

/// A node whose guard answers lists because one container is stuck.
fn guarding() -> Node {
    let mut node = Node::new(20, 40);
    // Nothing was made while no guard ran: the host has all ids.
    node.leftovers = Some(Vec::new());
    node.hangs = locked;
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node
}

/// Enforces G17.
#[test]
fn a_new_guard_answers_lists_before_they_are_overdue_again() {
    let mut node = guarding();
    node.restart();
    let (list, took) = node.call(Rpc::ListContainers, "");
    assert!(list.is_some());
    assert!(took < Settings::default().list_overdue, "{took:?}");
}

/// Enforces G6.
#[test]
fn the_limit_of_a_fault_does_not_start_again_with_a_new_guard() {
    let mut node = guarding();
    node.pass(LIMIT * 3 / 4);
    node.restart();
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node.pass(LIMIT / 2);
    assert!(!node.answers_within(SECOND * 20, Rpc::ListContainers));
    assert_eq!(node.phase(), Phase::LimitReached);
}

#[test]
fn after_a_fault_that_ended_while_no_guard_ran_lists_pass_at_once() {
    let mut node = guarding();
    node.restart();
    node.lift();
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node.pass(SECOND);
    assert_eq!(node.phase(), Phase::Passing);
}

#[test]
fn saved_state_with_one_flipped_bit_is_not_restored() {
    let mut node = Node::new(3, 3);
    for rpc in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        assert!(node.call(rpc, "").0.is_some());
    }
    assert_eq!(node.restored_after_damage(), 0);
}

#[test]
fn state_that_could_not_be_saved_is_saved_later() {
    let mut node = Node::new(20, 40);
    for rpc in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        assert!(node.call(rpc, "").0.is_some());
    }
    assert!(node.has_to_save(false));
    assert!(node.has_to_save(true));
    assert!(!node.has_to_save(true), "it is saved");
}
