//! How a fault begins and ends, and which calls are passed on after the limit.

use std::time::Duration;

use cri::{Rpc, v1};
use guard::core::{Mode, Outcome, Phase};
use prost::Message;

use crate::node::{
    LIMIT, MADE, Node, container_id, create_container, nested, run_sandbox, sandbox_id,
};

const CONTAINERS: usize = 40;
const SECOND: Duration = Duration::from_secs(1);

/// Which calls hang while the status lock of one container is held.
fn locked(rpc: Rpc, id: &str) -> bool {
    match rpc {
        Rpc::ListContainers => true,
        rpc => rpc == Rpc::ContainerStatus && id == container_id(7),
    }
}

fn one(id: &str) -> Vec<u8> {
    v1::ContainerStatusRequest {
        container_id: id.to_owned(),
        verbose: false,
    }
    .encode_to_vec()
}

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
    let stuck = one(&container_id(7));
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
fn a_change_is_not_completed_within_the_first_second() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::CreateContainer;
    let call = node.start(Rpc::CreateContainer, create_container(&sandbox_id(0)));
    node.makes = true;
    node.call(Rpc::ListContainers, "");
    node.pass(Duration::from_millis(900));
    assert_eq!(node.end_of(call), None, "the runtime may still answer");
    node.pass(Duration::from_millis(1200));
    assert!(matches!(node.end_of(call), Some(Some(_))), "it is listed");
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
fn the_phase_is_not_guarding_while_the_runtime_is_unresponsive() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |_, _| true;
    node.pass(Duration::from_millis(1));
    let mut phases = vec![node.phase()];
    for _ in 0..40 {
        if phases.len() % 5 == 1 {
            node.start(Rpc::ListContainers, "");
        }
        node.pass(SECOND / 2);
        phases.push(node.phase());
    }
    let is_guarding = |phase: &Phase| matches!(phase, Phase::Guarding { .. });
    assert!(!phases.iter().any(is_guarding), "{phases:?}");
    let last = phases.last().unwrap();
    assert!(matches!(last, Phase::Unresponsive { .. }), "{phases:?}");
    // The runtime recovers, and one container gets stuck.
    node.lift();
    node.pass(SECOND * 3);
    assert_eq!(node.phase(), Phase::Passing);
    node.hangs = locked;
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert!(is_guarding(&node.phase()));
    // During that fault, the whole runtime becomes unresponsive.
    node.hangs = |_, _| true;
    node.pass(SECOND * 5);
    assert!(matches!(node.phase(), Phase::Unresponsive { .. }));
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    node.lift();
    node.pass(SECOND * 3);
    assert_eq!(node.phase(), Phase::Passing);
}

#[test]
fn the_phase_is_refusing_while_lists_cannot_be_answered() {
    let mut node = Node::new(20, CONTAINERS);
    // The list and every status hang: nothing confirms a row, but the runtime answers other calls.
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainers | Rpc::ContainerStatus);
    node.pass(SECOND * 5);
    let call = node.start(Rpc::ListContainers, "");
    let mut phases = Vec::new();
    for _ in 0..100 {
        node.pass(SECOND / 10);
        phases.push(node.phase());
    }
    assert_eq!(node.end_of(call), None);
    node.abandon(call);
    let is_guarding = |phase: &Phase| matches!(phase, Phase::Guarding { .. });
    assert!(!phases.iter().any(is_guarding), "{phases:?}");
    let phase = node.phase();
    assert!(matches!(phase, Phase::Refusing { .. }), "{phase:?}");
    // Now only one container is stuck: the next list is answered.
    node.lift();
    node.hangs = locked;
    node.pass(SECOND * 3);
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert!(matches!(node.phase(), Phase::Guarding { .. }));
    node.lift();
    node.pass(SECOND * 3);
    assert_eq!(node.phase(), Phase::Passing);
}

#[test]
fn the_phase_is_waiting_until_a_client_requests_a_list() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    let ours = node.start_ours(Rpc::ListContainers, "");
    node.pass(SECOND * 10);
    assert_eq!(
        node.end_of(ours),
        None,
        "the observer's list is not answered"
    );
    assert!(matches!(node.phase(), Phase::Waiting { .. }));
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert!(matches!(node.phase(), Phase::Guarding { .. }));
}

#[test]
fn the_phase_is_refusing_until_the_first_complete_list() {
    let mut node = Node::starting(20, CONTAINERS);
    node.hangs = locked;
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    assert!(matches!(node.phase(), Phase::Refusing { .. }));
    node.lift();
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert_eq!(node.phase(), Phase::Passing);
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
    let read = node.start(Rpc::ContainerStatus, one(&stuck));
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
fn saved_state_with_one_flipped_bit_is_not_restored() {
    let mut node = Node::new(3, 3);
    for rpc in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        assert!(node.call(rpc, "").0.is_some());
    }
    assert_eq!(node.restored_after_damage(), 0);
}

#[test]
fn state_that_could_not_be_saved_is_saved_later() {
    let mut node = Node::new(20, CONTAINERS);
    for rpc in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        assert!(node.call(rpc, "").0.is_some());
    }
    assert!(node.has_to_save(false));
    assert!(node.has_to_save(true));
    assert!(!node.has_to_save(true), "it is saved");
}

#[test]
fn a_shared_read_is_repeated_for_the_caller_with_the_later_deadline() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::ContainerStatus;
    let read = one(&container_id(7));
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
    let read = one(&container_id(7));
    node.start_for(SECOND * 2, Rpc::ContainerStatus, read.clone());
    node.start_for(SECOND, Rpc::ContainerStatus, read.clone());
    assert_eq!(node.passed(), 1, "its deadline is earlier");
    node.start_for(SECOND * 120, Rpc::ContainerStatus, read);
    assert_eq!(node.passed(), 2);
}

#[test]
fn lists_are_answered_after_the_runtime_reports_that_a_creation_failed() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| matches!(rpc, Rpc::ListContainers | Rpc::ListPodSandbox);
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node.fails = |rpc, _| matches!(rpc, Rpc::CreateContainer | Rpc::RunPodSandbox);
    assert_eq!(node.call(Rpc::RunPodSandbox, run_sandbox()).0, None);
    let request = create_container(&sandbox_id(0));
    assert_eq!(node.call(Rpc::CreateContainer, request).0, None);
    for rpc in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        assert!(node.call(rpc, "").0.is_some(), "{rpc}");
    }
}

#[test]
fn run_pod_sandbox_is_completed_once_the_sandbox_has_an_address_and_not_once_it_is_ready() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::RunPodSandbox;
    let run = node.start(Rpc::RunPodSandbox, run_sandbox());
    node.makes_sandbox = Some(false);
    node.pass(SECOND * 5);
    assert_eq!(node.end_of(run), None, "its network is being set up");
    node.makes_sandbox = Some(true);
    node.pass(SECOND * 2);
    assert!(matches!(node.end_of(run), Some(Some(_))));
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

#[test]
fn a_stuck_created_container_is_listed_until_its_start_is_requested() {
    let made = |rpc, id: &str| match rpc {
        Rpc::ListContainers => true,
        Rpc::ContainerStatus => id == container_id(7) || id == MADE,
        Rpc::StopContainer | Rpc::StartContainer => id == MADE,
        _ => false,
    };
    for (rpc, is_listed) in [(Rpc::StopContainer, true), (Rpc::StartContainer, false)] {
        let mut node = Node::new(20, CONTAINERS);
        node.makes = true;
        node.call(Rpc::ListContainers, "").0.expect("it is created");
        node.hangs = made;
        node.call(Rpc::ListContainers, "")
            .0
            .expect("it is answered");
        let call = node.start(rpc, one(MADE));
        node.pass(SECOND);
        node.abandon(call);
        let answers = node.answers_within(SECOND * 10, Rpc::ListContainers);
        assert_eq!(answers, is_listed, "{rpc}");
    }
}
