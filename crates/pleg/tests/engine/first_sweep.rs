//! An engine that starts while a list is stuck, or does not know an id, uses what the host knows.

use crate::node::{LISTS, Node, STATUSES, many, seconds, three_pods};
use pleg::model::id::{HostId, Owner, PodRef};
use pleg::out::health::{Blind, HealthState};
use pleg::runtime::{Announced, AnnouncedSandbox, Rpc};
use sim::Fault;

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
