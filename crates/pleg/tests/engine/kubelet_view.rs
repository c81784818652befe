//! What a kubelet on this node is predicted to report, in the kubelet's sentences and at the kubelet's times.

use std::time::Duration;

use crate::node::{Node, STATUSES, pods, seconds, three_pods};
use pleg::model::run_clock::RunClock;
use pleg::model::wall_time::{Moment, WallTime};
use pleg::out::coverage::{Coverage, Pass, PassKind};
use pleg::out::health::kubelet_healthy;
use pleg::out::kubelet_view;
use pleg::out::kubelet_view::{GuardedLists, KubeletView, guarded_kubelet_view};
use pleg::runtime::Rpc;
use sim::Fault;
use tokio::time::Instant;

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

pub const MINUTE: Duration = Duration::from_secs(60);

/// The kubelet view of a process that was never paused.
fn kubelet_view(now: Instant, coverage: &Coverage) -> KubeletView {
    kubelet_view::kubelet_view(now, coverage, &RunClock::default())
}

#[tokio::test(start_paused = true)]
async fn the_kubelets_sentences_are_exact() {
    let seen = Instant::now();
    let threshold = MINUTE * 3;
    assert_eq!(
        kubelet_healthy(seen, None, threshold),
        Err("pleg has yet to be successful".to_owned())
    );
    let at = |elapsed| kubelet_healthy(seen + elapsed, Some(seen), threshold);
    assert_eq!(at(MINUTE), Ok(()));
    assert_eq!(at(threshold), Ok(()), "equal is healthy");
    assert_eq!(
        at(Duration::from_nanos(233_912_072_577)),
        Err("pleg was last seen active 3m53.912072577s ago; threshold is 3m0s".to_owned())
    );
}

/// The coverage of a node on which every pod is observed as of `now`.
pub fn seen(now: Instant) -> Coverage {
    let begun = Moment {
        instant: now,
        wall: WallTime::from_unix_nanos(1).unwrap(),
    };
    Coverage {
        last_pass: Some(Pass {
            begun,
            took: Duration::ZERO,
            kind: PassKind::List,
        }),
        kubelet_listed: Some(now),
        ..Coverage::none(now)
    }
}

#[test]
fn a_kubelet_that_cannot_list_is_not_ready_three_minutes_after_its_last_lists() {
    let start = Instant::now();
    let failing = Coverage {
        kubelet_cannot_list: true,
        ..seen(start)
    };
    let view = kubelet_view(start + MINUTE, &failing);
    assert!(view.ready);
    assert_eq!(view.not_ready_in_seconds, Some(120.0));
    let view = kubelet_view(start + MINUTE * 4, &failing);
    assert!(!view.ready);
    assert_eq!(
        view.message,
        "PLEG is not healthy: pleg was last seen active 4m0s ago; threshold is 3m0s"
    );
    assert_eq!(view.not_ready_in_seconds, Some(0.0));
}

#[test]
fn the_kubelets_view_is_unknown_before_a_list_was_answered() {
    let start = Instant::now();
    let view = kubelet_view(start, &Coverage::none(start));
    assert!(
        view.ready && view.message.contains("nothing is known yet"),
        "{view:?}"
    );
    assert_eq!(
        kubelet_view(start, &seen(start)).message,
        "no problem expected"
    );
}

#[test]
fn a_kubelet_behind_a_guard_depends_on_how_the_guard_treats_its_lists() {
    let start = Instant::now();
    let view = |elapsed, lists| guarded_kubelet_view(start + seconds(elapsed), start, lists);
    let answered = view(10.0, GuardedLists::Answered);
    assert!(answered.ready && answered.not_ready_in_seconds.is_none());
    let refused = view(10.0, GuardedLists::Refused);
    assert_eq!(refused.not_ready_in_seconds, Some(170.0));
    assert!(!refused.message.contains("Status"), "{}", refused.message);
    let unresponsive = view(10.0, GuardedLists::Silent { since: start });
    assert_eq!(
        unresponsive.message,
        "NotReady in 2m50s if nothing changes: the guard cannot answer its lists; \
         in 20s if its Status calls fail too"
    );
    assert!(!view(181.0, GuardedLists::Answered).ready);
}

#[test]
fn one_stuck_pod_makes_a_kubelet_slow_and_two_make_it_flap() {
    let start = Instant::now();
    let one = Coverage {
        kubelet_waits: vec![start],
        ..seen(start)
    };
    let view = kubelet_view(start + MINUTE * 30, &one);
    assert!(view.ready && view.not_ready_in_seconds.is_none());

    let two = Coverage {
        kubelet_waits: vec![start, start],
        ..seen(start)
    };
    let ready = |elapsed| kubelet_view(start + elapsed, &two).ready;
    assert!(ready(MINUTE * 2));
    assert!(
        !ready(seconds(200.0)),
        "the first relist takes four minutes"
    );
    assert!(ready(seconds(250.0)), "then lists succeed for a moment");
    assert!(!ready(seconds(241.0 + 200.0)));
}

/// NotReady is always predicted, and never wrongly.
#[tokio::test(start_paused = true)]
async fn a_kubelet_flaps_if_both_lists_take_longer_than_half_of_its_threshold() {
    for (containers, sandboxes) in [(100.0, 0.0), (130.0, 0.0), (60.0, 60.0)] {
        let node = Node::watch(|sim| sim.run("a", &["app"])).await;
        node.at(5.5).await;
        for (call, slow) in [
            (Rpc::ListContainers, containers),
            (Rpc::ListPodSandbox, sandboxes),
        ] {
            node.sim.fault(call, None, Fault::Slow(seconds(slow)));
        }
        node.at(250.0).await;
        let (mut turned, mut warned) = (false, true);
        node.sample(300.0, |_, status| {
            turned |= !status.kubelet_view.ready;
            warned &= status.kubelet_view.not_ready_in_seconds.is_some();
        })
        .await;
        assert_eq!((turned, warned), (true, true), "{containers} {sandboxes}");
    }
}

fn hang(node: &Node) {
    for id in ["a/app.0", "b/app.0"] {
        node.sim.fault(Rpc::ContainerStatus, Some(id), Fault::Hang);
    }
}

async fn is_never_threatened(node: &Node) {
    node.sample(300.0, |time, status| {
        let view = &status.kubelet_view;
        assert_eq!(view.not_ready_in_seconds, None, "{time}: {view:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_does_not_wait_for_removed_pods() {
    let node = Node::watch(three_pods).await;
    node.at(5.5).await;
    hang(&node);
    node.sim.exit("a", "app", 1);
    node.sim.exit("b", "app", 1);
    node.at(12.0).await;
    assert!(
        node.status()
            .await
            .kubelet_view
            .not_ready_in_seconds
            .is_some()
    );
    node.sim.world().remove("a");
    node.sim.world().remove("b");
    node.at(14.0).await;
    is_never_threatened(&node).await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_does_not_inspect_what_has_not_changed() {
    let node = Node::watch(three_pods).await;
    node.at(5.5).await;
    hang(&node);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(15.0).await;
    node.sim.lift(Rpc::ListContainers, None);
    node.at(17.0).await;
    assert_eq!(node.status().await.stuck.len(), 2);
    is_never_threatened(&node).await;
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_removed_container_is_not_awaited() {
    let node = Node::watch(|sim| sim.run("a", &["x", "y"])).await;
    node.at(5.5).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("a/x.0"), Fault::Hang);
    node.sim.exit("a", "x", 1);
    node.at(12.0).await;
    assert_eq!(node.status().await.stuck.len(), 1);
    {
        let mut world = node.sim.world();
        let containers = &mut world.pod("a").containers;
        containers.retain(|container| container.id.as_str() != "a/x.0");
    }
    node.at(15.0).await;
    node.sim.exit("a", "y", 2);
    node.at(20.0).await;
    assert_eq!(node.deaths("a/y.0"), [15.0]);
    let view = node.status().await.kubelet_view;
    assert_eq!(view.message, "no problem expected");
}
