//! A call that a restart of the runtime interrupts is not blamed for the restart, and is sent again soon.

use std::collections::BTreeSet;

use crate::node::{Node, has_failing, is_healthy, many, named, pods, seconds};
use pleg::runtime::{CallError, NoConnection, Rpc};
use sim::{Fault, Sim};

/// How many seconds pass from the last of these restarts until the last of 60 exits is reported. After the
/// last restart, each status call takes `slow` seconds.
async fn last_of_sixty_exits(restarts: usize, slow: f64) -> f64 {
    let node = Node::watch(|sim| many(sim, 60, &["app"])).await;
    node.at(3.5).await;
    let call = Rpc::ContainerStatus;
    node.sim.fault(call, None, Fault::Slow(seconds(0.8)));
    for pod in 0..60 {
        node.sim.exit(&format!("p{pod}"), "app", 1);
    }
    node.at(5.0).await;
    for _ in 1..restarts {
        node.sim.restart(seconds(0.3));
        node.pass(1.3).await;
    }
    node.sim.restart(seconds(0.3));
    node.sim.fault(call, None, Fault::Slow(seconds(slow)));
    let back = node.elapsed() + 0.3;
    node.pass(60.0).await;
    let mut last = 0f64;
    for pod in 0..60 {
        let reported = node.deaths(&format!("p{pod}/app.0"));
        assert_eq!(reported.len(), 1, "p{pod}: {reported:?}");
        last = last.max(reported[0] - back);
    }
    last
}

#[tokio::test(start_paused = true)]
async fn sixty_exits_are_reported_within_two_seconds_after_restarts() {
    for (restarts, slow) in [(1, 0.8), (1, 0.002), (2, 0.002), (2, 0.01), (3, 0.002)] {
        let last = last_of_sixty_exits(restarts, slow).await;
        assert!(last < 2.001, "{restarts} restarts, {slow} s each: {last} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_stuck_at_each_restart_is_not_blamed_and_is_observed_once_answered() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/app.0"), Fault::Hang);
    node.sim.exit("a", "app", 1);
    for at in [12.0, 22.0, 34.0, 60.0] {
        node.at(at).await;
        node.sim.restart(seconds(0.3));
        node.sample(9.0, |at, status| {
            assert!(
                !has_failing(status, "a/app.0"),
                "at {at}: {:?}",
                status.failing
            );
        })
        .await;
    }
    node.sim.restart(seconds(0.3));
    node.sim.lift_all();
    node.pass(4.0).await;
    assert_eq!(node.deaths("a/app.0").len(), 1);
}

/// A call that is outstanding at the wrong moment is not blamed.
#[tokio::test(start_paused = true)]
async fn if_the_runtime_restarts_on_its_own_no_call_is_blamed() {
    let node = Node::watch(|sim| many(sim, 12, &["app"])).await;
    node.at(3.5).await;
    let slow = Fault::Jitter(seconds(0.1), seconds(0.4));
    node.sim.fault(Rpc::ContainerStatus, None, slow);
    for round in 0..60 {
        let name = format!("p{}", round % 12);
        let now = node.sim.now();
        node.sim.world().pod(&name).restart("app", 1, now);
        node.sim.restart(seconds(0.2));
        node.sample(1.7, |at, status| {
            let blamed = status.failing.iter();
            let mut blamed = blamed.filter(|it| it.error.to_string().contains("is lost each time"));
            assert!(blamed.next().is_none(), "at {at}: {:?}", status.failing);
        })
        .await;
    }
}

/// The runtime restarts as often as systemd restarts a unit that exits each time.
#[tokio::test(start_paused = true)]
async fn if_the_runtime_restarts_every_few_seconds_no_call_is_blamed_and_all_exits_are_reported() {
    for up in [0.9, 1.3, 2.3] {
        let node = Node::watch(|sim| many(sim, 12, &["app"])).await;
        node.at(3.5).await;
        let slow = Fault::Slow(seconds(1.0));
        node.sim.fault(Rpc::ContainerStatus, None, slow);
        for pod in 0..12 {
            node.sim.exit(&format!("p{pod}"), "app", 1);
        }
        for _ in 0..8 {
            node.sim.restart(seconds(5.0));
            node.sample(5.0 + up, |at, status| {
                let mut failing = status.failing.iter();
                let blamed = failing.find(|it| it.error.to_string().contains("is lost each time"));
                assert!(blamed.is_none(), "up for {up}, at {at}: {blamed:?}");
            })
            .await;
        }
        node.pass(12.0).await;
        for pod in 0..12 {
            let reported = node.deaths(&format!("p{pod}/app.0"));
            assert_eq!(reported.len(), 1, "up for {up}, p{pod}: {reported:?}");
        }
    }
}

/// A call that is always sent last would be lost each time, although another one is the culprit.
#[tokio::test(start_paused = true)]
async fn if_the_runtime_exits_every_few_seconds_no_call_is_blamed_and_exits_are_reported() {
    const HANG: usize = 20;
    const EXITS: usize = 80;
    for shift in [0.0, 0.37, 1.1] {
        let node = Node::watch(|sim| many(sim, 130, &["app"])).await;
        node.at(3.5).await;
        let call = Rpc::ContainerStatus;
        for pod in 0..HANG {
            let id = format!("p{pod}/app.0");
            node.sim.fault(call, Some(&id), Fault::Hang);
            node.sim.exit(&format!("p{pod}"), "app", 3);
        }
        node.sim.fault(call, None, Fault::Slow(seconds(0.8)));
        let mut named = BTreeSet::new();
        let mut goes_away = 8.0 + shift;
        for exit in 0..EXITS {
            let at = 8.4 + exit as f64;
            while goes_away < at {
                node.at(goes_away).await;
                node.sim.restart(seconds(0.3));
                goes_away += 3.3;
            }
            node.at(at).await;
            node.sim.exit(&format!("p{}", HANG + exit), "app", 1);
            let status = node.status().await;
            let failing = status.failing.iter().filter(|failing| failing.withheld);
            named.extend(failing.map(|failing| failing.id.to_string()));
        }
        node.pass(20.0).await;
        assert!(named.is_empty(), "{shift}: {named:?}");
        for exit in 0..EXITS {
            let reported = node.deaths(&format!("p{}/app.0", HANG + exit));
            let late = reported
                .first()
                .map(|reported| reported - 8.4 - exit as f64);
            assert!(
                reported.len() == 1 && late < Some(15.0),
                "{shift}: {late:?}"
            );
        }
    }
}

/// Restarts do not count as successive if the lists were answered in between, even with an error.
#[tokio::test(start_paused = true)]
async fn lists_that_are_refused_between_two_restarts_are_not_the_cause() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    let refused = CallError::Refused("Unknown: busy".into());
    let call = Rpc::ListContainers;
    node.sim.fault(call, None, Fault::Fail(refused));
    let slow = Fault::Slow(seconds(0.9));
    node.sim.fault(Rpc::ListPodSandbox, None, slow);
    for round in 1..6 {
        node.at(10.3 * f64::from(round)).await;
        node.sim.restart(seconds(0.3));
        node.sample(3.0, |at, status| {
            let message = &status.health.message;
            assert!(!message.contains("is lost each time"), "at {at}: {message}");
        })
        .await;
    }
}

/// A call that was lost once is not used as a witness until the runtime is known to be back: it would be
/// withheld, and another witness would be chosen at once.
#[tokio::test(start_paused = true)]
async fn a_withheld_call_is_not_a_witness() {
    let node = Node::watch_stream(|sim| many(sim, 2, &["app"])).await;
    node.at(3.5).await;
    // A sweep requests both statuses, and the connection is lost meanwhile.
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let status = Rpc::ContainerStatus;
    node.sim.fault(status, None, Fault::Slow(seconds(0.5)));
    let swept = |sim: &Sim| {
        let outstanding = sim.outstanding();
        let statuses = outstanding.iter().filter(|call| call.rpc == status);
        statuses.count() == 2
    };
    while !swept(&node.sim) {
        node.pass(0.05).await;
    }
    node.sim.lift_all();
    node.sim.restart(seconds(0.2));
    node.at(70.0).await;
    node.sim.run("hangs", &["app"]);
    node.sim.run("lost", &["app"]);
    node.at(75.3).await;
    assert!(is_healthy(&node.status().await));

    node.sim.fault(status, Some("hangs/app.0"), Fault::Hang);
    node.sim.exit("hangs", "app", 1);
    node.pass(0.5).await;
    // One call is lost, and another one that was sent with it is answered: so the runtime answers.
    let lost = CallError::unavailable(NoConnection::Lost, "reset");
    let sandbox = Rpc::PodSandboxStatus;
    node.sim.fault(sandbox, Some("lost.0"), Fault::Fail(lost));
    let slow = Fault::Slow(seconds(0.3));
    node.sim.fault(status, Some("lost/app.0"), slow);
    node.sim.exit("lost", "app", 1);
    node.pass(1.0).await;
    node.sim.lift(sandbox, Some("lost.0"));
    node.at(85.0).await;
    let status = node.status().await;
    assert_eq!(named(&status.stuck), ["hangs/app.0".into()]);
    assert_eq!(node.deaths("lost/app.0").len(), 1);
}
