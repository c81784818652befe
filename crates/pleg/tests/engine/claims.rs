//! What a status report claims is true: healthy, synced, last seen, as of, and the culprit.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::node::{
    LISTS, Node, STATUSES, broken, generic, has_failing, is_healthy, many, named, not_found, pods,
    seconds,
};
use pleg::Config;
use pleg::out::coverage::PassKind;
use pleg::out::health::{HealthState, Reason};
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, Rpc};
use sim::{Fault, Malformation, Sim};
use tokio::time::{Instant, sleep, timeout};

/// An inspection that fails for longer than this is reported.
const FAILING: f64 = 10.0;

fn set(sim: &Sim, calls: &[Rpc], fault: Fault) {
    for call in calls {
        sim.fault(*call, None, fault.clone());
    }
}

fn lists_are_stuck(status: &StatusReport) -> bool {
    let mut stuck = status.stuck.iter();
    stuck.any(|call| call.call == Rpc::ListContainers)
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_inspected_for_ten_seconds_is_reported_and_the_node_is_degraded() {
    let node = Node::watch(pods).await;
    node.at(1.5).await;
    node.sim.fault(Rpc::ContainerStatus, None, broken());
    node.sim.exit("a", "app", 1);
    node.sim.exit("b", "app", 2);
    node.at(3.5).await;
    for uid in ["uid-a", "uid-b"] {
        let entry = node.pleg.cache().get(&uid.into());
        assert!(entry.error.is_some(), "what is shown is the last known");
    }
    node.at(1.5 + 1.0 + FAILING + 0.5).await;
    let status = node.status().await;
    let health = &status.health;
    assert_eq!(
        (health.state, health.reason),
        (HealthState::Degraded, Reason::InspectionsFail)
    );
    for id in ["a/app.0", "b/app.0"] {
        assert!(has_failing(&status, id), "{id} in {:?}", status.failing);
    }
    for failing in &status.failing {
        assert_eq!(failing.call, Rpc::ContainerStatus);
        assert!(failing.since_seconds >= FAILING, "{failing:?}");
    }
    let reported = node.trace().into_iter().any(|entry| match entry.record {
        Record::Health(health) => {
            health.reason == Reason::InspectionsFail && health.failing.len() == 2
        }
        _ => false,
    });
    assert!(reported, "{}", node.reported());
    node.sim.lift_all();
    node.wait(3.0, is_healthy)
        .await
        .expect("it is healthy again");
    for id in ["a/app.0", "b/app.0"] {
        assert_eq!(node.deaths(id).len(), 1);
    }
    assert!(node.status().await.failing.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_inspection_that_fails_for_a_moment_does_not_degrade_the_node() {
    let node = Node::watch(pods).await;
    node.at(1.5).await;
    node.sim.fault(Rpc::ContainerStatus, None, broken());
    node.sim.exit("a", "app", 1);
    node.sample(6.0, |at, status| {
        assert_eq!(status.health.state, HealthState::Healthy, "at {at}");
    })
    .await;
    node.sim.lift_all();
    node.sample(20.0, |at, status| {
        assert_eq!(status.health.state, HealthState::Healthy, "at {at}");
    })
    .await;
    assert_eq!(node.deaths("a/app.0").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_call_is_answered_again_fails_until_its_inspection_succeeds() {
    let node = Node::watch(|sim| {
        pods(sim);
        sim.run("two", &["app", "side"]);
    })
    .await;
    node.at(1.5).await;
    let (call, sandbox) = (Rpc::PodSandboxStatus, "two.0");
    node.sim.fault(call, Some(sandbox), broken());
    node.sim.exit("two", "app", 1);
    node.at(3.5).await;
    assert!(has_failing(&node.status().await, sandbox));
    // The status of the pod's sandbox is answered at once now, that of one container only after a
    // while.
    let slow = Fault::Slow(std::time::Duration::from_millis(900));
    node.sim
        .fault(Rpc::ContainerStatus, Some("two/side.0"), slow);
    node.sim.lift(call, Some(sandbox));
    for step in 0..60 {
        node.at(3.5 + f64::from(step) * 0.05).await;
        let fails = has_failing(&node.status().await, sandbox);
        let error = node.pleg.cache().get(&"uid-two".into()).error;
        assert!(fails || error.is_none(), "what is shown is old: {error:?}");
    }
    assert!(!has_failing(&node.status().await, sandbox), "it was seen");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_synced_before_a_pod_was_observed() {
    for call in STATUSES {
        let node = Node::watch(|sim| {
            pods(sim);
            sim.fault(call, None, broken());
        })
        .await;
        node.sample(60.0, |at, status| {
            assert_ne!(status.health.state, HealthState::Healthy, "at {at}");
            assert_eq!(status.relist.count, 0, "at {at}");
        })
        .await;
        assert_eq!(node.synced(), None, "{call} fails of everybody");
        node.sim.lift_all();
        node.pass(2.0).await;
        assert!(node.synced().is_some());
        assert_eq!(node.status().await.health.state, HealthState::Healthy);
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_unobserved_pods_are_not_synced() {
    let node = Node::watch(|sim| {
        many(sim, 1000, &["app"]);
        for call in STATUSES {
            sim.fault(call, None, Fault::Hang);
        }
    })
    .await;
    node.at(0.9).await;
    for list in LISTS {
        node.sim.fault(list, None, Fault::Hang);
    }
    node.at(120.0).await;
    assert_eq!(node.synced(), None);
    let status = node.status().await;
    assert_eq!(status.relist.count, 0);
    assert_ne!(status.health.state, HealthState::Healthy);
    assert_eq!(status.health.last_seen, None);
    assert!(node.counter.seen.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn last_seen_advances_with_complete_sweeps() {
    let node = Node::watch(pods).await;
    node.at(1.5).await;
    node.sim.status_lock("locked", "app");
    node.at(10.0).await;
    for _ in 0..30 {
        node.pass(1.0).await;
        let seen = node.counter.seen.lock().unwrap().last().copied();
        let age = node.sim.now().since(seen.expect("it was seen once"));
        assert!(age <= seconds(3.0), "{age:?} ago");
        let status = node.status().await.health;
        assert_eq!(status.last_seen, seen, "both show the same time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_does_not_count_as_a_kubelets_relist() {
    let node = Node::watch(pods).await;
    node.at(1.5).await;
    node.sim.status_lock("locked", "app");
    node.at(6.0).await;
    let relists = *node.counter.relists.lock().unwrap();
    let count = node.status().await.relist.count;
    node.at(30.0).await;
    assert_eq!(*node.counter.relists.lock().unwrap(), relists);
    assert!(node.status().await.relist.count > count + 10, "but a look");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_id_from_the_host_threatens_no_kubelet_once_lists_are_answered() {
    let node = Node::watch_knowing_also(&["ghost"], pods).await;
    node.at(1.5).await;
    for call in STATUSES {
        node.sim.fault(call, Some("ghost"), Fault::Hang);
    }
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(12.0).await;
    let threatened = node.status().await.kubelet_view;
    assert!(threatened.not_ready_in_seconds.is_some());
    node.sim.lift(Rpc::ListContainers, None);
    node.at(20.0).await;
    let status = node.status().await;
    assert_eq!(status.relist.last_kind, Some(PassKind::List));
    assert_eq!(status.kubelet_view.not_ready_in_seconds, None);
    assert!(status.kubelet_view.ready);
}

#[tokio::test(start_paused = true)]
async fn a_stall_does_not_hide_the_next_stall() {
    for stalls in [4, 8, 16] {
        let node = Node::watch(pods).await;
        node.at(1.5).await;
        for stall in 0..stalls {
            node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
            node.pass(2.2 + 1.4 * f64::from(stall % 5)).await;
            node.sim.lift(Rpc::ListContainers, None);
            node.pass(5.3).await;
        }
        let well = node.wait(15.0, is_healthy).await;
        well.unwrap_or_else(|status| panic!("after {stalls} stalls {:?}", status.health));

        node.sim.status_lock("locked", "app");
        let locked = node.elapsed();
        // One period until the list is requested, and then the promised time.
        let degraded = node.wait(4.2, lists_are_stuck).await;
        degraded.unwrap_or_else(|status| {
            panic!(
                "after {stalls} stalls nothing is reported: {:?}",
                status.health
            )
        });
        assert_eq!(node.status().await.health.state, HealthState::Degraded);
        let names = |status: &StatusReport| named(&status.stuck) == ["locked/app.0".into()];
        let left = locked + 5.0 - node.elapsed();
        let named = node.wait(left, names).await;
        named.unwrap_or_else(|status| panic!("after {stalls} stalls {:?}", status.stuck));
        node.at(locked + 8.0).await;
        node.sim.exit("b", "app", 1);
        node.at(locked + 10.1).await;
        assert_eq!(node.deaths("b/app.0").len(), 1, "after {stalls} stalls");
        node.at(locked + 25.0).await;
        node.sim.lift_all();
        let well = node.wait(3.0, is_healthy).await;
        well.unwrap_or_else(|status| panic!("after {stalls} stalls {:?}", status.health));
    }
}

/// Enforces O3.
#[tokio::test(start_paused = true)]
async fn no_call_is_blamed_while_the_whole_runtime_is_stopped() {
    for (stalls, dies_after) in [
        (0, Some(0.2)),
        (0, None),
        (4, None),
        (4, Some(0.2)),
        (4, Some(2.7)),
    ] {
        let case = format!("{stalls} stalls, a death after {dies_after:?}");
        let node = Node::watch_with_kernel(generic(), pods).await;
        node.at(1.4).await;
        for _ in 0..stalls {
            node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
            node.pass(6.0).await;
            node.sim.lift_all();
            node.pass(5.0).await;
        }
        let reported_before = node.trace().len();
        node.sim.stop();
        let stopped = node.elapsed();
        let blames = |at: f64, status: &StatusReport| {
            let names = named(&status.stuck);
            assert!(
                names.is_empty(),
                "{case}: after {:.2} s {names:?}",
                at - stopped
            );
            let health = &status.health;
            let reason = health.reason;
            if at < stopped + 6.0 {
                let so_far = [Reason::AllSeen, Reason::ListStuck, Reason::RuntimeSilent];
                assert!(so_far.contains(&reason), "{case}: {reason}");
            } else {
                let is = (health.state, reason);
                let expected = (HealthState::Degraded, Reason::RuntimeSilent);
                assert_eq!(is, expected, "{case}: after {:.2} s", at - stopped);
            }
        };
        if let Some(after) = dies_after {
            node.sample(after, blames).await;
            node.sim.kill("c", "app");
            node.sim.exit("c", "app", 137);
        }
        node.sample(30.0 - dies_after.unwrap_or_default(), blames)
            .await;
        for entry in &node.trace()[reported_before..] {
            if let Record::Health(health) = &entry.record {
                assert_eq!(named(&health.stuck), [], "{case}: reported at {}", entry.at);
            }
        }
        assert!(node.sim.outstanding().len() <= 64, "{case}");
        node.sim.resume();
        let well = node.wait(4.0, is_healthy).await;
        well.unwrap_or_else(|status| panic!("{case}: {:?}", status.health));
        let deaths = usize::from(dies_after.is_some());
        assert_eq!(node.deaths("c/app.0").len(), deaths, "{case}");
    }
}

/// As with SIGSTOP of this process: the runtime continues, and its answers stay in the socket.
#[tokio::test(start_paused = true)]
async fn a_pause_of_this_process_is_not_blamed_on_the_runtime() {
    let phases = (0..14).map(|phase| f64::from(phase) / 10.0);
    let pauses = [0.6, 6.0, 12.0, 18.0, 200.0];
    for (phase, pause) in phases.flat_map(|phase| pauses.map(|pause| (phase, pause))) {
        let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app", "side"])).await;
        node.at(3.0).await;
        for call in LISTS.into_iter().chain(STATUSES) {
            node.sim.fault(call, None, Fault::Slow(seconds(0.4)));
        }
        for round in 0..3 {
            node.sim.exit(&format!("p{round}"), "app", 1);
            node.pass(1.0 + phase).await;
            tokio::time::advance(seconds(pause)).await;
            assert_healthy(&node, 3.0, &format!("{pause} s after {phase} s")).await;
            node.sim.start_again(&format!("p{round}"), "app");
            assert_healthy(&node, 3.0, "and later").await;
        }
    }
}

/// Asserts that no problem is reported for this many seconds.
async fn assert_healthy(node: &Node, time: f64, case: &str) {
    node.sample(time, |at, status| {
        let message = &status.health.message;
        assert_eq!(
            status.health.reason,
            Reason::AllSeen,
            "{case}, {at}: {message}"
        );
        assert!(status.failing.is_empty(), "{case}, {at}: {message}");
        assert!(status.stuck.is_empty(), "{case}, {at}: {message}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn if_this_process_runs_only_now_and_then_no_call_is_blamed() {
    for slow in [0.0, 0.2] {
        let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app", "side"])).await;
        node.at(3.0).await;
        for call in LISTS.into_iter().chain(STATUSES) {
            node.sim.fault(call, None, Fault::Slow(seconds(slow)));
        }
        for round in 0..20 {
            if round % 5 == 0 {
                node.sim.exit(&format!("p{}", round / 5), "app", 1);
            }
            tokio::time::advance(seconds(3.0)).await;
            assert_healthy(&node, 0.01, "it runs for 10 ms in 3 s").await;
        }
        node.pass(1.0).await;
        assert_healthy(&node, 5.0, "afterwards").await;
        assert_eq!(node.deaths("p0/app.0").len(), 1);
    }
}

/// On a throttled node this process runs slowly, and outstanding calls become older meanwhile.
#[tokio::test(start_paused = true)]
async fn a_stuck_list_is_reported_although_each_step_of_this_process_takes_long() {
    let node = Node::watch_stream(|sim| many(sim, 12, &["app"])).await;
    node.at(3.5).await;
    node.counter.make_turns_take(seconds(0.4));
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let sim = node.sim.clone();
    let changes = tokio::spawn(async move {
        for number in (0..12).cycle() {
            let pod = format!("p{number}");
            sim.exit(&pod, "app", 1);
            sleep(seconds(0.3)).await;
            sim.start_again(&pod, "app");
            sleep(seconds(0.3)).await;
        }
    });
    let reported = node.wait(30.0, lists_are_stuck).await;
    changes.abort();
    reported.unwrap_or_else(|status| panic!("{:?}", status.health));
}

#[tokio::test(start_paused = true)]
async fn the_runtime_is_not_blamed_for_a_long_step_of_this_process() {
    for turn in [0.4, 1.5, 2.5, 6.0] {
        let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app", "side"])).await;
        node.at(3.0).await;
        for (number, call) in LISTS.into_iter().chain(STATUSES).enumerate() {
            let time = seconds(0.05 + 0.01 * number as f64);
            node.sim.fault(call, None, Fault::Slow(time));
        }
        for round in 0..4 {
            node.sim.exit(&format!("p{round}"), "app", 1);
            node.pass(0.93).await;
            node.counter.make_turns_take(seconds(turn));
            node.pass(0.1).await;
            node.counter.make_turns_take(seconds(0.0));
            assert_healthy(&node, 3.0, &format!("a turn of {turn} s, round {round}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_arrived_during_a_pause_was_not_late() {
    for (took, phase, pause) in [(1.9, 1.05, 1.8), (1.5, 1.2, 0.5), (1.2, 1.05, 40.0)] {
        let node = Node::watch_with(generic(), pods).await;
        node.at(3.5).await;
        node.sim
            .fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(0.1)));
        node.sim
            .fault(Rpc::ListContainers, None, Fault::Slow(seconds(took)));
        node.pass(0.5 + phase).await;
        node.sim.lift(Rpc::ListContainers, None);
        tokio::time::advance(seconds(pause)).await;
        assert_healthy(
            &node,
            4.0,
            &format!("{pause} s after {phase} s of {took} s"),
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_requested_before_a_pause_does_not_contradict_an_exit() {
    for (phase, pause) in [
        (0.03, 3.0),
        (0.06, 3.0),
        (0.1, 12.0),
        (0.15, 12.0),
        (0.2, 12.0),
    ] {
        let node = Node::watch_with_kernel(generic(), pods).await;
        node.at(3.5).await;
        for call in STATUSES {
            node.sim.fault(call, None, Fault::Slow(seconds(0.02)));
        }
        node.sim.kill("a", "app");
        node.pass(phase).await;
        node.sim.exit("a", "app", 137);
        tokio::time::advance(seconds(pause)).await;
        assert_healthy(&node, 4.0, &format!("{pause} s after {phase} s")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_stuck_during_a_pause_is_reported_soon_after() {
    let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app"])).await;
    node.at(3.5).await;
    node.sim.status_lock("p2", "app");
    for _ in 0..3 {
        node.pass(0.7).await;
        tokio::time::advance(seconds(6.0)).await;
    }
    node.pass(4.0).await;
    let status = node.status().await;
    assert_eq!(status.health.reason, Reason::ContainerStuck);
    assert_eq!(named(&status.stuck), ["p2/app.0".into()]);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_another_id_is_refused() {
    for (call, id) in [
        (Rpc::ContainerStatus, "a/app.0"),
        (Rpc::PodSandboxStatus, "a.0"),
    ] {
        let node = Node::watch(pods).await;
        node.at(1.5).await;
        node.reported();
        let another = Fault::Malformed(Malformation::OfAnother);
        node.sim.fault(call, Some(id), another);
        node.sim.exit("a", "app", 1);
        node.at(3.5).await;
        let entry = node.pleg.cache().get(&"uid-a".into());
        let ids: Vec<&str> = entry
            .status
            .containers
            .iter()
            .map(|it| it.id.as_str())
            .collect();
        assert_eq!(ids, ["a/app.0"], "the last known");
        let ids: Vec<&str> = entry
            .status
            .sandboxes
            .iter()
            .map(|it| it.id.as_str())
            .collect();
        assert_eq!(ids, ["a.0"], "the last known");
        assert!(entry.error.is_some(), "{call}");
        node.at(2.5 + FAILING + 0.5).await;
        let status = node.status().await;
        assert!(has_failing(&status, id), "{call}: {:?}", status.failing);
        node.assert_reported_no_event();
        node.sim.lift_all();
        node.pass(2.0).await;
        assert_eq!(node.deaths("a/app.0").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_refuses_the_status_of_another_id_too() {
    let node = Node::watch(pods).await;
    node.at(1.5).await;
    node.reported();
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let another = Fault::Malformed(Malformation::OfAnother);
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), another);
    // The status of `b` is received in place of that of `a`.
    node.sim.exit("b", "app", 5);
    node.at(20.0).await;
    assert_eq!(node.deaths("b/app.0").len(), 1);
    assert_eq!(node.deaths("a/app.0").len(), 0, "a lives");
    let entry = node.pleg.cache().get(&"uid-a".into());
    let ids: Vec<&str> = entry
        .status
        .containers
        .iter()
        .map(|it| it.id.as_str())
        .collect();
    assert_eq!(ids, ["a/app.0"]);
    let status = node.status().await;
    assert!(has_failing(&status, "a/app.0"), "{:?}", status.failing);
}

#[tokio::test(start_paused = true)]
async fn no_pass_confirms_an_unknown_pod_while_sandboxes_cannot_be_listed() {
    for lists in [&LISTS[..1], &LISTS] {
        let node = Node::watch(pods).await;
        node.at(1.5).await;
        for list in lists {
            node.sim.fault(*list, None, Fault::Hang);
        }
        node.at(8.0).await;
        let newer = async |uid: &str, most: f64| {
            let (uid, requested) = (uid.into(), Instant::now());
            let newer = node.pleg.cache().newer_than(&uid, requested);
            timeout(seconds(most), newer).await.is_ok()
        };
        assert!(newer("uid-a", 3.0).await, "a known pod is swept");
        assert!(!newer("uid-new", 10.0).await, "there may be one by now");
        node.sim.lift_all();
        assert!(newer("uid-new", 3.0).await);
    }
}

type Break = fn(&Sim);

/// The faults that keep every pass from observing a pod.
const WHERE_NO_POD_IS_OBSERVED: [(&str, Break); 4] = [
    ("the runtime is stopped", Sim::stop),
    ("lists and statuses hang", |sim| {
        set(sim, &LISTS, Fault::Hang);
        set(sim, &STATUSES, Fault::Hang);
    }),
    ("lists hang and statuses fail", |sim| {
        set(sim, &LISTS, Fault::Hang);
        set(sim, &STATUSES, broken());
    }),
    ("lists and statuses fail", |sim| {
        set(sim, &LISTS, broken());
        set(sim, &STATUSES, broken());
    }),
];

#[tokio::test(start_paused = true)]
async fn the_cache_confirms_no_pod_that_no_pass_could_observe() {
    for (what, make) in WHERE_NO_POD_IS_OBSERVED {
        let node = Node::watch(pods).await;
        node.at(3.5).await;
        make(&node.sim);
        node.at(6.0).await;
        node.sim.exit("a", "app", 1);
        for _ in 0..5 {
            let (uid, requested) = ("uid-a".into(), Instant::now());
            let newer = node.pleg.cache().newer_than(&uid, requested);
            if let Ok(entry) = timeout(seconds(5.0), newer).await {
                let entry = entry.expect("it runs");
                assert!(entry.error.is_some(), "{what}: as if it were seen");
            }
        }
        node.sim.lift_all();
        let (uid, requested) = ("uid-a".into(), Instant::now());
        let newer = node.pleg.cache().newer_than(&uid, requested);
        let entry = timeout(seconds(3.0), newer).await.expect("it is seen");
        assert_eq!(entry.expect("it runs").error, None, "{what}");
        assert_eq!(node.deaths("a/app.0").len(), 1, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_an_observed_pod_for_longer_than_the_threshold_is_unhealthy() {
    for fault in [broken(), Fault::Hang] {
        let node = Node::watch(|sim| {
            pods(sim);
            sim.fault(Rpc::ContainerStatus, None, fault.clone());
        })
        .await;
        node.at(179.0).await;
        assert_ne!(node.status().await.health.state, HealthState::Healthy);
        node.at(182.0).await;
        let health = node.status().await.health;
        assert_eq!(health.state, HealthState::Unhealthy, "{fault:?}");
        assert_eq!(health.last_seen, None);
    }
}

/// Enforces O4.
#[tokio::test(start_paused = true)]
async fn last_seen_is_never_newer_than_the_last_pass_that_observed_a_pod() {
    for (what, make) in WHERE_NO_POD_IS_OBSERVED {
        let node = Node::watch(pods).await;
        node.at(5.5).await;
        make(&node.sim);
        let broken = node.sim.now();
        node.sample(60.0, |at, status| {
            let health = &status.health;
            let seen = health.last_seen.expect("it was seen once");
            assert!(seen <= broken, "{what}: at {at}");
            let age = health.age_seconds.expect("so it has an age");
            assert!(age >= at - 5.5, "{what}: {age} s at {at}");
        })
        .await;
        let seen = node.counter.seen.lock().unwrap().last().copied();
        assert!(
            seen.unwrap() <= broken,
            "{what}: an observer is reported otherwise"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn last_seen_never_goes_back_when_delayed_lists_arrive() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("locked/app.0"), Fault::Hang);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let mut last = None;
    node.sample(200.0, |at, status| {
        assert_ne!(status.health.state, HealthState::Unhealthy, "{at}");
        last = last.max(status.health.last_seen);
    })
    .await;
    node.sim.lift_all();
    node.sample(5.0, |at, status| {
        assert_ne!(status.health.state, HealthState::Unhealthy, "{at}");
        assert!(status.health.last_seen >= last, "{at}");
        last = status.health.last_seen;
    })
    .await;
    let seen = node.counter.seen.lock().unwrap().clone();
    assert!(
        seen.is_sorted(),
        "an observer is reported otherwise: {seen:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn stuck_calls_of_removed_pods_hide_no_other_pod() {
    let node = Node::watch(|sim| {
        for name in ["web", "db", "job"] {
            sim.run(name, &["app"]);
        }
    })
    .await;
    node.at(4.0).await;
    node.sim
        .fault(Rpc::PodSandboxStatus, Some("job.0"), Fault::Hang);
    node.sim
        .fault(Rpc::ContainerStatus, Some("web/app.0"), Fault::Hang);
    for pod in ["web", "job"] {
        node.sim.exit(pod, "app", 1);
    }
    node.at(9.0).await;
    for pod in ["web", "job"] {
        node.sim.world().remove(pod);
    }
    node.at(40.0).await;
    let health = node.status().await.health;
    assert!(health.age_seconds < Some(3.0), "{health:?}");
}

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
async fn a_pod_whose_list_and_status_contradict_each_other_is_inspected_until_they_agree() {
    for (call, id) in [
        (Rpc::ContainerStatus, "a/app.0"),
        (Rpc::PodSandboxStatus, "a.0"),
    ] {
        let node = Node::watch(|sim| {
            pods(sim);
            sim.run("a", &["app", "other"]);
        })
        .await;
        node.at(3.5).await;
        node.sim.fault(call, Some(id), not_found());
        node.sim.exit("a", "other", 5);
        // The removal may follow the exit a moment later: that is no contradiction.
        node.at(4.8).await;
        assert!(node.status().await.failing.is_empty());
        node.at(8.5).await;
        let status = node.status().await;
        assert!(has_failing(&status, id), "{call}: {:?}", status.failing);
        assert!(node.pleg.cache().get(&"uid-a".into()).error.is_some());
        node.at(16.5).await;
        let health = node.status().await.health;
        assert_eq!(health.reason, Reason::InspectionsFail, "{call}");
        node.sim.lift_all();
        node.at(27.5).await;
        let status = node.status().await;
        assert_eq!(status.health.state, HealthState::Healthy, "{call}");
        assert!(status.failing.is_empty());
        let entry = node.pleg.cache().get(&"uid-a".into());
        assert_eq!(entry.error, None, "{call}");
        assert_eq!(entry.status.sandboxes.len(), 1, "{call}");
        assert_eq!(entry.status.containers.len(), 2, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_while_lists_are_stuck_is_shown_as_last_known_and_inspected_afterwards() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    set(&node.sim, &LISTS, Fault::Hang);
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), broken());
    node.at(9.5).await;
    let error = || node.pleg.cache().get(&"uid-a".into()).error;
    assert!(error().is_some());
    assert_eq!(node.pleg.cache().get(&"uid-b".into()).error, None);
    node.sim.lift(Rpc::ContainerStatus, Some("a/app.0"));
    node.at(14.5).await;
    assert_eq!(error(), None);
    assert!(node.status().await.failing.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_because_too_many_calls_are_stuck_are_reported() {
    let node = Node::watch(|sim| {
        for number in 0..300 {
            sim.run(&format!("p{number:03}"), &["app"]);
        }
        sim.run("quiet", &["app"]);
    })
    .await;
    node.at(3.5).await;
    for number in 0..300 {
        let (pod, id) = (format!("p{number:03}"), format!("p{number:03}/app.0"));
        node.sim.fault(Rpc::ContainerStatus, Some(&id), Fault::Hang);
        node.sim.exit(&pod, "app", 1);
    }
    node.at(60.0).await;
    let status = node.status().await;
    assert_eq!(status.health.state, HealthState::Degraded);
    assert!(status.health.age_seconds < Some(3.0), "{:?}", status.health);
    let message = &status.health.message;
    assert!(
        message.contains("pods wait, because too many calls"),
        "{message}"
    );
    for entry in node.pleg.cache().all() {
        let is_quiet = &*entry.status.name == "quiet";
        assert_eq!(entry.error.is_none(), is_quiet, "{}", entry.status.name);
    }
    node.sim.lift_all();
    node.at(75.0).await;
    let status = node.status().await;
    assert_eq!(
        status.health.state,
        HealthState::Healthy,
        "{:?}",
        status.health
    );
    assert!(
        node.pleg
            .cache()
            .all()
            .iter()
            .all(|entry| entry.error.is_none())
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_exit_code_is_requested_whatever_else_happens_in_the_pod() {
    let node = Node::watch_stream(|sim| sim.run("p", &["a", "b"])).await;
    node.at(3.0).await;
    node.sim.exit_with_delayed_code("p", "a", 7, seconds(2.0));
    // Other observations of the pod do not count as attempts.
    for _ in 0..8 {
        node.pass(0.1).await;
        let now = node.sim.now();
        node.sim.world().pod("p").restart("b", 1, now);
    }
    node.at(14.0).await;
    let entry = node.pleg.cache().get(&"uid-p".into());
    let a = entry.status.container(&"p/a.0".into());
    assert_eq!(a.and_then(|a| a.exit_code), Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_slow_runtime_does_not_contradict_itself() {
    let node = Node::watch(|sim| {
        for pod in ["a", "b", "c"] {
            sim.run(pod, &["app"]);
        }
    })
    .await;
    node.at(3.0).await;
    for status in STATUSES {
        let jitter = Fault::Jitter(seconds(0.6), seconds(3.3));
        node.sim.fault(status, None, jitter);
    }
    for _ in 0..60 {
        node.pass(0.25).await;
        for pod in ["a", "b", "c"] {
            let now = node.sim.now();
            let mut world = node.sim.world();
            world.pod(pod).restart("app", 1, now);
            world.pod(pod).containers.remove(0);
        }
        let failing = node.status().await.failing;
        assert!(failing.is_empty(), "{failing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_not_found_for_a_moment_ends_no_listed_container() {
    let node = Node::watch_stream(pods).await;
    node.at(3.0).await;
    node.reported();
    for (call, id) in [
        (Rpc::ContainerStatus, "a/app.0"),
        (Rpc::PodSandboxStatus, "a.0"),
    ] {
        node.sim.fault(call, Some(id), not_found());
        // Another container of the pod starts, which the stream announces.
        let now = node.sim.now();
        node.sim.world().pod("a").create("late", now).start(now);
        node.pass(0.3).await;
        node.sim.lift_all();
        node.pass(3.0).await;
        let reported = node.reported();
        assert!(!reported.contains("Died a"), "{reported}");
        assert!(!reported.contains("Removed a"), "{reported}");
        node.sim
            .world()
            .pod("a")
            .containers
            .retain(|it| it.name != "late");
        node.pass(3.0).await;
        node.reported();
        let entry = node.pleg.cache().get(&"uid-a".into());
        assert_eq!((entry.error, entry.status.containers.len()), (None, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_outstanding_status_beside_a_proven_stream_causes_a_relist() {
    let node = Node::watch_with_kernel(Config::default(), pods).await;
    node.at(1.4).await;
    for _ in 0..6 {
        let now = node.sim.now();
        node.sim.world().pod("a").restart("app", 1, now);
        node.pass(0.5).await;
    }
    let is_proven = |status: &StatusReport| status.relist.period_seconds >= 30.0;
    node.wait(120.0, is_proven).await.unwrap();
    // Right after a list: the next one is not due soon.
    let listed = node.sim.calls_made(Rpc::ListContainers);
    while node.sim.calls_made(Rpc::ListContainers) == listed {
        node.pass(0.01).await;
    }
    node.pass(1.0).await;
    node.sim.stop();
    node.sim.kill("c", "app");
    node.sim.exit("c", "app", 137);
    let is_known = |status: &StatusReport| status.health.reason == Reason::RuntimeSilent;
    let known = node.wait(8.0, is_known).await;
    known.unwrap_or_else(|status| panic!("{:?}", status.health));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_last_pass_did_not_observe_is_unobserved_until_inspected_as_listed() {
    let calls = |pod: usize| format!("p{pod}/app.0");
    let node = Node::watch(|sim| {
        many(sim, 5, &["app"]);
        for pod in [0, 2, 3, 4] {
            sim.fault(Rpc::ContainerStatus, Some(&calls(pod)), broken());
        }
        sim.fault(Rpc::PodSandboxStatus, Some("p1.0"), Fault::Hang);
    })
    .await;
    node.at(7.0).await;
    let now = node.sim.now();
    node.sim.world().pod("p1").create("new", now).start(now);
    let slow = Fault::Slow(seconds(3.0));
    node.sim.fault(Rpc::ContainerStatus, Some("p1/new.0"), slow);
    node.at(7.5).await;
    for pod in [0, 2, 3, 4] {
        let slow = Fault::Slow(seconds(0.8));
        node.sim
            .fault(Rpc::ContainerStatus, Some(&calls(pod)), slow);
    }
    node.at(8.3).await;
    // The stuck inspection ends, without having requested the status of the new container.
    node.sim.lift(Rpc::PodSandboxStatus, Some("p1.0"));
    while !node.reported().contains("Started p1/new.0") {
        node.pass(0.05).await;
        let health = node.status().await.health;
        assert!(
            health.message != "all pods are up to date",
            "at {}: {health:?}",
            node.elapsed()
        );
        assert!(node.elapsed() < 20.0);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_not_inspected_since_lists_returned_are_counted_beside_failing_ones() {
    for slow in [0.5, 1.9] {
        let node = Node::watch_knowing_no_host(pods).await;
        node.at(2.5).await;
        node.sim
            .fault(Rpc::ContainerStatus, Some("e/app.0"), broken());
        node.sim.exit("e", "app", 1);
        node.sim.fault(Rpc::ListContainers, None, broken());
        node.at(6.0).await;
        let now = node.sim.now();
        for pod in ["a", "b", "c", "d"] {
            node.sim.world().pod(pod).create("new", now).start(now);
        }
        node.at(25.0).await;
        node.sim
            .fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(slow)));
        node.sim.lift(Rpc::ListContainers, None);
        node.sample(5.0, |at, status| {
            let known = node.pleg.cache().get(&"uid-a".into()).status;
            let is_unknown = known.containers.len() < 2 && status.blind.is_empty();
            let message = &status.health.message;
            let claims = message.starts_with("all pods are") || message.starts_with("recovering");
            let is_counted = message.contains("yet to be inspected");
            assert!(!is_unknown || !claims || is_counted, "at {at}: {message}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_status_report_after_a_pause_is_current() {
    for pause in [1.2, 5.0, 40.0] {
        let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app"])).await;
        node.at(3.5).await;
        node.sim.status_lock("p2", "app");
        let locked = |status: &StatusReport| !status.stuck.is_empty();
        node.wait(10.0, locked).await.unwrap();
        node.pass(5.0).await;
        // The status lock is released, and another pod dies, while this process is paused.
        node.sim.status_unlock("p2", "app");
        node.sim.exit("p0", "app", 1);
        let mut status = pin!(node.pleg.status());
        let requested = poll_fn(|context| Poll::Ready(status.as_mut().poll(context)));
        assert!(requested.await.is_pending());
        tokio::time::advance(seconds(pause)).await;
        let woken = node.elapsed();
        let status = status.await.unwrap();
        let (waited, message) = (node.elapsed() - woken, &status.health.message);
        assert!(status.stuck.is_empty(), "after {pause} s: {message}");
        assert_eq!(node.deaths("p0/app.0").len(), 1, "after {pause} s");
        assert!(waited < 1.0, "after {pause} s, requested for {waited} s");
    }
}

/// This process is paused repeatedly, as on a node that lacks CPU time.
#[tokio::test(start_paused = true)]
async fn a_status_request_between_pauses_is_answered_within_a_second() {
    let node = Node::watch_with(generic(), |sim| many(sim, 4, &["app"])).await;
    node.at(3.5).await;
    node.sim
        .fault(Rpc::ListContainers, None, Fault::Slow(seconds(0.3)));
    for _ in 0..20 {
        tokio::time::advance(seconds(0.4)).await;
        let requested = node.elapsed();
        node.status().await;
        let waited = node.elapsed() - requested;
        assert!(waited <= 1.01, "{waited} s");
    }
}
