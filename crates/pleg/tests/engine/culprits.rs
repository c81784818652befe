//! The culprit is reported soon, and no victim ever is.

use crate::node::{Node, generic, many, named, seconds};
use pleg::model::id::Id;
use pleg::model::listed::ContainerState;
use pleg::out::health::{HealthState, Reason};
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, Rpc};
use sim::{Fault, Sim};

/// The time from the request of the list to the report of the culprit.
const NAMED_AFTER: f64 = 3.5;

/// How many seconds ago the oldest outstanding call of this kind was sent.
fn age_of(sim: &Sim, rpc: Rpc) -> Option<f64> {
    let outstanding = sim.outstanding();
    let mut calls = outstanding.iter().filter(|call| call.rpc == rpc);
    calls.next().map(|call| call.since.elapsed().as_secs_f64())
}

#[tokio::test(start_paused = true)]
async fn under_the_status_lock_the_culprit_is_reported_three_and_a_half_seconds_after_the_list() {
    // The lock is taken at various points in the relist period, with and without the kernel's
    // hints.
    for (pods, phase, kernel) in [
        (3, 0.1, false),
        (3, 0.9, true),
        (20, 0.5, false),
        (60, 0.3, true),
        (60, 0.7, false),
    ] {
        let prepare = |sim: &Sim| many(sim, pods, &["app"]);
        let node = match kernel {
            true => Node::watch_with_kernel(generic(), prepare).await,
            false => Node::watch(prepare).await,
        };
        node.at(8.0 + phase).await;
        node.sim.status_lock("p2", "app");
        let culprit = Id::from("p2/app.0");
        let sim = node.sim.clone();
        let mut first = None;
        node.sample(60.0, |_, status| {
            let names = named(&status.stuck);
            assert!(names.iter().all(|id| *id == culprit), "{names:?}");
            let age = age_of(&sim, Rpc::ListContainers).unwrap_or_default();
            if !names.is_empty() && first.is_none() {
                first = Some(age);
            }
            assert!(
                age < NAMED_AFTER + 0.05 || !names.is_empty(),
                "{pods} pods, locked {phase} s after a list: {age} s, and no culprit is reported"
            );
        })
        .await;
        assert!(first.is_some());
        node.sim.lift_all();
        node.pass(3.0).await;
        assert_eq!(node.status().await.health.state, HealthState::Healthy);
    }
}

#[tokio::test(start_paused = true)]
async fn a_culprit_is_also_reported_while_the_list_of_sandboxes_is_stuck() {
    let node = Node::watch(|sim| many(sim, 10, &["app"])).await;
    node.at(8.4).await;
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.sim
        .fault(Rpc::PodSandboxStatus, Some("p2.0"), Fault::Hang);
    let sim = node.sim.clone();
    node.sample(30.0, |_, status| {
        let names = named(&status.stuck);
        assert!(names.iter().all(|id| *id == "p2.0".into()), "{names:?}");
        let age = age_of(&sim, Rpc::ListPodSandbox).unwrap_or_default();
        assert!(age < NAMED_AFTER + 0.05 || !names.is_empty(), "{age} s");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_stuck_after_a_change_is_reported_within_four_seconds() {
    for kernel in [true, false] {
        let prepare = |sim: &Sim| many(sim, 10, &["app"]);
        let node = match kernel {
            true => Node::watch_with_kernel(generic(), prepare).await,
            false => Node::watch(prepare).await,
        };
        node.at(8.4).await;
        let id = "p2/app.0";
        node.sim.fault(Rpc::ContainerStatus, Some(id), Fault::Hang);
        node.sim.kill("p2", "app");
        node.sim.exit("p2", "app", 1);
        let sim = node.sim.clone();
        node.sample(30.0, |_, status| {
            let names = named(&status.stuck);
            assert!(names.iter().all(|named| named.as_str() == id), "{names:?}");
            let age = age_of(&sim, Rpc::ContainerStatus).unwrap_or_default();
            assert!(
                age < 4.05 || !names.is_empty(),
                "{age} s, and no culprit is reported"
            );
        })
        .await;
        let health = node.status().await.health;
        let is = (health.state, health.reason);
        assert_eq!(is, (HealthState::Degraded, Reason::ContainerStuck));
    }
}

/// Asserts that no culprit is reported on a node without a stuck call.
async fn assert_no_culprit_on_a_slow_node(fault: Fault, kernel: bool, from_the_beginning: bool) {
    let prepare = |sim: &Sim| {
        many(sim, 12, &["app"]);
        if from_the_beginning {
            sim.fault_everything(&fault);
        }
    };
    let node = match kernel {
        true => Node::watch_with_kernel(generic(), prepare).await,
        false => Node::watch(prepare).await,
    };
    node.at(9.3).await;
    node.sim.fault_everything(&fault);
    for round in 0..20 {
        let name = format!("p{}", round % 12);
        let now = node.sim.now();
        node.sim.kill(&name, "app");
        node.sim.world().pod(&name).restart("app", 1, now);
        node.sample(6.3, |at, status| {
            let names = named(&status.stuck);
            assert!(names.is_empty(), "{fault:?}: at {at} {names:?}");
        })
        .await;
    }
    node.pass(30.0).await;
    for pod in 0..8 {
        let id = format!("p{pod}/app.1");
        assert_eq!(node.deaths(&id).len(), 1, "{fault:?}: {id}");
    }
}

/// Enforces O3.
#[tokio::test(start_paused = true)]
async fn on_a_runtime_that_is_slow_as_a_whole_no_culprit_is_reported() {
    for slow in [1.2, 1.5, 3.0] {
        for kernel in [false, true] {
            assert_no_culprit_on_a_slow_node(Fault::Slow(seconds(slow)), kernel, slow == 1.5).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn on_a_runtime_of_changing_slowness_no_culprit_is_reported() {
    for kernel in [false, true] {
        let jitter = Fault::Jitter(seconds(1.0), seconds(3.0));
        assert_no_culprit_on_a_slow_node(jitter, kernel, kernel).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_the_whole_runtime_does_not_hide_the_next_stuck_call() {
    let node = Node::watch(|sim| many(sim, 3, &["app"])).await;
    node.at(5.5).await;
    node.sim.exit("p0", "app", 1);
    node.sim.exit("p1", "app", 1);
    for call in [Rpc::ContainerStatus, Rpc::PodSandboxStatus] {
        node.sim.fault(call, None, Fault::Slow(seconds(0.01)));
    }
    // The lists have shown both exits; their statuses are requested when the runtime stops.
    node.at(6.005).await;
    node.sim.stop();
    node.at(15.0).await;
    node.sim.resume();
    node.sim.lift_all();
    node.at(30.0).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("p2/app.0"), Fault::Hang);
    node.sim.exit("p2", "app", 1);
    let named = node.wait(10.0, |status| !named(&status.stuck).is_empty());
    let after = named.await.expect("it is named");
    assert!(after < 4.5, "named after {after} s");
}

/// The culprits that are reported, and when, while pods restart on a node with these faults. No call
/// of the node is stuck.
async fn culprits_reported_under(faults: &[(Rpc, Fault)], kernel: bool) -> String {
    let prepare = |sim: &Sim| many(sim, 12, &["app"]);
    let node = match kernel {
        true => Node::watch_with_kernel(generic(), prepare).await,
        false => Node::watch(prepare).await,
    };
    node.at(9.3).await;
    for (call, fault) in faults {
        node.sim.fault(*call, None, fault.clone());
    }
    let mut reported = Vec::new();
    for round in 0..30 {
        let name = format!("p{}", round % 12);
        let now = node.sim.now();
        node.sim.kill(&name, "app");
        node.sim.world().pod(&name).restart("app", 1, now);
        node.sample(6.3, |at, status| {
            let names = named(&status.stuck);
            if !names.is_empty() {
                reported.push(format!("{at} {names:?}"));
            }
        })
        .await;
    }
    reported.join("\n")
}

#[tokio::test(start_paused = true)]
async fn if_all_calls_of_a_kind_are_slow_there_is_no_culprit() {
    for kernel in [false, true] {
        for kind in [Rpc::ContainerStatus, Rpc::PodSandboxStatus] {
            for slow in [4.0, 6.0, 8.0] {
                let reported =
                    culprits_reported_under(&[(kind, Fault::Slow(seconds(slow)))], kernel).await;
                assert_eq!(reported, "", "{kind} takes {slow} s");
            }
        }
    }
}

/// A status that fails is no evidence, so the next witness is a call about another pod.
#[tokio::test(start_paused = true)]
async fn a_culprit_is_reported_soon_although_the_status_of_another_container_fails() {
    let node = Node::watch(|sim| many(sim, 4, &["app"])).await;
    node.at(8.0).await;
    let call = Rpc::ContainerStatus;
    let broken = CallError::Refused("Unknown: broken".into());
    node.sim.fault(call, Some("p0/app.0"), Fault::Fail(broken));
    node.sim.fault(call, Some("p3/app.0"), Fault::Hang);
    node.sim.exit("p3", "app", 1);
    let is_reported = |status: &StatusReport| named(&status.stuck).contains(&Id::from("p3/app.0"));
    node.wait(4.0, is_reported).await.expect("it is reported");
}

/// Soon after the start, three witnesses may be quick by chance, while a fourth call takes seconds.
#[tokio::test(start_paused = true)]
async fn on_a_runtime_that_becomes_irregular_hardly_any_culprit_is_reported() {
    let all = [
        Rpc::ContainerStatus,
        Rpc::PodSandboxStatus,
        Rpc::ListContainers,
        Rpc::ListPodSandbox,
        Rpc::Version,
    ];
    for kernel in [false, true] {
        for (least, most) in [(0.01, 2.0), (0.05, 4.0), (0.05, 6.0)] {
            let jitter = Fault::Jitter(seconds(least), seconds(most));
            let faults = all.map(|call| (call, jitter.clone()));
            let reported = culprits_reported_under(&faults, kernel).await;
            let time = reported.lines().count() as f64 * 0.05;
            assert!(
                time < 5.0,
                "{least} to {most} s, for {time} of 189 s: {reported}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_stuck_after_an_unresponsive_time_is_reported_within_seconds() {
    let node = Node::watch(|sim| many(sim, 3, &["app"])).await;
    node.at(4.0).await;
    node.sim.stop();
    node.at(12.0).await;
    let health = node.status().await.health;
    assert_eq!(health.reason, Reason::RuntimeSilent);
    node.reported();
    node.sim.status_lock("p1", "app");
    node.sim.resume();
    node.at(17.0).await;
    let health = node.status().await.health;
    assert_eq!(health.reason, Reason::ContainerStuck, "{}", health.message);
    let reported = node.reported();
    assert!(
        reported.contains("container app of default/p1 is stuck"),
        "{reported}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_sent_before_its_pod_was_known_is_reported_once() {
    let node = Node::watch(|sim| {
        many(sim, 3, &["app"]);
        sim.status_lock("p1", "app");
    })
    .await;
    node.at(12.0).await;
    // The list is answered, and the status stays stuck.
    node.sim
        .fault(Rpc::ContainerStatus, Some("p1/app.0"), Fault::Hang);
    node.sim.status_unlock("p1", "app");
    node.at(30.0).await;
    let stuck = node.status().await.stuck;
    assert_eq!(stuck.len(), 1, "{stuck:?}");
    assert_eq!(stuck[0].container.as_deref(), Some("app"));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_is_not_unresponsive_because_each_outstanding_call_is_stuck() {
    let node = Node::watch(|sim| many(sim, 40, &["app"])).await;
    node.at(4.0).await;
    for call in [Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers] {
        node.sim.fault(call, None, Fault::Hang);
    }
    // More calls than may be outstanding while nothing is answered.
    for number in (0..40).filter(|number| number % 8 < 5) {
        let app = format!("p{number}/app.0");
        let sandbox = format!("p{number}.0");
        node.sim
            .fault(Rpc::ContainerStatus, Some(&app), Fault::Hang);
        node.sim
            .fault(Rpc::PodSandboxStatus, Some(&sandbox), Fault::Hang);
    }
    node.at(70.0).await;
    node.sample(60.0, |_, status| {
        let health = &status.health;
        assert_ne!(health.reason, Reason::RuntimeSilent, "{}", health.message);
    })
    .await;
    node.reported();
    node.sim.exit("p39", "app", 3);
    node.pass(6.0).await;
    let reported = node.reported();
    assert!(reported.contains("Died p39/app.0 with 3"), "{reported}");
}

/// A status call of CRI-O is answered after 3.7 s each time if the container's exit file is missing.
#[tokio::test(start_paused = true)]
async fn alternating_culprits_do_not_each_cause_a_report() {
    let node = Node::watch(|sim| many(sim, 10, &["app"])).await;
    for pod in ["p2", "p3"] {
        let slow = Fault::Slow(seconds(3.7));
        let (sandbox, container) = (format!("{pod}.0"), format!("{pod}/app.0"));
        node.sim
            .fault(Rpc::PodSandboxStatus, Some(&sandbox), slow.clone());
        node.sim.fault(Rpc::ContainerStatus, Some(&container), slow);
    }
    node.at(8.4).await;
    for step in 0..120 {
        let now = node.sim.now();
        {
            let mut world = node.sim.world();
            let container = world.container(["p2", "p3"][step % 2], "app");
            match container.state {
                ContainerState::Running => container.exit(1, now),
                _ => container.start(now),
            }
        }
        node.pass(0.55).await;
    }
    let reports = node.health_reports(8.4);
    let culprits: Vec<_> = reports
        .iter()
        .map(|(at, it)| (at, named(&it.stuck)))
        .collect();
    assert!(reports.iter().any(|(_, it)| !it.stuck.is_empty()));
    // If reported culprits were not remembered, there would be 58 reports.
    assert!(reports.len() <= 20, "{culprits:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_stuck_call_took_is_no_cost_and_no_call_beside_it_was_alone() {
    let node = Node::watch(crate::node::pods).await;
    node.at(2.5).await;
    let call = Rpc::ContainerStatus;
    node.sim.fault(call, Some("a/app.0"), Fault::Hang);
    node.sim.exit("a", "app", 1);
    node.at(5.0).await;
    let cost = async |call| {
        let mut costs = node.status().await.costs.into_iter();
        costs.find(|cost| cost.call == call).expect("it was made")
    };
    let alone = cost(Rpc::ListContainers).await.alone;
    node.at(20.0).await;
    assert_eq!(cost(Rpc::ListContainers).await.alone, alone);
    node.sim.lift_all();
    node.at(25.0).await;
    assert_eq!(node.deaths("a/app.0").len(), 1);
    assert!(cost(call).await.max < 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_answers_only_version_is_not_unresponsive() {
    let node = Node::watch(crate::node::pods).await;
    node.at(3.5).await;
    for call in [
        Rpc::ListContainers,
        Rpc::ListPodSandbox,
        Rpc::ContainerStatus,
        Rpc::PodSandboxStatus,
    ] {
        node.sim.fault(call, None, Fault::Hang);
    }
    node.sample(30.0, |at, status| {
        assert_ne!(status.health.reason, Reason::RuntimeSilent, "at {at}");
    })
    .await;
}
