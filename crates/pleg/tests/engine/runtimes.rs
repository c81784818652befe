//! What CRI-O and cri-dockerd were observed to do.

use crate::node::{Node, generic, has_failing, seconds};
use pleg::model::id::Id;
use pleg::model::listed::ContainerState;
use pleg::out::health::HealthState;
use pleg::out::record::Record;
use pleg::runtime::{CallError, Rpc};
use pleg::{Config, Mode};
use sim::{Fault, Flood, Manner, Sim};

fn two_pods(sim: &Sim) {
    sim.run("a", &["app", "side"]);
    sim.run("b", &["app"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_dead_to_the_kernel_and_runs_to_the_runtime_fails_until_they_agree() {
    let node = Node::watch_with_kernel(generic(), two_pods).await;
    node.at(3.5).await;
    node.sim.kill("a", "app");
    node.at(6.0).await;
    while node.elapsed() < 8.4 {
        let status = node.status().await;
        assert!(has_failing(&status, "a/app.0"), "{:?}", status.failing);
        let entry = node.pleg.cache().get(&"uid-a".into());
        assert!(entry.error.is_some(), "at {}", node.elapsed());
        assert_eq!(node.deaths("a/app.0").len(), 0, "not before it is known");
        node.pass(0.1).await;
    }
    node.at(8.5).await;
    node.sim.exit("a", "app", 137);
    node.at(10.0).await;
    assert_eq!(node.deaths("a/app.0").len(), 1);
    node.at(30.0).await;
    assert_eq!(node.deaths("a/app.0").len(), 1);
    let status = node.status().await;
    assert!(status.failing.is_empty(), "{:?}", status.failing);
    assert_eq!(status.health.state, HealthState::Healthy);
    assert_eq!(node.pleg.cache().get(&"uid-a".into()).error, None);
}

#[tokio::test(start_paused = true)]
async fn another_runtimes_version_is_known_although_its_list_is_stuck_too() {
    for down in [0.2, 0.5, 0.9, 3.0] {
        let node = Node::watch(two_pods).await;
        node.at(5.5).await;
        node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        node.at(12.0).await;
        node.sim.restart(seconds(down));
        node.sim.behave_as(Manner::CriO);
        node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        node.at(30.0).await;
        let runtime = node.status().await.runtime;
        assert_eq!(runtime.name.as_deref(), Some("cri-o"), "{down} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_never_notices_an_exit_is_not_healthy() {
    let node = Node::watch_with_kernel(generic(), two_pods).await;
    node.at(3.5).await;
    node.sim.kill("a", "app");
    for at in [20.0, 60.0, 600.0] {
        node.at(at).await;
        let status = node.status().await;
        assert!(has_failing(&status, "a/app.0"), "{:?}", status.failing);
        assert_eq!(status.health.state, HealthState::Degraded);
        assert_eq!(status.failing.len(), 1);
    }
    // And no other pod waits for it.
    node.at(600.3).await;
    node.sim.kill("b", "app");
    node.sim.exit("b", "app", 1);
    node.at(600.5).await;
    assert_eq!(node.deaths("b/app.0").len(), 1);
    let sent = node.sim.calls_made(Rpc::ContainerStatus);
    node.at(660.5).await;
    let sent = node.sim.calls_made(Rpc::ContainerStatus) - sent;
    assert!(sent <= 70, "{sent} calls in a minute");
    node.sim.world().remove("a");
    node.at(663.0).await;
    assert_eq!(node.status().await.health.state, HealthState::Healthy);
}

/// The ways to observe a node: by lists alone, with the kernel's hints, with the stream, and with
/// both.
const WAYS: [(Mode, bool); 4] = [
    (Mode::Generic, false),
    (Mode::Generic, true),
    (Mode::Auto, false),
    (Mode::Auto, true),
];

async fn watched((mode, kernel): (Mode, bool), prepare: impl FnOnce(&Sim)) -> Node {
    let config = Config {
        mode,
        ..Config::default()
    };
    match kernel {
        true => Node::watch_with_kernel(config, prepare).await,
        false => Node::watch_with(config, prepare).await,
    }
}

/// Asserts that an exit that only the status shows, in contradiction to the list, is reported once,
/// whatever causes the inspection.
async fn disagreement(way: (Mode, bool), listed: ContainerState) {
    let case = format!("{way:?}, listed as {listed:?}");
    let node = watched(way, two_pods).await;
    node.at(2.3).await;
    let now = node.sim.now();
    {
        let mut world = node.sim.world();
        let late = world.pod("a").create("late", now);
        if listed == ContainerState::Running {
            late.start(now);
        }
    }
    node.at(4.6).await;
    node.sim.exit_unlisted("a", "late", 127);
    for round in 0..10 {
        node.pass(1.3).await;
        node.sim.flood(Flood::Known, 4);
        node.pleg.request_reinspect("uid-a".into());
        if round % 3 == 0 {
            let now = node.sim.now();
            node.sim.kill("a", "side");
            node.sim.world().pod("a").restart("side", 1, now);
        }
    }
    node.pass(5.0).await;
    let id = "a/late.0";
    assert_eq!(node.deaths(id).len(), 1, "{case}:\n{}", node.reported());
    let entry = node.pleg.cache().get(&"uid-a".into());
    let state = entry.status.container(&Id::from(id)).map(|it| it.state);
    assert_eq!(state, Some(ContainerState::Exited), "{case}");
    let cached = node.pleg.cache().all();
    let containers = cached.iter().flat_map(|entry| &entry.status.containers);
    let exited = containers.filter(|it| it.state == ContainerState::Exited);
    let counted = node.status().await.containers["exited"];
    assert_eq!(exited.count(), counted, "{case}: status and pods agree");
    assert_eq!(node.status().await.health.state, HealthState::Healthy);

    // The list shows the exit at last, and then the container is removed.
    node.sim.world().container("a", "late").listed_as = None;
    node.pass(40.0).await;
    assert_eq!(node.deaths(id).len(), 1, "{case}");
    node.sim.world().remove_container(id);
    node.pass(40.0).await;
    assert_eq!(node.deaths(id).len(), 1, "{case}");
    let removed = node.reported().matches("Removed a/late.0").count();
    assert!(removed <= 1, "{case}");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_listed_as_created_and_has_exited_dies_once() {
    for way in WAYS {
        disagreement(way, ContainerState::Created).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_listed_as_running_and_has_exited_dies_once() {
    for way in WAYS {
        disagreement(way, ContainerState::Running).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_first_listed_as_created_and_has_exited_dies_once() {
    for way in WAYS {
        let node = watched(way, |sim| {
            two_pods(sim);
            let now = sim.now();
            sim.world().pod("a").create("late", now);
            sim.exit_unlisted("a", "late", 127);
        })
        .await;
        for _ in 0..5 {
            node.pass(2.3).await;
            node.sim.flood(Flood::Known, 4);
            node.pleg.request_reinspect("uid-a".into());
        }
        assert_eq!(node.deaths("a/late.0").len(), 1, "{way:?}");
    }
}

/// How many health reports there were in each of three minutes in which lists and statuses fail with
/// alternating errors.
async fn health_records(this: CallError, that: CallError) -> Vec<usize> {
    let node = Node::watch_with_kernel(Config::default(), |sim| {
        for number in 0..8 {
            sim.run(&format!("p{number}"), &["app"]);
        }
    })
    .await;
    node.at(5.2).await;
    let reported_before = node.trace().len();
    node.sim.end_streams();
    let calls = [
        Rpc::ListPodSandbox,
        Rpc::ListContainers,
        Rpc::PodSandboxStatus,
        Rpc::ContainerStatus,
    ];
    let begun = node.elapsed();
    let mut turn = 0;
    while node.elapsed() < begun + 180.0 {
        for (number, call) in calls.into_iter().enumerate() {
            let error = if (turn + number) % 3 == 0 {
                &this
            } else {
                &that
            };
            node.sim.fault(call, None, Fault::Fail(error.clone()));
        }
        turn += 1;
        node.pass(0.37).await;
    }
    let entry = node.trace();
    let health = entry[reported_before..]
        .iter()
        .filter(|entry| matches!(entry.record, Record::Health(_)));
    let mut minutes = vec![0; 3];
    for entry in health {
        let minute = (entry.at - begun) / 60.0;
        minutes[(minute as usize).min(2)] += 1;
    }
    minutes
}

#[tokio::test(start_paused = true)]
async fn alternating_failures_are_not_reported_each_time() {
    let dead = "Unknown: Cannot connect to the Docker daemon. Is the docker daemon running?";
    let half = "Unknown: error during connect: EOF";
    let refused = |why: &str| CallError::Refused(why.into());
    let minutes = health_records(refused(dead), refused(half)).await;
    assert!(minutes.iter().all(|records| *records <= 5), "{minutes:?}");
}

#[tokio::test(start_paused = true)]
async fn alternating_failures_of_two_kinds_are_not_reported_each_time() {
    let half = CallError::Refused("Unknown: error during connect: EOF".into());
    let minutes = health_records(CallError::connection_refused(), half).await;
    assert!(minutes.iter().all(|records| *records <= 5), "{minutes:?}");
}

#[tokio::test(start_paused = true)]
async fn an_exit_beside_a_slow_container_is_reported_as_soon_as_it_is_known() {
    // A stopped conmon makes the status of its container slow, and sometimes that of the sandbox
    // too.
    let slow_ones = [
        &[(Rpc::ContainerStatus, "a/side.0")][..],
        &[
            (Rpc::ContainerStatus, "a/side.0"),
            (Rpc::PodSandboxStatus, "a.0"),
        ],
    ];
    for slow in slow_ones {
        for (kernel, most) in [(true, 1.0), (false, 2.05)] {
            let node = watched((Mode::Generic, kernel), two_pods).await;
            node.at(6.3).await;
            for (call, id) in slow {
                let fault = Fault::Slow(seconds(3.76));
                node.sim.fault(*call, Some(id), fault);
            }
            node.at(10.3).await;
            node.sim.kill("a", "app");
            node.sim.exit("a", "app", 137);
            node.at(30.0).await;
            let reported = node.deaths("a/app.0");
            assert_eq!(reported.len(), 1);
            let after = reported[0] - 10.3;
            assert!(after <= most, "kernel {kernel}, {slow:?}: after {after} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_exit_code_is_requested_again() {
    for way in WAYS {
        let node = watched(way, two_pods).await;
        node.at(3.5).await;
        node.sim.kill("a", "app");
        let late = seconds(3.0);
        node.sim.exit_with_delayed_code("a", "app", 143, late);
        node.at(14.0).await;
        let entry = node.pleg.cache().get(&"uid-a".into());
        let code = entry.status.container(&Id::from("a/app.0"));
        let code = code.and_then(|container| container.exit_code);
        assert_eq!(code, Some(143), "{way:?}");
        assert_eq!(node.deaths("a/app.0").len(), 1, "{way:?}");
        // A code that appears after minutes is requested ever less often, and found.
        node.sim
            .exit_with_delayed_code("b", "app", 143, seconds(200.0));
        node.at(60.0).await;
        let sent = node.sim.calls_made(Rpc::ContainerStatus);
        node.at(120.0).await;
        let sent = node.sim.calls_made(Rpc::ContainerStatus) - sent;
        assert!(sent <= 10, "{way:?}: {sent} calls in a minute");
        assert_eq!(node.deaths("b/app.0").len(), 1, "{way:?}");
        node.at(600.0).await;
        let entry = node.pleg.cache().get(&"uid-b".into());
        let code = entry.status.container(&Id::from("b/app.0"));
        let code = code.and_then(|container| container.exit_code);
        assert_eq!(code, Some(143), "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pid_call_that_failed_once_is_sent_again() {
    let node = Node::watch_with_kernel(generic(), two_pods).await;
    node.at(0.5).await;
    let now = node.sim.now();
    node.sim.world().pod("b").restart("app", 1, now);
    // Slow for the inspection that finds it; the PID call that follows fails.
    let id = Some("b/app.1");
    let slow = Fault::Slow(seconds(0.2));
    node.sim.fault(Rpc::ContainerStatus, id, slow);
    node.at(1.1).await;
    let busy = Fault::Fail(CallError::Refused("Unknown: busy".into()));
    node.sim.fault(Rpc::ContainerStatus, id, busy);
    node.at(1.5).await;
    assert_eq!(node.status().await.kernel.watched, 2);
    node.sim.lift_all();
    // Nothing happens to the pod that would cause an inspection.
    node.at(32.0).await;
    assert_eq!(node.status().await.kernel.watched, 3);
    node.at(32.3).await;
    node.sim.kill("b", "app");
    node.sim.exit("b", "app", 1);
    node.at(32.4).await;
    assert_eq!(node.deaths("b/app.1").len(), 1);
}
