//! Recoveries: a container returns under its id, lists are answered in time after they were too large or
//! slow, and a stopped runtime continues. Each case is also tested beside a proven stream, whose lists are
//! thirty seconds apart.

use std::time::Duration;

use crate::node::{LISTS, Node, STATUSES, generic, is_healthy, many, pods, seconds, too_large};
use pleg::model::listed::ContainerState;
use pleg::out::health::Reason;
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;
use sim::{Fault, Sim};

/// A node with this many pods, whose stream has announced every change.
async fn proven(count: usize) -> Node {
    let node = Node::watch_stream(|sim| many(sim, count, &["app"])).await;
    node.at(5.0).await;
    for _ in 0..14 {
        node.sim.exit("p0", "app", 1);
        node.pass(0.3).await;
        node.sim.start_again("p0", "app");
        node.pass(0.3).await;
    }
    let is_proven = |status: &StatusReport| status.relist.period_seconds >= 30.0;
    node.wait(200.0, is_proven).await.unwrap();
    node
}

#[tokio::test(start_paused = true)]
async fn a_container_that_runs_again_under_its_id_is_not_dead() {
    for gap in [0.01, 0.1, 0.3, 0.6, 1.1, 2.0] {
        for slow in [0.0, 0.3, 1.0, 3.0] {
            let node = Node::watch_with_kernel(generic(), pods).await;
            node.at(3.0).await;
            for list in LISTS.into_iter().filter(|_| slow > 0.0) {
                node.sim.fault(list, None, Fault::Slow(seconds(slow)));
            }
            node.at(6.13).await;
            node.sim.exit("a", "app", 1);
            node.pass(gap).await;
            node.sim.start_again("a", "app");
            node.pass(60.0).await;
            let state = node.pleg.cache().get(&"uid-a".into()).status.containers[0].state;
            let reported = node.reported();
            assert_eq!(
                state,
                ContainerState::Running,
                "{gap} s, {slow} s: {reported}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_too_large_is_rarely_requested_however_slow_statuses_are() {
    for is_proven in [false, true] {
        for (least, most) in [(0.1, 1.1), (1.1, 1.2), (2.0, 3.0)] {
            let node = match is_proven {
                true => proven(6).await,
                false => Node::watch(|sim| many(sim, 6, &["app"])).await,
            };
            for list in LISTS {
                node.sim.fault(list, None, Fault::Oversize);
            }
            node.pass(40.0).await;
            for status in STATUSES {
                let slow = Fault::Jitter(seconds(least), seconds(most));
                node.sim.fault(status, None, slow);
            }
            let before = node.sim.calls_made(Rpc::ListContainers);
            node.pass(300.0).await;
            let lists = node.sim.calls_made(Rpc::ListContainers) - before;
            assert!(
                lists <= 16,
                "proven: {is_proven}, {least} to {most} s: {lists}"
            );
        }
    }
}

/// For how many seconds of five minutes this reason is reported, and for how many `Version` is
/// reported as stuck, if every call takes `slow` seconds.
async fn reported_while_slow(slow: f64, reason: Reason) -> (f64, f64) {
    let node = Node::watch(|sim| many(sim, 6, &["app"])).await;
    node.at(5.0).await;
    node.sim.fault_everything(&Fault::Slow(seconds(slow)));
    let (mut reported, mut version) = (0.0, 0.0);
    node.sample(300.0, |_, status| {
        reported += 0.05 * f64::from(u8::from(status.health.reason == reason));
        let is_version = status.stuck.iter().any(|call| call.call == Rpc::Version);
        version += 0.05 * f64::from(u8::from(is_version));
    })
    .await;
    (reported, version)
}

#[tokio::test(start_paused = true)]
async fn if_every_call_takes_seconds_lists_are_slow_and_version_is_not_stuck() {
    for slow in [4.0, 6.0, 8.0] {
        let (list_slow, version) = reported_while_slow(slow, Reason::ListSlow).await;
        assert!(
            list_slow > 240.0,
            "{slow} s each: ListSlow for {list_slow} s"
        );
        assert!(
            version < 10.0,
            "{slow} s each: Version is stuck for {version} s"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_become_slow_cause_at_most_three_health_reports() {
    let node = Node::watch(|sim| many(sim, 50, &["app", "sidecar"])).await;
    node.at(5.0).await;
    for list in LISTS {
        node.sim.fault(list, None, Fault::Slow(seconds(9.0)));
    }
    node.pass(75.0).await;
    let reports = node.health_reports(5.0);
    assert!(reports.len() <= 3, "{reports:?}");
    let last = reports.last().map(|(_, health)| health.reason);
    assert_eq!(last, Some(Reason::ListSlow));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_was_stopped_for_minutes_is_healthy_at_once_when_it_continues() {
    for count in [1, 3] {
        for stopped in [100.0, 160.0, 200.0] {
            let node = proven(count).await;
            node.sim.stop();
            node.pass(0.5).await;
            for pod in 0..count {
                node.sim.exit(&format!("p{pod}"), "app", 3);
            }
            node.pass(stopped).await;
            node.sim.resume();
            let well = node.wait(6.0, is_healthy).await;
            well.unwrap_or_else(|status| panic!("{count} pods, {stopped} s: {:?}", status.health));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_were_late_once_are_not_reported_as_slow_for_a_streams_period() {
    let all: [fn(&Sim); 2] = [
        |sim| sim.fault_everything(&Fault::Slow(seconds(2.5))),
        |sim| {
            for list in LISTS {
                sim.fault(list, None, Fault::Slow(seconds(2.5)));
            }
        },
    ];
    for make_slow in all {
        for lasts in [12.0, 36.0, 60.0, 121.0] {
            let node = proven(6).await;
            make_slow(&node.sim);
            node.pass(lasts).await;
            node.sim.lift_all();
            let well = node.wait(9.0, is_healthy).await;
            well.unwrap_or_else(|status| panic!("slow for {lasts} s: {:?}", status.health));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn if_lists_do_not_cover_a_sweep_the_next_lists_do_not_wait_for_their_period() {
    let node = proven(12).await;
    let status = node.status().await;
    assert_eq!(status.relist.period_seconds, 30.0, "the stream is proven");
    let failing = |status: &StatusReport| status.relist.last_failure.is_some();
    node.sim.fault(Rpc::ListContainers, None, too_large());
    assert!(node.wait(40.0, failing).await.is_ok());
    node.sim.lift_all();
    // A sweep begins while the lists are outstanding, thirty seconds later.
    let takes = Fault::Slow(Duration::from_millis(1500));
    node.sim.fault(Rpc::ListContainers, None, takes);
    let well = node.wait(35.0, is_healthy).await;
    well.unwrap_or_else(|status| panic!("{:?}", status.health));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_too_large_is_requested_soon_after_the_connection_was_lost() {
    let node = Node::watch(pods).await;
    node.at(3.5).await;
    let list = Rpc::ListContainers;
    node.sim.fault(list, None, too_large());
    node.at(12.0).await;
    let before = node.sim.calls_made(list);
    node.sim.restart(seconds(0.3));
    node.at(22.0).await;
    assert!(node.sim.calls_made(list) > before);
}
