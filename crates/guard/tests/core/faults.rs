//! How a fault begins and ends, and what is let through after the limit.

use std::time::Duration;

use cri::{Rpc, v1};
use guard::core::{Mode, Outcome, Phase};
use prost::Message;

use crate::node::{
    LIMIT, MADE, Node, container_id, create_container, nested, run_sandbox, sandbox_id,
};

const CONTAINERS: usize = 40;
const SECOND: Duration = Duration::from_secs(1);

/// The status lock of one container.
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
fn without_records_a_list_waits_for_the_runtime() {
    let mut node = Node::starting(20, CONTAINERS);
    node.hangs = locked;
    // Some callers have waited for long, some have just called, when the fault ends.
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
        let list = v1::ListContainersResponse::decode(end.expect("well")).unwrap();
        assert_eq!(list.containers.len(), CONTAINERS);
    }
}

#[test]
fn an_id_that_a_list_has_shown_before_its_status_came_is_not_asked_for_again_and_again() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, id| rpc == Rpc::ContainerStatus && id == MADE;
    node.makes = true;
    node.announce(MADE);
    node.call(Rpc::ListContainers, "")
        .0
        .expect("it is answered");
    node.lift();
    node.pass(SECOND * 10);
    assert_eq!(node.asked_for(MADE), 1);
}

#[test]
fn an_id_whose_status_does_not_tell_what_it_is_in_is_asked_for_twice_a_second_at_most() {
    let mut node = Node::new(20, CONTAINERS);
    node.announce(MADE);
    node.pass(SECOND * 10);
    let asked = node.asked_for(MADE);
    assert!((2..=21).contains(&asked), "{asked}");
}

#[test]
fn who_asks_for_both_lists_uses_the_guard_whether_they_are_answered_or_not() {
    let mut node = Node::new(20, CONTAINERS);
    assert_eq!(node.asked_ago(), None, "the guard's own lists do not count");
    node.hangs = |_, _| true;
    node.start(Rpc::ListContainers, "");
    assert_eq!(node.asked_ago(), None, "crictl ps asks for one");
    node.pass(SECOND);
    node.start(Rpc::ListPodSandbox, "");
    node.pass(SECOND);
    assert_eq!(node.asked_ago(), Some(SECOND * 2));
}

/// Enforces G6.
#[test]
fn after_the_limit_everything_passes_until_lists_come_in_time_again() {
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
fn a_fault_that_lets_one_list_through_now_and_then_has_one_limit() {
    let mut node = Node::new(20, CONTAINERS);
    // A kubelet gives up the call that holds the lock, and makes it again seconds later.
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
    assert_eq!(node.end_of(list), None, "after the limit it passes");
}

#[test]
fn a_change_is_not_answered_in_the_runtimes_place_before_its_time() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::CreateContainer;
    let call = node.start(Rpc::CreateContainer, create_container(&sandbox_id(0)));
    node.makes = true;
    node.call(Rpc::ListContainers, "");
    node.pass(Duration::from_millis(900));
    assert_eq!(node.end_of(call), None, "it may be answered any moment");
    node.pass(Duration::from_millis(1200));
    assert!(matches!(node.end_of(call), Some(Some(_))), "it is listed");
}

#[test]
fn who_asked_before_the_guard_was_switched_on_is_answered_too() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    for mode in [Mode::Shadow, Mode::Pass] {
        node.switch(mode);
        let list = node.start(Rpc::ListContainers, "");
        node.pass(SECOND * 15);
        assert_eq!(node.end_of(list), None, "it passes in mode {mode:?}");
        node.switch(Mode::Guard);
        node.pass(SECOND * 5);
        assert!(matches!(node.end_of(list), Some(Some(_))), "{mode:?}");
    }
}

#[test]
fn while_the_whole_runtime_is_silent_it_does_not_say_that_it_answers() {
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
    let answers = |phase: &Phase| matches!(phase, Phase::Guarding { .. });
    assert!(!phases.iter().any(answers), "{phases:?}");
    let last = phases.last().unwrap();
    assert!(matches!(last, Phase::Silent { .. }), "{phases:?}");
    // It goes on, and one container is stuck.
    node.lift();
    node.pass(SECOND * 3);
    assert_eq!(node.phase(), Phase::Passing);
    node.hangs = locked;
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert!(answers(&node.phase()));
    // Now it stops as a whole, in the middle of that.
    node.hangs = |_, _| true;
    node.pass(SECOND * 5);
    assert!(matches!(node.phase(), Phase::Silent { .. }));
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    node.lift();
    node.pass(SECOND * 3);
    assert_eq!(node.phase(), Phase::Passing);
}

#[test]
fn while_it_refuses_a_list_it_does_not_say_that_it_answers() {
    let mut node = Node::new(20, CONTAINERS);
    // The list hangs, and so does every status: nothing can be confirmed, but the runtime lives.
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
    let answers = |phase: &Phase| matches!(phase, Phase::Guarding { .. });
    assert!(!phases.iter().any(answers), "{phases:?}");
    let phase = node.phase();
    assert!(matches!(phase, Phase::Refusing { .. }), "{phase:?}");
    // Now one container alone hangs: the next list is answered.
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
fn while_nobody_asks_for_a_list_it_does_not_say_that_it_answers() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    let ours = node.start_ours(Rpc::ListContainers, "");
    node.pass(SECOND * 10);
    assert_eq!(node.end_of(ours), None, "ours is not answered");
    assert!(matches!(node.phase(), Phase::Waiting { .. }));
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert!(matches!(node.phase(), Phase::Guarding { .. }));
}

#[test]
fn a_guard_that_has_never_seen_a_list_says_that_it_refuses_lists() {
    let mut node = Node::starting(20, CONTAINERS);
    node.hangs = locked;
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    assert!(matches!(node.phase(), Phase::Refusing { .. }));
    node.lift();
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    assert_eq!(node.phase(), Phase::Passing);
}

#[test]
fn of_another_runtime_behind_the_socket_no_list_is_answered_from_what_the_last_one_had() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    // It ends. The next one has others, which it does not list either.
    node.disconnect();
    for _ in 0..3 {
        assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
    }
    node.lift();
    node.pass(SECOND * 3);
    node.hangs = locked;
    assert!(
        node.call(Rpc::ListContainers, "").0.is_some(),
        "it was seen"
    );
}

/// The answer names the sandbox alone, and a list that lacked one of its containers would have it started
/// a second time.
///
/// Enforces G2.
#[test]
fn after_a_pod_was_restored_no_list_is_answered_until_the_runtime_has_shown_what_it_has() {
    for is_answered in [true, false] {
        let mut node = Node::new(20, CONTAINERS);
        node.hangs = locked;
        assert!(node.call(Rpc::ListContainers, "").0.is_some());
        if is_answered {
            assert!(node.call(Rpc::RestorePod, "").0.is_some(), "it passes");
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
        node.asked.iter().filter(is_version).count()
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
    assert_eq!(node.asked.iter().filter(is_config).count(), 1);
}

#[test]
fn one_call_that_is_lost_while_the_connection_stands_takes_nothing_back() {
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
fn a_second_read_of_the_one_that_is_stuck_is_known_to_hang_once_the_first_has_left() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = locked;
    let stuck = container_id(7);
    let verbose = v1::ContainerStatusRequest {
        container_id: stuck.clone(),
        verbose: true,
    };
    // `crictl inspect` waits less long than a kubelet.
    let inspected = node.start(Rpc::ContainerStatus, verbose.encode_to_vec());
    node.pass(SECOND / 10);
    let read = node.start(Rpc::ContainerStatus, one(&stuck));
    node.pass(SECOND / 2);
    node.abandon(inspected);
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node.pass(SECOND * 5);
    assert_eq!(node.end_of(read), Some(None), "it is given up in time");
}

#[test]
fn what_was_saved_is_not_taken_in_with_one_bit_wrong() {
    let mut node = Node::new(3, 3);
    for rpc in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        assert!(node.call(rpc, "").0.is_some());
    }
    assert_eq!(node.damaged_and_taken_in(), 0);
}

#[test]
fn what_could_not_be_saved_is_saved_later() {
    let mut node = Node::new(20, CONTAINERS);
    for rpc in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        assert!(node.call(rpc, "").0.is_some());
    }
    assert!(node.has_to_save(false));
    assert!(node.has_to_save(true));
    assert!(!node.has_to_save(true), "it is saved");
}

#[test]
fn who_shares_a_read_waits_longer_than_the_one_who_asked_first() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::ContainerStatus;
    let read = one(&container_id(7));
    let first = node.start_for(SECOND * 120, Rpc::ContainerStatus, read.clone());
    let second = node.start_for(SECOND * 121, Rpc::ContainerStatus, read);
    assert_eq!(node.passed(), 1, "it is shared");
    // The runtime ends it when the first stops waiting.
    node.end(Rpc::ContainerStatus, Outcome::GivenUp);
    assert_eq!(node.end_of(first), Some(None));
    assert_eq!(node.end_of(second), None);
    node.lift();
    node.pass(SECOND / 100);
    assert!(node.end_of(second).is_some_and(|end| end.is_some()));
}

#[test]
fn a_read_that_its_caller_soon_gives_up_is_shared_with_nobody_who_waits_longer() {
    let mut node = Node::new(20, CONTAINERS);
    node.hangs = |rpc, _| rpc == Rpc::ContainerStatus;
    let read = one(&container_id(7));
    node.start_for(SECOND * 2, Rpc::ContainerStatus, read.clone());
    node.start_for(SECOND, Rpc::ContainerStatus, read.clone());
    assert_eq!(node.passed(), 1, "this one waits less long");
    node.start_for(SECOND * 120, Rpc::ContainerStatus, read);
    assert_eq!(node.passed(), 2);
}

#[test]
fn a_creation_that_the_runtime_says_has_failed_leaves_nothing_in_question() {
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
fn a_sandbox_is_made_once_it_has_its_address_and_not_when_it_is_listed_as_ready() {
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
fn what_is_left_over_on_the_host_is_asked_for_at_a_bounded_rate_and_holds_up_no_list() {
    let mut node = Node::new(20, CONTAINERS);
    let leftovers = (0..1000).map(|number| format!("{number:063x}c"));
    node.leftovers = Some(leftovers.collect());
    node.hangs = |rpc, _| rpc == Rpc::ListContainers;
    assert!(node.call(Rpc::ListContainers, "").0.is_some());
    node.pass(SECOND * 5);
    let before = node.asked.len();
    for _ in 0..10 {
        assert!(node.call(Rpc::ListContainers, "").0.is_some());
        node.pass(SECOND);
    }
    let a_second = (node.asked.len() - before) / 10;
    assert!(a_second < 1500, "{a_second} calls a second");
}

#[test]
fn what_passed_during_a_rehearsal_is_not_omitted_once_the_guard_is_switched_on() {
    let mut node = Node::new(20, CONTAINERS);
    node.switch(Mode::Shadow);
    node.call(Rpc::ListContainers, "").0.expect("it passes");
    // The next is rehearsed, which takes as long as a status is late.
    node.hangs = |rpc, _| rpc == Rpc::ContainerStatus;
    node.makes = true;
    let list = node.call(Rpc::ListContainers, "").0.expect("it passes");
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
fn one_whose_status_always_fails_keeps_its_state_and_holds_up_no_list() {
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
    // If all fail, nothing is known.
    node.fails = |rpc, _| rpc == Rpc::ContainerStatus;
    node.pass(SECOND * 3);
    assert!(!node.answers_within(SECOND * 10, Rpc::ListContainers));
}

#[test]
fn a_created_container_that_is_stuck_is_listed_as_long_as_nobody_has_started_it() {
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
