//! A list is answered from the rows only if the status of another id of its kind is confirmed.

use std::time::Duration;

use cri::{Rpc, v1};
use fastrand::Rng;
use prost::Message;

use crate::node::{KUBELET_TIMEOUT, Node, container_id, create_container, locked, sandbox_id};

const SECOND: Duration = Duration::from_secs(1);

/// Relists as a kubelet does, and returns how many lists were answered within this time.
fn lists_answered_within(node: &mut Node, rpc: Rpc, time: Duration) -> usize {
    let end = node.now() + time;
    let mut answered = 0;
    while node.now() < end {
        answered += usize::from(node.call(rpc, "").0.is_some());
        node.pass(SECOND);
    }
    answered
}

/// Enforces G3.
#[test]
fn no_list_of_containers_is_answered_while_the_status_of_every_container_hangs() {
    for containers in [1, 2, 3, 10, 27] {
        let mut node = Node::without_limit(containers, containers);
        node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainers | Rpc::ContainerStatus);
        let answered = lists_answered_within(&mut node, Rpc::ListContainers, SECOND * 250);
        assert_eq!(answered, 0, "{containers} containers");
        node.lift();
        node.call(Rpc::ListContainers, "")
            .0
            .expect("it is passed on");
    }
}

/// Enforces G3.
#[test]
fn no_list_is_answered_while_the_statuses_of_all_sandboxes_hang_too() {
    for rpc in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        for containers in [1, 3, 10, 27] {
            let mut node = Node::without_limit(containers, containers);
            node.hangs = |rpc, _| rpc != Rpc::Version;
            let answered = lists_answered_within(&mut node, rpc, SECOND * 250);
            assert_eq!(answered, 0, "{rpc} of {containers}");
        }
    }
}

/// Enforces G3.
#[test]
fn while_one_of_two_containers_is_stuck_lists_are_answered() {
    let mut node = Node::without_limit(2, 2);
    node.hangs = |rpc, id| match rpc {
        Rpc::ListContainers => true,
        rpc => rpc == Rpc::ContainerStatus && id == container_id(0),
    };
    for _ in 0..100 {
        let (list, took) = node.call(Rpc::ListContainers, "");
        assert!(list.is_some() && took < SECOND * 5, "{took:?}");
        node.pass(SECOND);
    }
    // Now the status of the other one hangs too.
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainers | Rpc::ContainerStatus);
    node.pass(SECOND * 2);
    assert_eq!(node.call(Rpc::ListContainers, "").0, None);
}

/// Enforces G3.
#[test]
fn a_list_waits_for_the_runtime_if_the_only_container_is_stuck() {
    let mut node = Node::without_limit(1, 1);
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainers | Rpc::ContainerStatus);
    let list = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainers, "");
    node.pass(SECOND * 60);
    assert_eq!(node.end_of(list), None, "nothing confirms it");
    node.lift();
    node.pass(SECOND);
    assert!(matches!(node.end_of(list), Some(Some(_))));
}

/// Checks that the creation of a container does not release a list that waits for a confirmation.
#[track_caller]
fn assert_a_creation_releases_no_list(node: &mut Node) {
    let list = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainers, "");
    node.pass(SECOND * 30);
    assert_eq!(node.end_of(list), None);
    node.makes = true;
    node.call(Rpc::CreateContainer, create_container(&sandbox_id(0)))
        .0
        .expect("created");
    node.pass(SECOND * 5);
    assert_eq!(
        node.end_of(list),
        None,
        "the status of no container was answered"
    );
}

#[test]
fn a_creation_confirms_nothing_while_the_status_of_every_container_hangs() {
    let mut node = Node::without_limit(3, 3);
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainers | Rpc::ContainerStatus);
    assert_a_creation_releases_no_list(&mut node);
}

#[test]
fn a_creation_confirms_nothing_while_the_status_of_every_container_fails() {
    let mut node = Node::without_limit(3, 3);
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    node.fails = |rpc, _| rpc == Rpc::ContainerStatus;
    assert_a_creation_releases_no_list(&mut node);
}

#[test]
fn a_creation_confirms_nothing_while_the_only_other_container_is_stuck() {
    let mut node = Node::without_limit(2, 2);
    node.hangs = |rpc, id| {
        rpc == Rpc::ListContainers || rpc == Rpc::ContainerStatus && id == container_id(0)
    };
    node.call(Rpc::ListContainers, "").0.expect("answered");
    let request = v1::RemoveContainerRequest {
        container_id: container_id(1),
    };
    node.call(Rpc::RemoveContainer, request.encode_to_vec())
        .0
        .expect("removed");
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainers | Rpc::ContainerStatus);
    node.pass(SECOND * 2);
    assert_a_creation_releases_no_list(&mut node);
}

#[test]
fn a_failing_container_does_not_confirm_the_only_other_one_which_is_stuck() {
    let mut node = Node::without_limit(2, 2);
    node.hangs = |rpc, id| {
        rpc == Rpc::ListContainers || rpc == Rpc::ContainerStatus && id == container_id(0)
    };
    node.fails = |rpc, id| rpc == Rpc::ContainerStatus && id == container_id(1);
    let list = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainers, "");
    node.pass(SECOND * 60);
    assert_eq!(node.end_of(list), None);
}

#[test]
fn with_slow_statuses_and_a_stuck_container_each_list_has_each_container_once() {
    let mut node = Node::without_limit(20, 40);
    let mut rng = Rng::with_seed(7);
    node.takes = Box::new(move |_| Duration::from_millis(rng.u64(0..3000)));
    node.hangs = locked;
    let mut answered = 0;
    for _ in 0..40 {
        if let Some(list) = node.call(Rpc::ListContainers, "").0 {
            let list = v1::ListContainersResponse::decode(list).unwrap();
            let mut ids: Vec<_> = list.containers.iter().map(|it| it.id.clone()).collect();
            ids.sort();
            ids.dedup();
            assert_eq!((ids.len(), list.containers.len()), (40, 40));
            answered += 1;
        }
        node.pass(SECOND);
    }
    assert!(answered >= 30, "{answered}");
}
