//! A runtime that is slow as a whole is not unresponsive, and has no stuck container.

use std::collections::BTreeSet;

use crate::node::{Node, STATUSES, broken, many, named, seconds};
use pleg::out::health::Reason;
use pleg::runtime::{CallError, Rpc};
use sim::{Fault, Sim};

const CALLS: [Rpc; 4] = [
    Rpc::ContainerStatus,
    Rpc::PodSandboxStatus,
    Rpc::ListContainers,
    Rpc::ListPodSandbox,
];

/// The culprits that are reported within half a minute on a node with eight pods. The status of one
/// container may fail, and later each of these calls takes `slow` seconds.
async fn culprits_while_slow(fault: Option<Fault>, slow: f64, calls: &[Rpc]) -> BTreeSet<String> {
    let node = Node::watch(|sim| many(sim, 8, &["app"])).await;
    node.at(2.5).await;
    if let Some(fault) = fault {
        node.sim
            .fault(Rpc::ContainerStatus, Some("p0/app.0"), fault);
        node.sim.exit("p0", "app", 1);
    }
    node.at(40.0).await;
    for call in calls {
        node.sim.fault(*call, None, Fault::Slow(seconds(slow)));
    }
    node.sim.exit("p1", "app", 7);
    node.sim.exit("p2", "app", 7);
    let mut all = BTreeSet::new();
    node.sample(30.0, |_, status| {
        all.extend(named(&status.stuck).iter().map(ToString::to_string));
    })
    .await;
    all
}

#[tokio::test(start_paused = true)]
async fn a_status_that_fails_at_once_is_no_witness_against_slow_ones() {
    let gone = Fault::Fail(CallError::NotFound("no such container".into()));
    for slow in [2.0, 4.0, 6.0] {
        for calls in [&CALLS[..1], &CALLS[..]] {
            for fault in [None, Some(broken()), Some(gone.clone())] {
                let named = culprits_while_slow(fault.clone(), slow, calls).await;
                assert!(
                    named.is_empty(),
                    "{fault:?}, {slow} s, {calls:?}: {named:?}"
                );
            }
        }
    }
}

/// A node on which two pods change right after every call became slow in this way.
async fn slow_node(slow: impl FnOnce(&Sim)) -> Node {
    let node = Node::watch(|sim| many(sim, 6, &["app"])).await;
    node.at(20.0).await;
    slow(&node.sim);
    node.sim.exit("p1", "app", 7);
    node.sim.exit("p2", "app", 7);
    node
}

/// How many seconds of a minute the runtime is reported as unresponsive, although a call was answered
/// less than two seconds before.
async fn wrongly_unresponsive(slow: impl FnOnce(&Sim)) -> f64 {
    let node = slow_node(slow).await;
    let (mut before, mut answered) = (BTreeSet::new(), -9.0);
    let mut wrong = 0.0;
    node.sample(60.0, |at, status| {
        let is_unary = |call: &sim::Outstanding| call.rpc != Rpc::GetContainerEvents;
        let outstanding = node.sim.outstanding().into_iter().filter(is_unary);
        let now: BTreeSet<_> = outstanding
            .map(|call| (call.rpc, call.id, call.since))
            .collect();
        if before.difference(&now).next().is_some() {
            answered = at;
        }
        before = now;
        if status.health.reason == Reason::RuntimeSilent && at - answered < 2.0 {
            wrong += 0.05;
        }
    })
    .await;
    wrong
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_answers_each_call_late_is_not_unresponsive() {
    for slow in [2.5, 3.0, 3.5, 4.0, 5.0] {
        let wrong =
            wrongly_unresponsive(|sim| sim.fault_everything(&Fault::Slow(seconds(slow)))).await;
        // A report from before the first answer may stay for a moment.
        assert!(wrong < 0.2, "{slow} s each: {wrong} s");
    }
    for (least, most) in [(1.0, 4.0), (2.0, 6.0), (3.0, 5.0)] {
        let fault = Fault::Jitter(seconds(least), seconds(most));
        let wrong = wrongly_unresponsive(|sim| sim.fault_everything(&fault)).await;
        assert!(wrong < 0.2, "{least} to {most} s: {wrong} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_call_beside_many_failing_ones_is_reported_as_soon_as_beside_few() {
    for good in [2, 4] {
        let node = Node::watch(|sim| {
            many(sim, 20, &["app"]);
            for pod in ["hung", "y0", "y1", "y2", "y3"].iter().take(1 + good) {
                sim.run(pod, &["app"]);
            }
        })
        .await;
        node.at(5.0).await;
        for pod in 0..20 {
            let id = format!("p{pod}/app.0");
            node.sim.fault(Rpc::ContainerStatus, Some(&id), broken());
            node.sim.exit(&format!("p{pod}"), "app", 1);
            node.pass(0.13).await;
        }
        node.pass(3.0).await;
        let hung = Some("hung/app.0");
        node.sim.fault(Rpc::ContainerStatus, hung, Fault::Hang);
        node.sim.exit("hung", "app", 1);
        let is_named = |status: &pleg::out::status_report::StatusReport| {
            named(&status.stuck)
                .iter()
                .any(|id| Some(id.as_str()) == hung)
        };
        let after = node.wait(30.0, is_named).await.unwrap();
        assert!(after < 4.0, "beside {good}: {after} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_call_on_a_slow_runtime_is_reported() {
    for slow in [1.0, 2.0, 3.0, 4.0, 6.0] {
        let node = slow_node(|sim| {
            sim.fault_everything(&Fault::Slow(seconds(slow)));
            sim.fault(Rpc::ContainerStatus, Some("p3/app.0"), Fault::Hang);
            sim.exit("p3", "app", 7);
        })
        .await;
        let (mut time, mut all) = (0.0, BTreeSet::new());
        node.sample(120.0, |_, status| {
            let named = named(&status.stuck);
            time += 0.05 * f64::from(u8::from(!named.is_empty()));
            all.extend(named.iter().map(ToString::to_string));
        })
        .await;
        assert_eq!(all, BTreeSet::from(["p3/app.0".to_owned()]), "{slow} s");
        assert!(time > 90.0, "{slow} s: named for {time} s of two minutes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_faster_than_a_slow_runtime_answers_has_no_failing_call() {
    for slow in [2.5, 4.0, 6.0] {
        let node = slow_node(|sim| sim.fault_everything(&Fault::Slow(seconds(slow)))).await;
        let mut reasons = BTreeSet::new();
        for _ in 0..60 {
            let now = node.sim.now();
            node.sim.world().pod("p3").restart("app", 1, now);
            node.pass(1.0).await;
            reasons.insert(node.status().await.health.reason);
        }
        assert!(
            !reasons.contains(&Reason::InspectionsFail),
            "{slow} s: {reasons:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_too_slow_for_all_pods_is_slow_and_no_pod_is_blamed() {
    for slow in [1.0, 2.0, 3.2] {
        let node = Node::watch(|sim| many(sim, 1000, &["app"])).await;
        node.at(20.0).await;
        for call in STATUSES {
            node.sim.fault(call, None, Fault::Slow(seconds(slow)));
        }
        for pod in 0..1000 {
            node.sim.exit(&format!("p{pod}"), "app", 1);
        }
        let mut reported = BTreeSet::new();
        node.sample(150.0, |at, status| {
            reported.insert(status.health.reason);
            assert_eq!(status.failing, [], "at {at}: {}", status.health.message);
        })
        .await;
        let right = [Reason::AllSeen, Reason::StatusSlow];
        assert!(
            reported.iter().all(|reason| right.contains(reason)),
            "{slow} s: {reported:?}"
        );
    }
}

/// How old the oldest observation of a pod becomes, in seconds. The containers of eight pods restart
/// one after the other, `apart` seconds each, while each status call takes `slow` seconds and
/// containers cannot be listed.
async fn longest_unobserved(list: Fault, slow: f64, apart: f64) -> f64 {
    let node = Node::watch(|sim| {
        sim.fill_sandboxes();
        many(sim, 8, &["app", "log"]);
    })
    .await;
    node.at(3.0).await;
    node.sim
        .fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(slow)));
    node.sim
        .fault(Rpc::PodSandboxStatus, None, Fault::Slow(seconds(slow)));
    node.sim.fault(Rpc::ListContainers, None, list);
    let mut longest = 0_f64;
    for restart in 0.. {
        let (now, pod) = (node.sim.now(), format!("p{}", restart * 5 % 8));
        let mut world = node.sim.world();
        world.pod(&pod).restart("app", 1, now);
        // The last dead container is kept, as a kubelet does.
        let old = format!("{pod}/app.{}", restart / 8 - 1);
        world.remove_container(&old);
        drop(world);
        node.pass(apart).await;
        let status = node.status().await;
        assert_eq!(status.failing, [], "{slow} s: {}", status.health.message);
        longest = longest.max(status.health.age_seconds.unwrap_or_default());
        if node.elapsed() > 200.0 {
            break;
        }
    }
    longest
}

#[tokio::test(start_paused = true)]
async fn changing_pods_are_observed_beside_slow_statuses_and_a_stuck_list() {
    for list in [broken(), Fault::Hang] {
        for (slow, apart, most) in [(2.0, 1.0, 25.0), (4.0, 1.0, 50.0), (9.0, 0.5, 100.0)] {
            let longest = longest_unobserved(list.clone(), slow, apart).await;
            assert!(longest < most, "{list:?}, {slow} s: {longest} s");
        }
    }
}

/// A sweep sends calls all the time, so that it overlaps every inspection.
#[tokio::test(start_paused = true)]
async fn an_inspection_that_agrees_with_the_sweep_beside_it_is_not_repeated() {
    let node = Node::watch_stream(|sim| {
        sim.fill_sandboxes();
        many(sim, 24, &["app"]);
    })
    .await;
    node.at(3.0).await;
    for call in STATUSES {
        node.sim.fault(call, None, Fault::Slow(seconds(0.3)));
    }
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.pass(5.0).await;
    let before = node.sim.calls_made(Rpc::ContainerStatus);
    for restart in 0..200 {
        let (now, pod) = (node.sim.now(), format!("p{}", restart * 5 % 24));
        let mut world = node.sim.world();
        world.pod(&pod).restart("app", 1, now);
        world.remove_container(&format!("{pod}/app.{}", restart / 24 - 1));
        drop(world);
        node.pass(0.5).await;
        let age = node.status().await.health.age_seconds.unwrap_or_default();
        assert!(age < 20.0, "{age} s, after {restart} restarts");
    }
    let calls = node.sim.calls_made(Rpc::ContainerStatus) - before;
    assert!(calls < 40 * 100, "{calls} calls in 100 s");
}

/// The status of a sandbox takes long each time, and its pod changes continuously.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_slow_each_time_is_not_stuck_after_it_has_answered() {
    let node = Node::watch_stream(|sim| many(sim, 6, &["app"])).await;
    node.at(3.0).await;
    let slow = Fault::Slow(seconds(2.5));
    node.sim.fault(Rpc::PodSandboxStatus, Some("p0.0"), slow);
    let mut without_culprit = 0.0_f64;
    let mut longest = 0.0_f64;
    for restart in 0..225 {
        let (now, pod) = (node.sim.now(), format!("p{}", restart % 6));
        let mut world = node.sim.world();
        world.pod(&pod).restart("app", 1, now);
        world.remove_container(&format!("{pod}/app.{}", restart / 6 - 1));
        drop(world);
        node.pass(1.0 / 3.0).await;
        let status = node.status().await;
        let blames = status.health.reason == Reason::ContainerStuck;
        without_culprit = match blames && status.stuck.is_empty() {
            true => without_culprit + 1.0 / 3.0,
            false => 0.0,
        };
        longest = longest.max(without_culprit);
    }
    assert!(longest < 4.0, "{longest} s");
}

/// As CRI-O answers for a container that has ended and whose conmon has written no exit file.
#[tokio::test(start_paused = true)]
async fn a_status_that_takes_seconds_each_time_is_stuck_once_and_threatens_no_kubelet() {
    let node = Node::watch(|sim| many(sim, 6, &["app"])).await;
    node.at(3.0).await;
    let slow = Fault::Slow(seconds(3.76));
    node.sim
        .fault(Rpc::ContainerStatus, Some("p0/app.0"), slow.clone());
    node.sim.fault(Rpc::ContainerStatus, Some("p1/app.0"), slow);
    for time in [3.0, 20.0, 500.0, 1000.0] {
        node.at(time).await;
        for pod in ["p0", "p1"] {
            let now = node.sim.now();
            node.sim.world().pod(pod).restart("app", 1, now);
        }
        node.sample(10.0, |at, status| {
            let view = &status.kubelet_view;
            assert_eq!(view.not_ready_in_seconds, None, "{at}: {}", view.message);
            assert!(view.why.is_empty(), "{at}: {}", view.why);
            assert!(
                status.stuck.is_empty() || time == 3.0,
                "{at}: {:?}",
                status.stuck
            );
        })
        .await;
    }
}
