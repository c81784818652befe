//! Events before the first list, and an old event of a container that has died since: neither is
//! evidence of more than it reports.

use crate::node::{Node, seconds};
use pleg::model::id::PodRef;
use pleg::model::listed::SandboxState;
use pleg::runtime::{Announced, AnnouncedSandbox, Rpc};
use sim::{Fault, StreamFault};

#[tokio::test(start_paused = true)]
async fn a_hint_before_the_first_list_hides_nothing_in_it() {
    // containerd 1.7 keeps events while no client reads them, and sends them to the next client that
    // does: here before its first list, and about a part of a pod.
    let node = Node::watch_stream(|sim| {
        sim.run("a", &["app"]);
        sim.fault(Rpc::ListContainers, None, Fault::Slow(seconds(0.5)));
    })
    .await;
    node.at(0.1).await;
    node.sim.world().pod("a").sandboxes[0].state = SandboxState::NotReady;
    node.at(2.0).await;
    let reported = node.reported();
    assert!(reported.contains("Started a/app.0 (initial)"), "{reported}");
    assert!(
        reported.contains("synced 1 pods, 1 containers"),
        "{reported}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_pass_waits_for_a_pod_that_a_hint_showed_in_part() {
    let node = Node::watch_stream(|sim| {
        sim.run("a", &["app"]);
        sim.fault(Rpc::ListContainers, None, Fault::Slow(seconds(0.2)));
        sim.fault(Rpc::PodSandboxStatus, None, Fault::Slow(seconds(0.3)));
    })
    .await;
    node.at(0.1).await;
    node.sim.world().pod("a").sandboxes[0].state = SandboxState::NotReady;
    node.at(2.0).await;
    let reported = node.reported();
    assert!(reported.contains("Started a/app.0 (initial)"), "{reported}");
    assert!(
        reported.contains("synced 1 pods, 1 containers"),
        "{reported}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_hint_of_a_start_does_not_count_for_the_exit_that_follows() {
    let node = Node::watch_stream(|sim| sim.run("a", &["app"])).await;
    node.at(1.5).await;
    let now = node.sim.now();
    node.sim.world().pod("a").restart("app", 1, now);
    // Here an inspection begins at the instant of its event; on a real node it begins a moment later.
    node.at(3.5).await;
    node.pleg.request_reinspect("uid-a".into());
    // A crash loop: lists have shown the container as running, and now its stream has another reader.
    node.at(6.5).await;
    node.sim.set_stream_fault(StreamFault::Silent);
    node.sim.exit("a", "app", 1);
    node.at(12.0).await;
    assert!(node.reported().contains("Died a/app.1 with 1"));
    assert_eq!(node.status().await.stream.missed, 1);
}

#[tokio::test(start_paused = true)]
async fn inspections_that_sweeps_overtake_do_not_delay_what_the_sweeps_observed() {
    let node = Node::watch_stream(|sim| {
        sim.run("web", &["nginx"]);
        sim.run("db", &["postgres"]);
    })
    .await;
    node.at(1.5).await;
    let slow = Fault::Slow(seconds(2.0));
    node.sim.fault(Rpc::ContainerStatus, None, slow);
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(15.0).await;
    node.reported();
    node.sim.exit("web", "nginx", 7);
    node.at(25.0).await;
    assert!(node.reported().contains("Died web/nginx.0 with 7"));
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_an_id_in_an_event_is_not_trusted() {
    let node = Node::watch_stream(|sim| {
        sim.run("a", &["app"]);
        sim.run("b", &["app"]);
    })
    .await;
    node.at(1.5).await;
    node.reported();
    // One event shows a container of `a` in `b`. The others show pods that do not exist.
    let wrong = |pod: &str, id: &str| Announced {
        id: id.into(),
        created_at: None,
        sandbox: Some(AnnouncedSandbox {
            id: format!("{pod}.0").into(),
            pod: PodRef {
                uid: format!("uid-{pod}").into(),
                namespace: "default".into(),
                name: pod.into(),
            },
        }),
        is_removal: false,
    };
    node.sim.inject_event(wrong("b", "a/app.0"));
    node.sim.inject_event(wrong("nowhere", "nowhere/app.0"));
    node.sim.inject_event(wrong("", ""));
    node.at(9.5).await;
    node.assert_reported("");
    assert_eq!(node.status().await.pods, 2);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_events_delays_no_pod_and_ends_with_the_true_state() {
    let node = Node::watch_stream(|sim| sim.run("a", &["app"])).await;
    node.at(1.5).await;
    node.reported();
    for number in 0..50_000 {
        node.sim.inject_event(Announced {
            id: format!("garbage-{number}").into(),
            created_at: None,
            sandbox: None,
            is_removal: false,
        });
    }
    node.sim.exit("a", "app", 5);
    node.at(1.6).await;
    assert_eq!(node.status().await.pods, 1);
    node.at(4.0).await;
    assert!(node.reported().contains("Died a/app.0 with 5"));
}
