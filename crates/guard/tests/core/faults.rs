//! How a fault begins and ends, and which calls are passed on after the limit.

use std::time::Duration;

use cri::{Rpc, v1};
use guard::core::{Mode, Outcome};
use prost::Message;

use crate::node::{LIMIT, Node, container_id, locked, request_for};

const CONTAINERS: usize = 40;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn without_rows_a_list_waits_for_the_runtime() {
    let mut node = Node::starting(20, CONTAINERS);
    node.hangs = locked;
    // When the fault ends, one caller has waited for a minute, and the others for seconds.
    let mut waiting = vec![node.start(Rpc::ListContainers, "")];
    node.pass(SECOND * 60);
    for _ in 0..5 {
        waiting.push(node.start(Rpc::ListContainers, ""));
        node.pass(Duration::from_millis(1900));
    }
    node.lift();
    node.pass(SECOND);
    for call in waiting {
        let end = node.end_of(call).expect("the runtime has answered");
        let list = v1::ListContainersResponse::decode(end.expect("a list")).unwrap();
        assert_eq!(list.containers.len(), CONTAINERS);
    }
}

#[test]
fn a_client_that_requests_both_lists_uses_the_guard_whether_they_are_answered_or_not() {
    let mut node = Node::new(20, CONTAINERS);
    assert_eq!(
        node.last_requested_ago(),
        None,
        "the guard's own lists do not count"
    );
    node.hangs = |_, _| true;
    node.start(Rpc::ListContainers, "");
    assert_eq!(
        node.last_requested_ago(),
        None,
        "crictl ps requests only one list"
    );
    node.pass(SECOND);
    node.start(Rpc::ListPodSandbox, "");
    node.pass(SECOND);
    assert_eq!(node.last_requested_ago(), Some(SECOND * 2));
}

/// Enforces G6.
#[test]
fn after_the_limit_every_call_is_passed_on_until_lists_are_answered_in_time_again() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    let (list, _) = node.call(Rpc::ListContainers, "");
    assert!(list.is_some());
    let stuck = request_for(&container_id(7));
    assert_eq!(node.call(Rpc::ContainerStatus, stuck.clone()).0, None);
    node.pass(LIMIT);
    let calls = [
        node.start(Rpc::ListContainers, ""),
        node.start(Rpc::ContainerStatus, stuck),
    ];
    node.pass(SECOND * 60);
    for call in calls {
        assert_eq!(
            node.end_of(call),
            None,
            "it waits as it would without a guard"
        );
    }
    node.lift();
    node.pass(SECOND);
    for call in calls {
        assert!(matches!(node.end_of(call), Some(Some(_))));
    }
    node.call(Rpc::ListContainers, "");
    node.pass(SECOND * 61);
    node.hangs = locked;
    let (list, _) = node.call(Rpc::ListContainers, "");
    assert!(list.is_some(), "the next fault is guarded");
}

/// Enforces G6.
#[test]
fn a_fault_with_short_interruptions_has_one_limit() {
    let mut node = Node::new(20, CONTAINERS);
    // A kubelet cancels the call that holds the lock, and retries it seconds later.
    for _ in 0..3 {
        node.hangs = locked;
        assert!(node.call(Rpc::ListContainers, "").0.is_some());
        node.pass(LIMIT / 4);
        node.lift();
        node.call(Rpc::ListContainers, "");
        node.pass(SECOND * 5);
    }
    node.hangs = locked;
    let list = node.start(Rpc::ListContainers, "");
    node.pass(SECOND * 20);
    assert_eq!(node.end_of(list), None, "after the limit it is passed on");
}

#[test]
fn a_caller_that_waits_when_the_guard_is_switched_on_is_answered() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    for mode in [Mode::Shadow, Mode::Pass] {
        node.switch(mode);
        let list = node.start(Rpc::ListContainers, "");
        node.pass(SECOND * 15);
        assert_eq!(node.end_of(list), None, "it is passed on in mode {mode:?}");
        node.switch(Mode::Guard);
        node.pass(SECOND * 5);
        assert!(matches!(node.end_of(list), Some(Some(_))), "{mode:?}");
    }
}

#[test]
fn after_the_runtime_process_is_replaced_no_list_is_answered_from_the_old_rows() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    // The runtime ends. The next process may have other containers, and its lists hang too.
    node.disconnect();
    for _ in 0..3 {
        assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    }
    node.lift();
    node.pass(SECOND * 3);
    node.hangs = locked;
    assert!(
        node.call(Rpc::ListContainers, "").0.is_some(),
        "the new process has answered a list"
    );
}

/// The answer to `RestorePod` shows only the sandbox. If a list omitted one of its containers, the
/// kubelet would start it a second time.
///
/// Enforces G2.
#[test]
fn after_a_pod_is_restored_no_list_is_answered_until_the_runtime_has_listed_its_containers() {
    for is_answered in [true, false] {
        let mut node = Node::new(20, CONTAINERS);
        node.hangs = locked;
        assert!(node.call(Rpc::ListContainers, "").0.is_some());
        if is_answered {
            assert!(
                node.call(Rpc::RestorePod, "").0.is_some(),
                "it is passed on"
            );
        } else {
            node.hangs = |rpc, id| locked(rpc, id) || rpc == Rpc::RestorePod;
            assert!(!node.answers_within(SECOND, Rpc::RestorePod));
        }
        for _ in 0..3 {
            assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
        }
        node.lift();
        node.pass(SECOND * 3);
        node.hangs = locked;
        assert!(node.call(Rpc::ListContainers, "").0.is_some());
    }
}

#[test]
fn one_lost_call_does_not_invalidate_the_rows_while_the_connection_stands() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, id| locked(rpc, id) || rpc == Rpc::Version;
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node.start(Rpc::Version, "");
    node.end(Rpc::Version, Outcome::Lost);
    for _ in 0..3 {
        assert!(node.call(Rpc::ListContainers, "").0.is_some());
        node.pass(SECOND);
    }
}

#[test]
fn a_container_that_was_listed_during_a_rehearsal_is_not_omitted_after_the_guard_is_switched_on() {
    let mut node = Node::new(20, CONTAINERS);
    node.switch(Mode::Shadow);
    node.call(Rpc::ListContainers, "")
        .0
        .expect("it is passed on");
    // The next list is rehearsed, which waits for the status that hangs.
    node.hangs = |rpc, _| rpc == Rpc::ContainerStatus;
    node.makes = true;
    let list = node
        .call(Rpc::ListContainers, "")
        .0
        .expect("it is passed on");
    let list = v1::ListContainersResponse::decode(list).unwrap();
    assert_eq!(list.containers.len(), CONTAINERS + 1);
    node.switch(Mode::Guard);
    node.lift();
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    if let Some(list) = node.call(Rpc::ListContainers, "").0 {
        let list = v1::ListContainersResponse::decode(list).unwrap();
        assert_eq!(list.containers.len(), CONTAINERS + 1);
    }
}

#[test]
fn a_failing_container_keeps_its_state_and_delays_no_list() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    node.fails = |rpc, id| rpc == Rpc::ContainerStatus && id == container_id(9);
    for _ in 0..5 {
        let list = node
            .call(Rpc::ListContainers, "")
            .0
            .expect("it is answered");
        let list = v1::ListContainersResponse::decode(list).unwrap();
        assert_eq!(list.containers.len(), CONTAINERS);
        node.pass(SECOND);
    }
    // If all are failing, nothing confirms a row.
    node.fails = |rpc, _| rpc == Rpc::ContainerStatus;
    node.pass(SECOND * 3);
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
}
