//! Faults that recur, or that concern a single call.

use std::time::Duration;

use cri::{Rpc, v1};
use guard::core::Phase;
use prost::Message;

use crate::node::{KUBELET_TIMEOUT, Node, container_id, list_running, locked, sandbox_id};

const SECOND: Duration = Duration::from_secs(1);

/// Checks that the fault ends although the calls that hang are never answered: all later calls are
/// answered at once.
#[track_caller]
fn assert_the_fault_ends(node: &mut Node) {
    node.hangs = |_, _| false;
    let mut phases = Vec::new();
    for _ in 0..300 {
        node.call(Rpc::ListContainers, "").0.expect("answered");
        node.pass(SECOND);
        phases.push(node.phase());
    }
    let given_up = phases
        .iter()
        .filter(|it| **it == Phase::LimitReached)
        .count();
    let passing = phases.iter().filter(|it| **it == Phase::Passing).count();
    assert!(
        given_up == 0 && passing > 100,
        "given up {given_up}, passing {passing} of 300"
    );
}

#[test]
fn a_single_list_that_the_runtime_never_answers_is_not_an_endless_fault() {
    let mut node = Node::new(20, 40);
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    node.start_for(KUBELET_TIMEOUT, Rpc::ListContainers, "");
    node.pass(SECOND / 10);
    assert_the_fault_ends(&mut node);
}

#[test]
fn a_single_list_of_the_agent_that_the_runtime_never_answers_is_not_an_endless_fault() {
    let mut node = Node::new(20, 40);
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    node.start_ours(Rpc::ListContainers, "");
    node.pass(SECOND / 10);
    assert_the_fault_ends(&mut node);
}

#[test]
fn short_stalls_of_the_whole_runtime_do_not_reach_the_limit() {
    for (stall, pause) in [(3, 20), (3, 50), (10, 50)] {
        let mut node = Node::new(20, 40);
        let mut phases = Vec::new();
        for _ in 0..10 {
            node.hangs = |_, _| true;
            let list = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainers, "");
            for _ in 0..stall * 10 {
                node.pass(SECOND / 10);
                phases.push(node.phase());
            }
            node.lift();
            node.pass(SECOND / 10);
            assert!(
                matches!(node.end_of(list), Some(Some(_))),
                "the runtime answers"
            );
            for _ in 0..pause {
                node.call(Rpc::ListContainers, "")
                    .0
                    .expect("it is passed on");
                node.pass(SECOND);
                phases.push(node.phase());
            }
        }
        let given_up = phases
            .iter()
            .filter(|it| **it == Phase::LimitReached)
            .count();
        assert_eq!(given_up, 0, "stalls of {stall} s every {pause} s");
    }
}

#[test]
fn a_lock_after_the_hang_of_a_whole_kind_is_guarded_soon() {
    let mut node = Node::without_limit(20, 40);
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainers | Rpc::ContainerStatus);
    let list = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainers, "");
    node.start_ours(Rpc::ListContainers, "");
    node.pass(SECOND * 50);
    node.lift();
    node.pass(SECOND);
    assert!(matches!(node.end_of(list), Some(Some(_))));
    let mut late = Vec::new();
    for _ in 0..6 {
        for _ in 0..3 {
            node.call(Rpc::ListContainers, "")
                .0
                .expect("it is passed on");
            node.pass(SECOND);
        }
        node.hangs = locked;
        let (list, took) = node.call(Rpc::ListContainers, "");
        assert!(list.is_some());
        late.push(took);
        node.pass(SECOND * 100);
        node.lift();
        node.pass(SECOND * 2);
    }
    assert!(
        late.iter().filter(|took| **took > SECOND * 5).count() <= 1,
        "{late:?}"
    );
}

#[test]
fn locks_that_delay_only_the_agents_lists_do_not_raise_the_limit() {
    let mut node = Node::without_limit(20, 40);
    // There is no kubelet yet: the agent relists during locks of 45 s.
    for _ in 0..4 {
        node.hangs = locked;
        node.start_ours(Rpc::ListContainers, "");
        node.pass(SECOND * 45);
        node.lift();
        node.pass(SECOND * 5);
    }
    node.hangs = locked;
    let (list, took) = node.call(Rpc::ListContainers, "");
    assert!(list.is_some() && took < SECOND * 5, "{took:?}");
}

#[test]
fn locks_during_which_only_another_pod_was_listed_do_not_raise_the_limit() {
    let mut node = Node::without_limit(20, 40);
    let filter = || {
        let filter = v1::ContainerFilter {
            pod_sandbox_id: sandbox_id(12),
            ..Default::default()
        };
        v1::ListContainersRequest {
            filter: Some(filter),
        }
        .encode_to_vec()
    };
    for _ in 0..4 {
        node.hangs = locked;
        node.call(Rpc::ListContainers, filter())
            .0
            .expect("answered");
        node.pass(SECOND * 45);
        node.lift();
        node.pass(SECOND * 5);
    }
    node.hangs = locked;
    let (list, took) = node.call(Rpc::ListContainers, "");
    assert!(list.is_some() && took < SECOND * 5, "{took:?}");
}

#[test]
fn recurring_locks_of_many_lengths_are_each_guarded_soon() {
    for (held, free) in [(3, 2), (4, 4), (10, 3), (30, 2), (55, 5), (119, 3)] {
        let mut node = Node::without_limit(20, 40);
        let mut late = Vec::new();
        for _ in 0..12 {
            node.hangs = locked;
            node.start_ours(Rpc::ListContainers, "");
            let end = node.now() + SECOND * held;
            let requested = node.now();
            let call = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainers, "");
            while node.now() < end {
                node.pass(SECOND / 10);
                if node.end_of(call).is_some() {
                    late.push(node.now() - requested);
                    break;
                }
            }
            let left = end.saturating_duration_since(node.now());
            node.pass(left);
            node.lift();
            for _ in 0..free {
                node.call(Rpc::ListContainers, "")
                    .0
                    .expect("it is passed on");
                node.pass(SECOND);
            }
        }
        assert!(
            late.len() >= 11 && late.iter().all(|took| *took < SECOND * 5),
            "held {held}, free {free}: {late:?}"
        );
    }
}

#[test]
fn one_slow_status_does_not_keep_slow_lists_from_raising_the_limit() {
    // Lists take 10 s. The status of one container takes 20 s, and every other one 20 ms.
    let mut node = Node::new(20, 40);
    node.takes = Box::new(|rpc| {
        if matches!(rpc, Rpc::ListContainers | Rpc::ListPodSandbox) {
            SECOND * 10
        } else {
            Duration::from_millis(20)
        }
    });
    node.hangs = |rpc, id| rpc == Rpc::ContainerStatus && id == container_id(7);
    let mut phases = Vec::new();
    for turn in 0..40 {
        node.call(Rpc::ListContainers, "").0.expect("answered");
        node.pass(SECOND * 10);
        if turn == 1 {
            node.lift();
        }
        phases.push(node.phase());
    }
    let given_up = phases
        .iter()
        .filter(|it| **it == Phase::LimitReached)
        .count();
    let passing = phases.iter().filter(|it| **it == Phase::Passing).count();
    assert!(
        given_up == 0 && passing > 10,
        "given up {given_up}, passing {passing} of 40"
    );
}

#[test]
fn a_waiting_guard_wakes_up_at_a_bounded_rate() {
    let mut node = Node::without_limit(20, 40);
    node.hangs = |_, _| true;
    node.start_for(KUBELET_TIMEOUT, Rpc::ListContainers, "");
    node.start_for(KUBELET_TIMEOUT, Rpc::ListPodSandbox, "");
    node.pass(SECOND * 20);
    let (before, requested) = (node.turns, node.own_calls.len());
    node.pass(SECOND * 60);
    let (turns, requested) = (
        (node.turns - before) / 60,
        (node.own_calls.len() - requested) / 60,
    );
    assert!(
        turns <= 30 && requested <= 5,
        "{turns} turns, {requested} calls a second"
    );
}

#[test]
fn a_filtered_list_that_hangs_causes_a_bounded_rate_of_complete_lists() {
    let mut node = Node::without_limit(20, 40);
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    let filter = list_running();
    node.start_ours(Rpc::ListContainers, filter);
    node.pass(SECOND / 10);
    node.hangs = |_, _| false;
    node.takes = Box::new(|_| Duration::from_millis(10));
    let requested = node.own_calls.len();
    node.pass(SECOND * 20);
    let lists = node.own_calls[requested..]
        .iter()
        .filter(|(rpc, _)| *rpc == Rpc::ListContainers);
    let lists = lists.count();
    assert!(lists <= 40, "{lists} complete lists in 20 s");
}

#[test]
fn a_filtered_list_that_cannot_be_answered_causes_a_bounded_rate_of_complete_lists() {
    let mut node = Node::without_limit(20, 40);
    node.hangs = |rpc, id| rpc == Rpc::ListContainers || id == "unresolved";
    let filter = list_running();
    let list = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainers, filter);
    node.send_event("unresolved");
    node.pass(SECOND / 10);
    node.hangs = |_, id| id == "unresolved";
    node.takes = Box::new(|_| Duration::from_millis(10));
    let requested = node.own_calls.len();
    node.pass(SECOND * 20);
    let lists = node.own_calls[requested..]
        .iter()
        .filter(|(rpc, _)| *rpc == Rpc::ListContainers);
    let lists = lists.count();
    let end = node.end_of(list);
    assert!(lists <= 40, "{lists} complete lists in 20 s, {end:?}");
}

/// Enforces G14.
#[test]
fn the_agents_lists_are_answered_by_the_runtime_only() {
    let mut node = Node::without_limit(20, 40);
    node.hangs = locked;
    let ours = node.start_ours(Rpc::ListContainers, "");
    for _ in 0..30 {
        node.call(Rpc::ListContainers, "").0.expect("answered");
        node.pass(SECOND);
        assert_eq!(node.end_of(ours), None);
    }
    node.lift();
    node.pass(SECOND / 10);
    assert!(matches!(node.end_of(ours), Some(Some(_))));
}
