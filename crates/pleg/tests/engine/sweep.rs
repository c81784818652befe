//! A sweep by id replaces a list that is stuck, and finds the culprit.

use crate::node::{
    LISTS, Node, STATUSES, broken, generic, many, not_found, pods, seconds, three_pods, too_large,
};
use pleg::Config;
use pleg::model::id::{HostId, Owner, PodRef};
use pleg::out::coverage::PassKind;
use pleg::out::health::{Blind, HealthState, Reason};
use pleg::runtime::{Announced, AnnouncedSandbox, CallError, Rpc};
use sim::{Fault, Sim};

/// containerd's status lock is held: the list of containers is stuck, and the status of one container.
fn lock_status(sim: &Sim, id: &str) {
    sim.fault(Rpc::ListContainers, None, Fault::Hang);
    sim.fault(Rpc::ContainerStatus, Some(id), Fault::Hang);
}

#[tokio::test(start_paused = true)]
async fn under_the_status_lock_exits_of_other_pods_and_the_culprit_are_reported() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    lock_status(&node.sim, "locked/app.0");
    node.at(3.5).await;
    node.assert_reported(
        "3.000 Degraded: ListContainers has not answered for 2s; \
         sweeping containers, new containers may be missed
         3.010 Degraded: container app of default/locked is stuck and blocks ListContainers (1s); \
         sweeping containers, new containers may be missed",
    );
    for round in 0..20 {
        let at = 4.0 + f64::from(round);
        node.at(at - 0.4).await;
        let now = node.sim.now();
        let pod = if round % 2 == 0 { "a" } else { "b" };
        node.sim.exit(pod, "app", round);
        node.at(at + 0.7).await;
        let reported = node.reported();
        assert!(
            reported.contains(&format!("Died {pod}/app.0 with {round}")),
            "at {at}: {reported}"
        );
        {
            let mut world = node.sim.world();
            let container = world.container(pod, "app");
            container.start(now);
            container.ended = None;
        }
        node.at(at + 0.9).await;
    }
    let status = node.status().await;
    assert_eq!(status.health.state, HealthState::Degraded);
    assert!(
        status
            .health
            .message
            .contains("container app of default/locked is stuck"),
        "{}",
        status.health.message
    );
    assert!(status.health.age_seconds.unwrap() < 7.0, "sweeps complete");
    assert_eq!(status.relist.last_kind, Some(PassKind::Sweep));
    assert_eq!(node.sim.max_outstanding_per_id(), 1);
    let view = status.kubelet_view;
    assert!(
        view.not_ready_in_seconds.unwrap() < 180.0 - 20.0,
        "{view:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn when_the_list_is_answered_relists_resume_and_nothing_is_reported_twice() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    lock_status(&node.sim, "locked/app.0");
    node.sim.exit("locked", "app", 1);
    node.at(9.5).await;
    node.sim.exit("a", "app", 2);
    node.at(60.5).await;
    let reported = node.reported();
    assert_eq!(reported.matches("Died a/app.0").count(), 1, "{reported}");
    assert!(!reported.contains("Died locked"), "{reported}");
    node.sim.lift_all();
    node.at(70.5).await;
    let reported = node.reported();
    assert_eq!(reported.matches("Died").count(), 1, "{reported}");
    assert!(
        reported.contains("60.500 Died locked/app.0 with 1"),
        "{reported}"
    );
    assert!(
        reported.contains("60.500 Healthy: all pods are up to date"),
        "{reported}"
    );
    let lists = node.sim.calls_made(Rpc::ListContainers);
    node.at(75.5).await;
    assert_eq!(node.sim.calls_made(Rpc::ListContainers), lists + 5);
}

#[tokio::test(start_paused = true)]
async fn new_and_removed_pods_are_observed_while_only_containers_cannot_be_listed() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    lock_status(&node.sim, "locked/app.0");
    node.at(9.5).await;
    node.reported();
    node.sim.run("new", &["app"]);
    node.sim.world().remove("b");
    node.at(12.5).await;
    let reported = node.reported();
    let lines = [
        "Started new.0",
        // The host shows the id of the new container.
        "Started new/app.0",
        "Died b/app.0",
        "Removed b/app.0",
        "Died b.0",
        "Removed b.0",
    ];
    for line in lines {
        assert_eq!(reported.matches(line).count(), 1, "{line}: {reported}");
    }
    node.sim.lift_all();
    node.at(14.5).await;
    node.assert_reported("12.500 Healthy: all pods are up to date");
}

#[tokio::test(start_paused = true)]
async fn a_new_container_is_found_in_the_status_of_its_sandbox_if_the_runtime_includes_it() {
    for fills in [true, false] {
        let node = Node::watch_knowing_no_host(|sim| {
            three_pods(sim);
            if fills {
                sim.fill_sandboxes();
            }
        })
        .await;
        node.at(0.5).await;
        node.reported();
        lock_status(&node.sim, "locked/app.0");
        node.at(9.5).await;
        node.reported();
        let sent = node.sim.calls_made(Rpc::PodSandboxStatus);
        let now = node.sim.now();
        node.sim.world().pod("a").create("late", now).start(now);
        node.at(11.5).await;
        let reported = node.reported();
        assert_eq!(reported.contains("Started a/late.0"), fills, "{reported}");
        let sent = node.sim.calls_made(Rpc::PodSandboxStatus) - sent;
        assert_eq!(sent > 0, fills, "{sent} needless calls");
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_starts_during_the_fault_observes_the_ids_that_the_host_knows() {
    for lists in [
        &[Rpc::ListContainers][..],
        &[Rpc::ListContainers, Rpc::ListPodSandbox],
    ] {
        let node = Node::watch(|sim| {
            three_pods(sim);
            sim.exit("b", "app", 7);
            for list in lists {
                sim.fault(*list, None, Fault::Hang);
            }
            sim.fault(Rpc::ContainerStatus, Some("locked/app.0"), Fault::Hang);
        })
        .await;
        node.at(12.0).await;
        let reported = node.reported();
        for line in [
            "Started a/app.0 (initial)",
            "Died b/app.0 with 7 (initial)",
            "synced",
        ] {
            assert_eq!(reported.matches(line).count(), 1, "{line}: {reported}");
        }
        let status = node.status().await;
        assert_eq!(status.health.state, HealthState::Degraded);
        assert!(
            status
                .health
                .message
                .contains("container app of default/locked is stuck"),
            "{}",
            status.health.message
        );
        node.sim.exit("a", "app", 1);
        node.at(13.5).await;
        assert!(node.reported().contains("Died a/app.0 with 1"));
        assert_eq!(node.sim.max_outstanding_per_id(), 1);

        node.sim.lift_all();
        node.at(16.0).await;
        let reported = node.reported();
        assert_eq!(
            reported.matches("Started").count() + reported.matches("Died").count(),
            1,
            "{reported}"
        );
        assert!(reported.contains("Started locked/app.0"), "{reported}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_starts_during_the_fault_without_ids_observes_nothing() {
    for list in LISTS {
        let node = Node::watch_knowing_no_host(|sim| {
            three_pods(sim);
            sim.fault(list, None, Fault::Hang);
        })
        .await;
        node.at(12.0).await;
        let status = node.status().await;
        assert_eq!(status.pods, 0, "{list}");
        assert_eq!(
            status.blind,
            [Blind::NewPods, Blind::NewContainers],
            "{list}"
        );
        node.sim.lift_all();
        node.at(16.0).await;
        assert!(node.reported().contains("synced"));
        assert_eq!(node.status().await.blind, []);
    }
}

/// A list that is answered after twenty seconds shows pods whose statuses were not requested until
/// then.
#[tokio::test(start_paused = true)]
async fn after_a_list_that_was_stuck_from_the_start_all_pods_are_observed_at_once_and_none_fails() {
    for pods in [30, 300] {
        let node = Node::watch_knowing_no_host(|sim| {
            many(sim, pods, &["app", "side"]);
            sim.fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(0.005)));
            sim.fault(Rpc::ListContainers, None, Fault::Hang);
        })
        .await;
        node.at(20.0).await;
        node.reported();
        node.sim.lift(Rpc::ListContainers, None);
        node.sample(5.0, |at, status| {
            assert!(status.failing.is_empty(), "{at}: {}", status.health.message);
        })
        .await;
        let reported = node.reported();
        assert!(reported.contains(&format!("synced {pods}")), "{reported}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_uid_on_the_host_is_the_listed_pod_with_its_name() {
    let owner = Owner {
        pod: PodRef {
            uid: "".into(),
            namespace: "default".into(),
            name: "locked".into(),
        },
        container: Some("app".into()),
    };
    let known = HostId {
        id: "locked/app.0".into(),
        owner: Some(owner),
    };
    let node = Node::watch_on_host(vec![known], |sim| {
        three_pods(sim);
        sim.status_lock("locked", "app");
    })
    .await;
    node.at(8.0).await;
    let stuck = node.status().await.stuck;
    let pods: Vec<_> = stuck.iter().filter_map(|call| call.pod.as_ref()).collect();
    let uids: Vec<_> = pods.iter().map(|pod| pod.uid.as_str()).collect();
    assert_eq!(uids, ["uid-locked"], "{stuck:?}");
    let as_of = |uid: &str| node.pleg.cache().get(&uid.into()).as_of;
    assert!(as_of("uid-a").is_some());
    let locked = as_of("uid-locked").map(|seen| seen.instant);
    node.at(20.0).await;
    let later = as_of("uid-locked").map(|seen| seen.instant);
    assert_eq!(later, locked, "its container is not seen");
    assert!(as_of("uid-a").is_some_and(|seen| seen.instant.elapsed() < seconds(3.0)));
    let locked = || node.pleg.cache().get(&"uid-locked".into());
    assert!(locked().error.is_some(), "{:?}", locked().status);
    node.sim.status_unlock("locked", "app");
    node.at(25.0).await;
    assert_eq!(locked().error, None);
    assert_eq!(locked().status.containers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_for_a_container_that_only_an_event_has_shown_has_its_name_from_the_host() {
    let node = Node::watch_stream(|sim| {
        three_pods(sim);
        sim.status_lock("locked", "app");
    })
    .await;
    node.at(0.5).await;
    let pod = node.sim.world().pod("locked").pod.clone();
    node.sim.inject_event(Announced {
        id: "locked/app.0".into(),
        created_at: None,
        sandbox: Some(AnnouncedSandbox {
            id: "locked.0".into(),
            pod: pod.clone(),
        }),
        is_removal: false,
    });
    node.at(8.0).await;
    let stuck = node.status().await.stuck;
    let found = stuck.iter().filter(|call| call.id.is_some());
    let found: Vec<_> = found.map(|call| (&call.container, &call.pod)).collect();
    assert_eq!(found, [(&Some("app".into()), &Some(pod))], "{stuck:?}");
}

#[tokio::test(start_paused = true)]
async fn sandboxes_that_cannot_be_listed_are_swept_too() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.at(5.5).await;
    let reported = node.reported();
    assert!(
        reported.starts_with(
            "3.000 Degraded: ListPodSandbox has not answered for 2s; sweeping sandboxes"
        ),
        "{reported}"
    );
    let now = node.sim.now();
    node.sim.world().pod("a").stop(now);
    node.sim.world().pod("b").restart("app", 4, now);
    node.at(7.5).await;
    let reported = node.reported();
    for line in [
        "Died a.0",
        "Died a/app.0 with 137",
        "Died b/app.0 with 4",
        "Started b/app.1",
    ] {
        assert_eq!(reported.matches(line).count(), 1, "{line}: {reported}");
    }
    assert_eq!(node.status().await.health.state, HealthState::Degraded);
}

#[tokio::test(start_paused = true)]
async fn with_both_lists_stuck_known_pods_are_observed_and_the_node_stays_degraded() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    node.reported();
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(3.5).await;
    let reported = node.reported();
    assert!(reported.contains("new pods may be missed"), "{reported}");
    node.at(600.0).await;
    node.sim.exit("a", "app", 6);
    node.sim.world().remove("b");
    node.at(602.0).await;
    let reported = node.reported();
    assert!(reported.contains("Died a/app.0 with 6"), "{reported}");
    assert!(reported.contains("Removed b.0"), "{reported}");
    assert_eq!(node.status().await.health.state, HealthState::Degraded);
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

/// The sweep requests the status of the container while the container is removed, and is answered
/// only once the removal is known.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_container_was_removed_beside_a_sweep_is_inspected() {
    for list in [
        Fault::Slow(seconds(4.5)),
        Fault::Slow(seconds(0.3)),
        broken(),
    ] {
        for phase in 0..40 {
            let node = Node::watch(three_pods).await;
            node.at(0.5).await;
            node.sim.fault(Rpc::ListPodSandbox, None, broken());
            node.sim.fault(Rpc::ListContainers, None, list.clone());
            let slow = Fault::Slow(seconds(0.2));
            node.sim.fault(Rpc::ContainerStatus, Some("a/app.0"), slow);
            node.at(30.0 + f64::from(phase) / 20.0).await;
            node.sim.world().pod("a").containers.clear();
            node.pass(0.3).await;
            node.sim.lift(Rpc::ListContainers, None);
            node.pass(9.0).await;
            node.sample(10.0, |at, status| {
                let message = &status.health.message;
                let is_seen = status.failing.is_empty() && !message.contains("inspected");
                assert!(is_seen, "{list:?}, {phase}, at {at}: {message}");
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

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_serve_cri_is_not_reported_as_swept() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    for call in [
        Rpc::Version,
        Rpc::ListContainers,
        Rpc::ListPodSandbox,
        Rpc::ContainerStatus,
        Rpc::PodSandboxStatus,
    ] {
        let none = Fault::Fail(CallError::Unimplemented("unknown service".into()));
        node.sim.fault(call, None, none);
    }
    node.at(30.0).await;
    let health = node.status().await.health;
    assert_eq!(health.reason, Reason::ListFails, "{health:?}");
    assert!(
        health.message.starts_with("pods cannot be listed: "),
        "{health:?}"
    );
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

#[tokio::test(start_paused = true)]
async fn a_sweep_makes_at_most_two_hundred_calls_a_second() {
    let node = Node::watch(|sim| {
        many(sim, 500, &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(10.0).await;
    let before = node.sim.calls_made(Rpc::ContainerStatus);
    node.at(20.0).await;
    let made = node.sim.calls_made(Rpc::ContainerStatus) - before;
    assert!((1000..=2010).contains(&made), "{made} calls in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_slow_runtime_is_swept_more_slowly() {
    let node = Node::watch_with(Config::default(), |sim| {
        many(sim, 200, &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.sim
        .fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(0.2)));
    node.at(10.0).await;
    let before = node.sim.calls_made(Rpc::ContainerStatus);
    node.at(20.0).await;
    let made = node.sim.calls_made(Rpc::ContainerStatus) - before;
    assert!((100..=300).contains(&made), "{made} calls in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn failing_status_calls_do_not_delay_a_sweep() {
    let node = Node::watch(|sim| {
        for number in 0..12 {
            sim.run(&format!("broken-{number}"), &["app"]);
        }
        sim.run("well", &["app"]);
    })
    .await;
    node.at(0.5).await;
    node.reported();
    node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    for number in 0..12 {
        let sandbox = format!("broken-{number}.0");
        let container = format!("broken-{number}/app.0");
        let statuses = [
            (Rpc::PodSandboxStatus, sandbox),
            (Rpc::ContainerStatus, container),
        ];
        for (call, id) in statuses {
            node.sim.fault(call, Some(&id), broken());
        }
    }
    node.sim.exit("well", "app", 3);
    node.at(6.0).await;
    let reported = node.reported();
    assert!(reported.contains("Died well/app.0 with 3"), "{reported}");
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
async fn a_list_that_is_stuck_again_right_after_its_release_is_reported_within_seconds() {
    let node = Node::watch(three_pods).await;
    node.at(5.5).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(155.5).await;
    // The delayed list is answered; the next one, requested at once, is a little slow.
    let slow = Fault::Slow(seconds(0.002));
    node.sim.fault(Rpc::ListContainers, None, slow);
    node.pass(0.001).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(160.0).await;
    let status = node.status().await;
    assert_eq!(status.stuck[0].call, Rpc::ListContainers);
    assert_eq!(status.health.reason, Reason::ListStuck);
    assert_eq!(status.blind, [Blind::NewContainers]);
    node.at(300.0).await;
    let age = node.status().await.health.age_seconds.unwrap();
    assert!(age < 3.0, "everybody is seen by id: {age}");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_takes_longer_than_the_period_ends() {
    for (pods, slow) in [(250, 0.002), (120, 0.045), (50, 0.1), (28, 0.28), (10, 2.0)] {
        let node = Node::watch(|sim| many(sim, pods, &["app"])).await;
        node.at(3.5).await;
        let slow = Fault::Slow(seconds(slow));
        node.sim.fault(Rpc::ContainerStatus, None, slow.clone());
        node.sim.status_lock("p2", "app");
        node.pass(5.0).await;
        node.sample(120.0, |at, status| {
            let age = status.health.age_seconds.unwrap();
            assert!(
                age < 16.0,
                "{pods} pods, {slow:?}: at {at} lastSeen is {age} s old"
            );
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_not_found_once_beside_a_stuck_list_is_not_dead() {
    let node = Node::watch(three_pods).await;
    node.at(8.4).await;
    lock_status(&node.sim, "locked/app.0");
    node.at(20.0).await;
    node.reported();
    let id = Some("a/app.0");
    node.sim.fault(Rpc::ContainerStatus, id, not_found());
    node.pass(0.3).await;
    node.sim.lift(Rpc::ContainerStatus, id);
    node.pass(10.0).await;
    let reported = node.reported();
    assert!(!reported.contains("a/app.0"), "{reported}");
    // A container that is repeatedly not found is removed.
    node.sim.fault(Rpc::ContainerStatus, id, not_found());
    node.pass(5.0).await;
    let reported = node.reported();
    assert!(reported.contains("Removed a/app.0"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn a_large_node_with_slow_statuses_is_observed_long_before_it_would_be_unhealthy() {
    for (pods, slow) in [(250, 1.0), (500, 2.0), (110, 3.0)] {
        let node = Node::watch(|sim| many(sim, pods, &["app", "sidecar"])).await;
        node.at(3.5).await;
        for call in STATUSES {
            let slow = Fault::Slow(seconds(slow));
            node.sim.fault(call, None, slow);
        }
        node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        node.sample(300.0, |at, status| {
            let age = status.health.age_seconds.unwrap();
            assert!(
                age < 80.0,
                "{pods} pods, {slow} s: at {at} lastSeen is {age} s old"
            );
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_waits_for_the_other_list_however_late_it_is() {
    for hangs in [true, false] {
        for (list, other) in [
            (Rpc::ListContainers, Rpc::ListPodSandbox),
            (Rpc::ListPodSandbox, Rpc::ListContainers),
        ] {
            for slow in [0.7, 1.1, 1.5, 1.9] {
                let node = Node::watch(|sim| many(sim, 5, &["app"])).await;
                node.at(8.4).await;
                let fault = match hangs {
                    true => Fault::Hang,
                    false => broken(),
                };
                node.sim.fault(list, None, fault);
                node.sim.fault(other, None, Fault::Slow(seconds(slow)));
                node.pass(5.0).await;
                node.sample(60.0, |at, status| {
                    let age = status.health.age_seconds.unwrap();
                    assert!(age < 12.0, "{other} takes {slow} s: at {at} {age} s");
                })
                .await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_failed_and_is_then_stuck_beside_the_other_delays_no_sweep() {
    for list in LISTS {
        let node = Node::watch(|sim| many(sim, 5, &["app"])).await;
        node.at(8.4).await;
        node.sim.fault(list, None, broken());
        node.pass(5.0).await;
        node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        node.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
        node.pass(6.0).await;
        node.sample(60.0, |at, status| {
            let age = status.health.age_seconds.unwrap();
            assert!(age < 8.0, "{list} failed first: at {at} {age} s");
        })
        .await;
    }
}

/// A node on which the PID call for `locked` is sent 0.9 s after the start, and is not answered. Other
/// status calls have taken as long, so this call becomes suspect late. Meanwhile, containers cannot be
/// listed.
async fn node_with_outstanding_pid_call(list: Fault) -> Node {
    let node = Node::watch_with_kernel(generic(), |sim| {
        pods(sim);
        sim.fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(0.9)));
    })
    .await;
    node.at(0.5).await;
    let id = Some("locked/app.0");
    node.sim.fault(Rpc::ContainerStatus, id, Fault::Hang);
    node.sim.lift(Rpc::ContainerStatus, None);
    node.sim.fault(Rpc::ListContainers, None, list);
    node
}

#[tokio::test(start_paused = true)]
async fn an_outstanding_pid_call_delays_no_sweep() {
    for list in [Fault::Hang, too_large()] {
        let node = node_with_outstanding_pid_call(list.clone()).await;
        node.at(2.6).await;
        let now = node.sim.now();
        node.sim.world().pod("a").restart("app", 4, now);
        node.at(3.3).await;
        node.sim.exit("a", "app", 5);
        node.at(4.3).await;
        let reported = node.reported();
        for line in ["Started a/app.1", "Died a/app.1 with 5"] {
            assert_eq!(
                reported.matches(line).count(),
                1,
                "{list:?}: {line}: {reported}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_waited_for_a_pid_call_is_a_pass_once_that_is_answered() {
    let node = node_with_outstanding_pid_call(Fault::Hang).await;
    let began = node.sim.now();
    node.at(4.3).await;
    node.counter.seen.lock().unwrap().clear();
    node.sim.lift(Rpc::ContainerStatus, Some("locked/app.0"));
    node.pass(0.05).await;
    let seen = node.counter.seen.lock().unwrap();
    let first = seen.first().expect("it is complete").since(began);
    // The sweep began two seconds after the start.
    assert_eq!(first, seconds(1.5));
}

#[tokio::test(start_paused = true)]
async fn a_first_sweep_counts_answers_that_arrive_out_of_order() {
    let both = [Rpc::ListContainers, Rpc::ListPodSandbox];
    // A single list is replaced after one second, both after two; the next sweep follows a second later.
    for (lists, once) in [(&both[..1], 1.9), (&both, 2.9)] {
        for slow in ["p0.0", "p0/app.0", "p0/side.0"] {
            let node = Node::watch(|sim| {
                many(sim, 3, &["app", "side"]);
                for pod in ["p0", "p1", "p2"] {
                    sim.exit(pod, "app", 1);
                    sim.exit(pod, "side", 1);
                }
                let late = Fault::Slow(seconds(0.1));
                sim.fault(Rpc::ListPodSandbox, None, late.clone());
                for call in STATUSES {
                    sim.fault(call, Some(slow), late.clone());
                }
                for list in lists {
                    sim.fault(*list, None, Fault::Hang);
                }
            })
            .await;
            node.at(once).await;
            let case = format!("{slow} is slow while {lists:?} hang");
            let status = node.status().await;
            assert_eq!(status.containers["exited"], 6, "{case}");
            let entries = node.pleg.cache().all();
            let sandboxes = entries.iter().flat_map(|entry| &entry.status.sandboxes);
            assert_eq!(sandboxes.count(), 3, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_that_the_host_knows_as_a_container_is_not_requested_as_a_sandbox() {
    let node = Node::watch(three_pods).await;
    node.at(0.5).await;
    for list in LISTS {
        node.sim.fault(list, None, Fault::Hang);
    }
    node.sim.fault(Rpc::PodSandboxStatus, None, Fault::Hang);
    for _ in 0..20 {
        let now = node.sim.now();
        node.sim.world().pod("a").restart("app", 1, now);
        node.pass(1.0).await;
        for call in node.status().await.stuck {
            let id = call.id.as_ref().map(|id| id.as_str());
            let is_container = id.is_some_and(|id| id.contains('/'));
            let asks_sandbox = call.call == Rpc::PodSandboxStatus;
            assert!(!(is_container && asks_sandbox), "{call}");
        }
    }
}
