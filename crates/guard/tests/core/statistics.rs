//! Statistics while one container is stuck: a complete list or an error, because a kubelet evicts a pod
//! without statistics first.

use std::time::Duration;

use crate::node::{KUBELET_TIMEOUT, Node, container_id, stats_of};
use cri::Rpc;
use guard::core::Outcome;

const CONTAINERS: usize = 40;

/// A request with an empty filter, as a kubelet sends it.
const NO_FILTER: &[u8] = &[0x0a, 0];

/// A filter for one container.
fn filter_of(id: &str) -> Vec<u8> {
    let length = u8::try_from(id.len()).unwrap();
    [&[0x0a, length + 2, 0x0a, length], id.as_bytes()].concat()
}

fn all() -> Vec<u8> {
    (0..CONTAINERS)
        .flat_map(|number| stats_of(&container_id(number)))
        .collect()
}

fn locked() -> Node {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = one_is_locked;
    node
}

/// Which calls hang: lists of statistics, and the call for the statistics of one container.
fn one_is_locked(rpc: Rpc, id: &str) -> bool {
    match rpc {
        Rpc::ListContainerStats | Rpc::StreamContainerStats => true,
        Rpc::ContainerStats => id == container_id(7),
        _ => false,
    }
}

#[test]
fn an_answered_list_is_passed_on() {
    let mut node = Node::new(20, CONTAINERS);
    let (list, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert_eq!(list.unwrap(), all());
    assert!(took < Duration::from_millis(10), "{took:?}");
    assert!(
        node.own_calls
            .iter()
            .all(|(rpc, _)| *rpc != Rpc::ContainerStats)
    );
}

/// Enforces G5.
#[test]
fn a_stuck_container_keeps_its_last_statistics_and_all_others_are_new() {
    one_is_stuck(Rpc::ListContainerStats);
}

/// Enforces G5.
#[test]
fn an_overdue_stream_of_statistics_is_answered_like_the_list() {
    one_is_stuck(Rpc::StreamContainerStats);
}

#[test]
fn metrics_that_hang_end_with_an_error_before_the_deadline() {
    for rpc in [Rpc::ListPodSandboxMetrics, Rpc::StreamPodSandboxMetrics] {
        let mut node = Node::new(20, CONTAINERS);
        node.call(rpc, "");
        node.hangs = |rpc, _| {
            matches!(
                rpc,
                Rpc::ListPodSandboxMetrics | Rpc::StreamPodSandboxMetrics
            )
        };
        let (answer, took) = node.call(rpc, "");
        assert_eq!(answer, None);
        assert!(took < KUBELET_TIMEOUT, "{took:?}");
    }
}

fn one_is_stuck(list_of_statistics: Rpc) {
    let mut node = Node::new(20, CONTAINERS);
    node.call(list_of_statistics, NO_FILTER);
    node.hangs = one_is_locked;
    let (list, first) = node.call(list_of_statistics, NO_FILTER);
    let mut list = list.unwrap().to_vec();
    // The order does not matter.
    list.sort_unstable();
    let mut wanted = all();
    wanted.sort_unstable();
    assert_eq!(list, wanted);
    assert!(first < Duration::from_secs(8), "{first:?}");
    let passed = node.passed();
    for _ in 0..3 {
        node.pass(Duration::from_secs(10));
        let (list, next) = node.call(list_of_statistics, NO_FILTER);
        assert_eq!(list.unwrap().len(), wanted.len());
        // The stuck container does not delay the next list.
        assert!(next < Duration::from_millis(500), "{next:?}");
    }
    assert_eq!(node.passed(), passed, "one such list is outstanding");
    let stuck = node
        .own_calls
        .iter()
        .filter(|(rpc, id)| one_is_locked(*rpc, id));
    assert_eq!(stuck.count(), 1, "one call of the id is outstanding");
    node.hangs = |_, _| false;
}

#[test]
fn after_a_slow_list_the_next_one_is_collected_at_once_until_one_is_answered_in_time() {
    let mut node = Node::new(20, CONTAINERS);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.hangs = one_is_locked;
    assert!(node.call(Rpc::ListContainerStats, NO_FILTER).0.is_some());
    node.pass(Duration::from_secs(110));
    // containerd ends the call at the deadline of the first caller.
    node.end(Rpc::ListContainerStats, Outcome::GivenUp);
    let (list, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert_eq!(list.unwrap().len(), all().len());
    assert!(took < Duration::from_millis(500), "{took:?}");
    // A list of one container is answered at once, which is no evidence about complete lists.
    node.hangs = |_, _| false;
    node.call(Rpc::ListContainerStats, filter_of(&container_id(3)));
    node.hangs = one_is_locked;
    let (_, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert!(took < Duration::from_millis(500), "{took:?}");
    node.lift();
    node.pass(Duration::from_secs(1));
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.hangs = one_is_locked;
    let (_, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert!(took >= Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_list_that_always_takes_some_seconds_is_passed_on_each_time() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainerStats | Rpc::ContainerStats);
    for _ in 0..3 {
        let call = node.start(Rpc::ListContainerStats, NO_FILTER);
        node.pass(Duration::from_secs(4));
        assert_eq!(node.end_of(call), None);
        node.pass(Duration::from_secs(2));
        node.release(Rpc::ListContainerStats);
        node.pass(Duration::from_secs(4));
        assert!(node.end_of(call).flatten().is_some());
    }
}

/// Enforces G5.
#[test]
fn without_a_last_value_of_the_stuck_container_the_list_fails_just_before_the_deadline() {
    let mut node = locked();
    let (list, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert_eq!(list, None);
    let left = KUBELET_TIMEOUT - took;
    assert!(
        left > Duration::ZERO && left < Duration::from_secs(3),
        "{took:?}"
    );
}

#[test]
fn statistics_that_cannot_be_collected_by_id_are_answered_by_the_runtime_only() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::ImageFsInfo;
    let first = node.start_for(KUBELET_TIMEOUT, Rpc::ImageFsInfo, "");
    node.pass(Duration::from_secs(30));
    let second = node.start_for(KUBELET_TIMEOUT, Rpc::ImageFsInfo, "");
    node.pass(Duration::from_secs(30));
    assert_eq!(node.passed(), 1, "the second one shares the call");
    node.lift();
    node.pass(Duration::from_millis(10));
    for call in [first, second] {
        assert!(matches!(node.end_of(call), Some(Some(_))));
    }
}

#[test]
fn a_list_is_passed_on_if_the_runtime_answers_no_statistics_by_id() {
    let mut node = Node::new(20, CONTAINERS);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.takes = Box::new(|_| Duration::from_secs(9));
    for _ in 0..5 {
        let before = node.own_calls.len();
        let (list, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
        assert!(list.is_some() && took < Duration::from_secs(10), "{took:?}");
        assert!(
            node.own_calls.len() - before < 3 * CONTAINERS,
            "each id has one call"
        );
        node.pass(Duration::from_secs(10));
    }
}

#[test]
fn a_slow_and_incomplete_list_changes_neither_the_limit_nor_the_last_values() {
    let mut node = Node::new(20, CONTAINERS);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.hangs = one_is_locked;
    // At the caller's deadline containerd answers with an incomplete list.
    let first = node.start(Rpc::ListContainerStats, NO_FILTER);
    node.pass(Duration::from_secs(120));
    assert!(matches!(node.end_of(first), Some(Some(_))));
    node.lacks_stats_of = Some(container_id(7));
    node.lift();
    node.pass(Duration::from_millis(10));
    node.hangs = one_is_locked;
    let (list, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert_eq!(list.expect("all are known").len(), all().len());
    assert!(took < Duration::from_secs(8), "{took:?}");
}

/// Enforces G9.
#[test]
fn a_guard_that_is_restarted_during_a_fault_has_the_last_statistics_of_a_stuck_container() {
    let mut node = Node::new(20, CONTAINERS);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.hangs = |rpc, id| rpc == Rpc::ListContainers || one_is_locked(rpc, id);
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node.restart();
    let (list, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert_eq!(list.expect("all are known").len(), all().len());
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn one_not_found_answer_does_not_omit_a_running_container() {
    let mut node = Node::new(20, CONTAINERS);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.hangs = |rpc, _| rpc == Rpc::ListContainerStats;
    node.lacks = |rpc, id| rpc == Rpc::ContainerStats && id == container_id(7);
    let (list, _) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert_eq!(list.unwrap().len(), all().len());
}

#[test]
fn a_shared_list_of_statistics_that_ends_at_another_callers_deadline_is_repeated() {
    let mut node = Node::new(20, 40);
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainerStats | Rpc::ContainerStats);
    let first = node.start_for(
        Duration::from_secs(1) * 20,
        Rpc::ListContainerStats,
        NO_FILTER,
    );
    node.pass(Duration::from_secs(1) * 6);
    let second = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainerStats, NO_FILTER);
    node.pass(Duration::from_secs(1) * 14);
    assert_eq!(node.end_of(first), Some(None));
    // The runtime ends the call at the first caller's deadline.
    node.end_first_of(Rpc::ListContainerStats, Outcome::GivenUp);
    assert_eq!(node.end_of(second), None, "it waits for 106 s more");
    node.lift();
    node.pass(Duration::from_secs(1));
    assert!(matches!(node.end_of(second), Some(Some(_))));
}

#[test]
fn a_shared_image_fs_info_call_that_ends_at_another_callers_deadline_is_repeated() {
    let mut node = Node::new(20, 40);
    node.hangs = |rpc, _| rpc == Rpc::ImageFsInfo;
    node.start_for(Duration::from_secs(1) * 20, Rpc::ImageFsInfo, "");
    node.pass(Duration::from_secs(1) * 6);
    let second = node.start_for(KUBELET_TIMEOUT, Rpc::ImageFsInfo, "");
    node.pass(Duration::from_secs(1) * 14);
    node.end_first_of(Rpc::ImageFsInfo, Outcome::GivenUp);
    assert_eq!(node.end_of(second), None, "it waits for 106 s more");
}

#[test]
fn a_list_of_statistics_for_which_another_caller_waits_is_not_cancelled() {
    let mut node = Node::new(20, 40);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainerStats | Rpc::ContainerStats);
    let first = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainerStats, NO_FILTER);
    node.pass(Duration::from_secs(1) * 3);
    // The request of `crictl stats` has other bytes.
    let crictl = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainerStats, "");
    node.pass(Duration::from_secs(1) * 3);
    let second = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainerStats, NO_FILTER);
    node.pass(Duration::from_secs(1) * 3 / 2);
    node.release_last_of(Rpc::ListContainerStats);
    node.pass(Duration::from_secs(1) / 10);
    assert!(matches!(node.end_of(crictl), Some(Some(_))));
    node.abandon(first);
    node.pass(Duration::from_secs(1));
    node.lift();
    node.pass(Duration::from_secs(1));
    assert!(
        matches!(node.end_of(second), Some(Some(_))),
        "its list was cancelled"
    );
}
