//! One list is slow, stuck or unavailable while the other one is answered.

use crate::node::{LISTS, Node, broken, pods, seconds, three_pods, too_large};
use pleg::out::health::{Blind, HealthState, Reason};
use pleg::runtime::{CallError, Rpc};
use sim::Fault;

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_in_any_way_is_replaced_by_a_sweep() {
    for error in [
        CallError::Refused("Unavailable: ttrpc: closed".into()),
        CallError::NotFound("no such list".into()),
        CallError::Unimplemented("unknown method".into()),
        CallError::Malformed("no message".into()),
    ] {
        for list in LISTS {
            let node = Node::watch(pods).await;
            node.at(3.5).await;
            node.sim.fault(list, None, Fault::Fail(error.clone()));
            node.at(5.5).await;
            node.sim.exit("a", "app", 3);
            node.at(8.5).await;
            let status = node.status().await;
            assert_eq!(status.health.reason, Reason::ListFails, "{list}: {error}");
            let message = &status.health.message;
            assert!(
                message.contains(&format!("{list} is unavailable")),
                "{message}"
            );
            assert_eq!(node.deaths("a/app.0").len(), 1, "{list}: {error}");
            assert!(
                status.health.age_seconds < Some(3.0),
                "{list}: {error}: {:?}",
                status.health
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_too_large_is_replaced_by_a_sweep_and_rarely_requested() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    let large = CallError::TooLarge("found 17000000 bytes, the limit is: 16777216 bytes".into());
    node.sim
        .fault(Rpc::ListContainers, None, Fault::Fail(large));
    let lists = node.sim.calls_made(Rpc::ListContainers);
    node.at(5.5).await;
    node.sim.exit("a", "app", 1);
    node.at(300.5).await;
    let reported = node.reported();
    assert!(
        reported.contains("1.000 Degraded: ListContainers is unavailable: \
         the answer is larger than the receive limit: found 17000000 bytes, the limit is: 16777216 bytes; \
         sweeping containers, new containers may be missed"),
        "{reported}"
    );
    assert_eq!(
        reported.matches("Died a/app.0 with 1").count(),
        1,
        "{reported}"
    );
    assert_eq!(node.status().await.health.state, HealthState::Degraded);
    let made = node.sim.calls_made(Rpc::ListContainers) - lists;
    assert!((9..=12).contains(&made), "{made} lists in five minutes");
}

/// The list of containers is slow each time, and then exceeds the receive limit.
#[tokio::test(start_paused = true)]
async fn a_slow_list_that_is_too_large_is_replaced_although_the_other_one_is_stuck_for_a_while() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    let slow = Fault::Slow(seconds(2.5));
    node.sim.fault(Rpc::ListContainers, None, slow);
    node.at(20.0).await;
    node.sim.fault(Rpc::ListContainers, None, too_large());
    node.at(26.0).await;
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.sim.lift(Rpc::ListContainers, None);
    node.at(31.0).await;
    node.sim.lift(Rpc::ListPodSandbox, None);
    node.at(32.0).await;
    node.sim.exit("a", "app", 6);
    node.at(35.0).await;
    let reported = node.reported();
    assert!(reported.contains("Died a/app.0 with 6"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_is_requested_although_the_other_one_is_too_large() {
    for (slow, large) in [
        (Rpc::ListPodSandbox, Rpc::ListContainers),
        (Rpc::ListContainers, Rpc::ListPodSandbox),
    ] {
        let node = Node::watch(three_pods).await;
        node.at(0.5).await;
        node.sim.fault(slow, None, Fault::Slow(seconds(2.5)));
        node.at(20.0).await;
        node.sim.fault(large, None, too_large());
        let lists = node.sim.calls_made(slow);
        node.at(30.0).await;
        let made = node.sim.calls_made(slow) - lists;
        assert!((2..=4).contains(&made), "{made} {slow} of 2.5 s in 10 s");
        node.sim.lift(slow, None);
        node.at(34.0).await;
        let lists = node.sim.calls_made(slow);
        node.at(38.0).await;
        let made = node.sim.calls_made(slow) - lists;
        assert!((3..=5).contains(&made), "{made} {slow} in 4 s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_becomes_slow_beside_one_that_fails_is_not_reported_as_stuck() {
    for fails in [too_large(), broken()] {
        let node = Node::watch(three_pods).await;
        node.at(0.5).await;
        node.sim.fault(Rpc::ListContainers, None, fails.clone());
        node.at(5.0).await;
        let slow = Fault::Slow(seconds(5.0));
        node.sim.fault(Rpc::ListPodSandbox, None, slow);
        node.at(30.0).await;
        let lists = node.sim.calls_made(Rpc::ListPodSandbox);
        node.reported();
        node.at(130.0).await;
        let made = node.sim.calls_made(Rpc::ListPodSandbox) - lists;
        assert!((10..=17).contains(&made), "{fails:?}: {made} in 100 s");
        let reported = node.reported();
        assert!(
            !reported.contains("ListPodSandbox has not"),
            "{fails:?}: {reported}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_beside_one_that_fails_is_not_unavailable() {
    for (fails, slow) in [(LISTS[0], LISTS[1]), (LISTS[1], LISTS[0])] {
        for fault in [too_large(), broken()] {
            let node = Node::watch(three_pods).await;
            node.at(0.5).await;
            node.sim.fault(slow, None, Fault::Slow(seconds(2.5)));
            node.at(15.0).await;
            node.sim.fault(fails, None, fault.clone());
            node.at(30.0).await;
            node.sample(20.0, |at, status| {
                let message = &status.health.message;
                let fails = format!("{fails} is unavailable: ");
                let slow = format!("; {slow} is slow; ");
                let both = message.starts_with(&fails) && message.contains(&slow);
                assert!(both, "{fault:?}, at {at}: {message}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_answered_again_beside_a_slow_one_is_not_unavailable() {
    for (fails, slow) in [(LISTS[0], LISTS[1]), (LISTS[1], LISTS[0])] {
        for took in [0.0, 1.0, 2.5, 4.0] {
            let node = Node::watch(three_pods).await;
            node.at(0.5).await;
            node.sim.fault(slow, None, Fault::Slow(seconds(4.0)));
            node.at(15.0).await;
            node.sim.fault(fails, None, broken());
            node.at(31.0).await;
            match took {
                0.0 => node.sim.lift(fails, None),
                took => node.sim.fault(fails, None, Fault::Slow(seconds(took))),
            }
            node.sample(20.0, |at, status| {
                let message = &status.health.message;
                let both = message.starts_with("both lists are unavailable");
                assert!(!both, "{fails:?}, {took} s, at {at}: {message}");
                let stuck = &status.stuck;
                let is_named = stuck.iter().any(|call| call.call == slow);
                assert!(!is_named, "{fails:?}, {took} s, at {at}: {message}");
            })
            .await;
        }
    }
}

/// In each relist the list of sandboxes fails, and the list of containers is slow.
#[tokio::test(start_paused = true)]
async fn a_list_is_applied_although_the_other_one_has_failed() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.sim.fault(Rpc::ListPodSandbox, None, broken());
    let slow = Fault::Slow(seconds(5.0));
    node.sim.fault(Rpc::ListContainers, None, slow);
    let mut new = vec![];
    for time in [11.0, 31.0, 51.0] {
        node.at(time).await;
        let now = node.sim.now();
        node.sim.world().pod("a").restart("app", 4, now);
        new.push(format!("Started a/app.{}", new.len() + 1));
        node.at(time + 13.0).await;
        let reported = node.reported();
        let newest = new.last().unwrap();
        assert!(reported.contains(newest.as_str()), "{newest}: {reported}");
    }
}

/// In each relist the list of sandboxes fails first, and the list of containers is slow.
#[tokio::test(start_paused = true)]
async fn the_error_of_a_list_that_was_answered_since_is_reported_for_no_other_list() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    let slow = Fault::Slow(seconds(6.5));
    node.sim.fault(Rpc::ListContainers, None, slow);
    let fails = Fault::Fail(CallError::Refused("Unknown: of sandboxes".into()));
    node.sim.fault(Rpc::ListPodSandbox, None, fails);
    node.at(5.0).await;
    node.sim.lift(Rpc::ListPodSandbox, None);
    node.at(6.5).await;
    let reported = node.reported();
    assert!(reported.contains("of sandboxes"), "{reported}");
    node.at(40.0).await;
    let since = node.reported();
    assert!(!since.contains("of sandboxes"), "{since}");
}

/// Both lists are requested at 9.7 s. One is answered at 11.6 s, and waits for the other one.
#[tokio::test(start_paused = true)]
async fn a_received_list_is_applied_once_a_sweep_replaces_the_other_one() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    let slow = Fault::Slow(seconds(1.9));
    node.sim.fault(Rpc::ListContainers, None, slow);
    node.at(9.0).await;
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.sim.exit("a", "app", 6);
    node.at(20.0).await;
    let reported = node.reported();
    let mut lines = reported.lines();
    let degraded = lines.find(|line| line.contains("ListPodSandbox has not answered"));
    let (done_without, _) = degraded.and_then(|line| line.split_once(' ')).unwrap();
    let done_without: f64 = done_without.parse().unwrap();
    let died = node.deaths("a/app.0")[0];
    assert!(died < done_without + 0.5, "{reported}");
}

/// Asserts that a list that fails for a moment beside a stuck list is requested again.
async fn a_list_fails_once_beside_a_hanging_one(hangs: Rpc, fails: Rpc) {
    let node = Node::watch_knowing_no_host(three_pods).await;
    node.at(5.5).await;
    node.sim.fault(hangs, None, Fault::Hang);
    node.at(63.0).await;
    node.sim.fault(fails, None, broken());
    node.at(64.2).await;
    node.sim.lift(fails, None);
    node.at(70.0).await;
    let (sees, blind) = match fails {
        Rpc::ListPodSandbox => ("new.0", Blind::NewContainers),
        _ => ("new/app.0", Blind::NewPods),
    };
    assert_eq!(node.status().await.blind, [blind], "{fails} comes");
    node.reported();
    node.sim.run("new", &["app"]);
    node.at(75.0).await;
    let reported = node.reported();
    assert!(reported.contains(sees), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_failed_once_beside_a_stuck_one_is_requested_again() {
    a_list_fails_once_beside_a_hanging_one(Rpc::ListContainers, Rpc::ListPodSandbox).await;
    a_list_fails_once_beside_a_hanging_one(Rpc::ListPodSandbox, Rpc::ListContainers).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_a_sweep_requests_is_not_requested_twice() {
    let node = Node::watch(|sim| sim.run("a", &["app"])).await;
    node.at(5.5).await;
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.sim.fault(Rpc::ListContainers, None, broken());
    node.at(9.0).await;
    node.sim.stop();
    node.at(11.0).await;
    node.sim.restart(seconds(0.95));
    node.at(12.0).await;
    for list in LISTS {
        node.sim.fault(list, None, Fault::Hang);
    }
    node.sim.resume();
    node.at(30.0).await;
    assert_eq!(node.sim.max_outstanding_per_id(), 1, "of each call");
}
