//! Statistics while one container is stuck: whole, or none at all, because a kubelet evicts first
//! whose statistics are missing.

use std::time::Duration;

use crate::node::{KUBELET_TIMEOUT, Node, container_id, stats_of};
use cri::Rpc;
use guard::core::Outcome;

const CONTAINERS: usize = 40;

/// As a kubelet writes it: a filter that is there, and empty.
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

/// The list hangs, and the one container's own.
fn one_is_locked(rpc: Rpc, id: &str) -> bool {
    match rpc {
        Rpc::ListContainerStats | Rpc::StreamContainerStats => true,
        Rpc::ContainerStats => id == container_id(7),
        _ => false,
    }
}

#[test]
fn what_is_answered_passes() {
    let mut node = Node::new(20, CONTAINERS);
    let (list, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert_eq!(list.unwrap(), all());
    assert!(took < Duration::from_millis(10), "{took:?}");
    assert!(
        node.asked
            .iter()
            .all(|(rpc, _)| *rpc != Rpc::ContainerStats)
    );
}

/// Enforces G5.
#[test]
fn one_that_is_stuck_keeps_its_last_value_and_all_others_are_new() {
    one_is_stuck(Rpc::ListContainerStats);
}

/// Enforces G5.
#[test]
fn a_stream_of_statistics_that_hangs_is_answered_as_the_list_is() {
    one_is_stuck(Rpc::StreamContainerStats);
}

#[test]
fn metrics_that_hang_are_given_up_before_the_caller_gives_up() {
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
    // In whatever order.
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
        // Nobody waits once more for who is silent.
        assert!(next < Duration::from_millis(500), "{next:?}");
    }
    assert_eq!(node.passed(), passed, "one such list is outstanding");
    let stuck = node
        .asked
        .iter()
        .filter(|(rpc, id)| one_is_locked(*rpc, id));
    assert_eq!(stuck.count(), 1, "and one call of the id");
    node.hangs = |_, _| false;
}

#[test]
fn a_list_that_came_too_late_is_not_waited_for_again_until_one_comes_in_time() {
    let mut node = Node::new(20, CONTAINERS);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.hangs = one_is_locked;
    assert!(node.call(Rpc::ListContainerStats, NO_FILTER).0.is_some());
    node.pass(Duration::from_secs(110));
    // containerd ends it when the kubelet that asked first would no longer wait.
    node.end(Rpc::ListContainerStats, Outcome::GivenUp);
    let (list, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert_eq!(list.unwrap().len(), all().len());
    assert!(took < Duration::from_millis(500), "{took:?}");
    // Of one container it comes at once, which tells nothing of all.
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
fn a_runtime_whose_statistics_always_take_some_seconds_is_waited_for_each_time() {
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
fn without_a_last_value_of_it_the_list_is_given_up_just_before_its_caller_does() {
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
fn statistics_that_only_the_runtime_has_are_waited_for() {
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
fn statistics_of_a_runtime_that_answers_none_by_id_are_its_own() {
    let mut node = Node::new(20, CONTAINERS);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.takes = Box::new(|_| Duration::from_secs(9));
    for _ in 0..5 {
        let asked = node.asked.len();
        let (list, took) = node.call(Rpc::ListContainerStats, NO_FILTER);
        assert!(list.is_some() && took < Duration::from_secs(10), "{took:?}");
        assert!(
            node.asked.len() - asked < 3 * CONTAINERS,
            "each id has one call"
        );
        node.pass(Duration::from_secs(10));
    }
}

#[test]
fn a_list_that_came_late_and_in_part_is_neither_the_measure_nor_the_last_value() {
    let mut node = Node::new(20, CONTAINERS);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.hangs = one_is_locked;
    // As containerd does at the caller's deadline: what it has by then.
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
fn a_guard_that_is_restarted_in_the_fault_has_the_last_value_of_one_that_is_stuck() {
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
fn one_answer_that_lacks_a_container_which_runs_leaves_none_out() {
    let mut node = Node::new(20, CONTAINERS);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.hangs = |rpc, _| rpc == Rpc::ListContainerStats;
    node.lacks = |rpc, id| rpc == Rpc::ContainerStats && id == container_id(7);
    let (list, _) = node.call(Rpc::ListContainerStats, NO_FILTER);
    assert_eq!(list.unwrap().len(), all().len());
}

#[test]
fn a_shared_list_of_statistics_that_ends_at_anothers_deadline_is_repeated() {
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
    // As the runtime does at the deadline that it was told.
    node.end_first_of(Rpc::ListContainerStats, Outcome::GivenUp);
    assert_eq!(node.end_of(second), None, "it waits for 106 s more");
    node.lift();
    node.pass(Duration::from_secs(1));
    assert!(matches!(node.end_of(second), Some(Some(_))));
}

#[test]
fn image_information_that_ends_at_anothers_deadline_is_repeated() {
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
fn a_list_of_statistics_that_others_wait_for_is_not_cancelled() {
    let mut node = Node::new(20, 40);
    node.call(Rpc::ListContainerStats, NO_FILTER);
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainerStats | Rpc::ContainerStats);
    let first = node.start_for(KUBELET_TIMEOUT, Rpc::ListContainerStats, NO_FILTER);
    node.pass(Duration::from_secs(1) * 3);
    // `crictl stats` asks with other bytes.
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
        "nothing it waits for is left"
    );
}
