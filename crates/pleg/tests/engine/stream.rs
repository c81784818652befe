//! The runtime's events as hints: an announced change is reported at once. A relist finds any other
//! change. Relists are rare only while the stream announces every change.

use crate::node::{Node, period, restart, seconds, ten};
use pleg::out::health::Reason;
use pleg::runtime::{CallError, Rpc};
use pleg::{Config, Mode};
use sim::{Fault, Serving, StreamFault};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn an_announced_change_is_reported_at_once_by_an_inspection_of_that_pod_alone() {
    let node = Node::watch_stream(|sim| {
        sim.run("a", &["app", "other"]);
        sim.run("b", &["app"]);
    })
    .await;
    node.at(1.5).await;
    node.reported();
    let lists = node.sim.calls_made(Rpc::ListContainers);
    let looks = node.sim.calls_made(Rpc::ContainerStatus);

    node.sim.exit("a", "app", 3);
    node.at(1.6).await;
    node.assert_reported("1.500 Died a/app.0 with 3 (stream)");
    assert_eq!(node.sim.calls_made(Rpc::ListContainers), lists);
    assert_eq!(node.sim.calls_made(Rpc::ContainerStatus), looks + 2);
    let status = node.status().await;
    assert_eq!(
        (status.stream.state.as_str(), status.stream.events),
        ("live", 1)
    );
    assert_eq!(status.relist.mode, "evented");
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_and_its_end_are_reported_before_any_list_shows_them() {
    let node = Node::watch_stream(|sim| sim.run("a", &["app"])).await;
    node.at(1.5).await;
    node.reported();
    node.sim.run("new", &["app"]);
    node.at(1.6).await;
    node.assert_reported(
        "1.500 Started new.0 (stream)
         1.500 Started new/app.0 (stream)",
    );
    node.sim.world().remove("new");
    node.at(1.7).await;
    node.assert_reported(
        "1.600 Died new/app.0 (stream)
         1.600 Removed new/app.0 (stream)
         1.600 Died new.0 (stream)
         1.600 Removed new.0 (stream)",
    );
    node.at(9.0).await;
    node.assert_reported("");
}

#[tokio::test(start_paused = true)]
async fn the_period_grows_while_every_change_is_announced() {
    let node = Node::watch_stream(ten).await;
    node.at(1.5).await;
    restart(&node.sim, 0..4);
    node.at(60.0).await;
    assert_eq!(
        period(&node.status().await),
        1.0,
        "eight changes are not enough"
    );
    restart(&node.sim, 4..6);
    node.at(200.0).await;
    let status = node.status().await;
    assert_eq!((period(&status), status.stream.missed), (30.0, 0));
    let lists = node.sim.calls_made(Rpc::ListContainers);
    node.at(500.0).await;
    assert_eq!(node.sim.calls_made(Rpc::ListContainers), lists + 10);
}

/// Lists are thirty seconds apart, and nothing causes another call.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_stops_on_a_quiet_node_is_reported_long_before_the_next_list() {
    for stop in [200.0, 210.0, 220.0] {
        let node = Node::watch_stream(ten).await;
        node.at(1.5).await;
        restart(&node.sim, 0..5);
        node.at(stop).await;
        assert_eq!(period(&node.status().await), 30.0);
        let versions = node.sim.calls_made(Rpc::Version);
        node.sim.stop();
        node.at(stop + 14.0).await;
        let reason = node.status().await.health.reason;
        assert_eq!(reason, Reason::RuntimeSilent, "stopped at {stop}");
        assert!(versions <= 1 + stop as usize / 10, "{versions} heartbeats");
    }
}

#[tokio::test(start_paused = true)]
async fn the_period_never_hides_a_stall_from_health() {
    let config = Config {
        relist_threshold: seconds(40.0),
        ..Config::default()
    };
    let node = Node::watch_with(config, ten).await;
    node.at(1.5).await;
    restart(&node.sim, 0..5);
    node.at(100.0).await;
    assert_eq!(period(&node.status().await), 10.0);
}

#[tokio::test(start_paused = true)]
async fn one_change_that_is_not_announced_brings_the_period_back() {
    let node = Node::watch_stream(ten).await;
    node.at(1.5).await;
    restart(&node.sim, 0..5);
    node.at(100.0).await;
    assert_eq!(period(&node.status().await), 30.0);
    node.reported();

    // A stream without events looks like a quiet node, until the next relist.
    node.sim.set_stream_fault(StreamFault::Silent);
    node.sim.exit("p9", "app", 9);
    node.at(130.0).await;
    assert!(node.reported().contains("Died p9/app.0 with 9"));
    node.at(134.0).await;
    let status = node.status().await;
    assert_eq!((period(&status), status.stream.missed), (1.0, 1));

    // The stream must be proven again, and can be.
    node.sim.lift_stream_faults();
    restart(&node.sim, 0..5);
    node.at(240.0).await;
    assert_eq!(period(&node.status().await), 30.0);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_call_brings_the_period_back() {
    let node = Node::watch_stream(ten).await;
    node.at(1.5).await;
    restart(&node.sim, 0..5);
    node.at(100.0).await;
    node.sim
        .fault(Rpc::ContainerStatus, Some("p7/app.0"), Fault::Hang);
    node.sim.exit("p7", "app", 7);
    node.at(106.0).await;
    assert_eq!(period(&node.status().await), 1.0);
    node.reported();
    node.sim.exit("p8", "app", 8);
    node.at(106.1).await;
    node.assert_reported("106.000 Died p8/app.0 with 8 (stream)");
}

#[tokio::test(start_paused = true)]
async fn an_inspection_that_fails_is_repeated_soon_although_the_period_had_grown() {
    let node = Node::watch_stream(ten).await;
    node.at(1.5).await;
    restart(&node.sim, 0..5);
    node.at(100.0).await;
    node.reported();
    let broken = Fault::Fail(CallError::Refused("Unknown: broken".into()));
    node.sim
        .fault(Rpc::ContainerStatus, Some("p7/app.0"), broken);
    node.sim.exit("p7", "app", 7);
    node.at(100.5).await;
    node.assert_reported("");
    node.sim.lift_all();
    node.at(101.5).await;
    node.assert_reported("101.000 Died p7/app.0 with 7");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_is_reopened_each_time_and_a_relist_finds_what_it_missed() {
    let node = Node::watch_stream(ten).await;
    node.at(1.5).await;
    restart(&node.sim, 0..5);
    node.at(100.0).await;
    node.reported();
    for outage in 1..=20 {
        let begun = 100.0 * f64::from(outage);
        node.at(begun).await;
        let down = Fault::Fail(CallError::connection_refused());
        node.sim.fault(Rpc::GetContainerEvents, None, down);
        node.sim.end_streams();
        node.at(begun + 10.3).await;
        restart(&node.sim, 9..10);
        node.at(begun + 20.0).await;
        assert_eq!(node.status().await.stream.state, "retrying");
        let died = format!("Died p9/app.{} with 1", outage - 1);
        assert!(node.reported().contains(&died), "{died}");
        node.sim.lift_all();
        node.at(begun + 60.0).await;
        let status = node.status().await;
        assert_eq!(status.stream.state, "live");
        assert_eq!(status.stream.reconnects, outage as u64);
        assert_eq!((period(&status), status.stream.missed), (1.0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_without_a_stream_is_tried_again_after_a_restart() {
    let none = || Fault::Fail(CallError::Unimplemented("unknown method".into()));
    let node = Node::watch_stream(|sim| {
        ten(sim);
        sim.fault(Rpc::GetContainerEvents, None, none());
    })
    .await;
    node.at(10.0).await;
    let status = node.status().await;
    assert_eq!(
        (status.stream.state.as_str(), status.relist.mode.as_str()),
        ("unsupported", "generic")
    );

    let down = || Fault::Fail(CallError::connection_refused());
    node.sim.fault(Rpc::ListContainers, None, down());
    node.sim.fault(Rpc::ListPodSandbox, None, down());
    node.at(12.0).await;
    node.sim.lift_all();
    node.at(15.0).await;
    assert_eq!(node.status().await.stream.state, "live");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_the_runtime_ends_at_once_does_not_count_as_a_stream() {
    let node = Node::watch_stream(|sim| {
        ten(sim);
        sim.serve_stream(Serving::EndsAtOnce);
    })
    .await;
    node.at(10.0).await;
    assert_eq!(node.status().await.stream.state, "unsupported");
    node.sim.serve_stream(Serving::Broadcast);
    node.at(75.0).await;
    assert_eq!(node.status().await.stream.state, "live");
}

#[tokio::test(start_paused = true)]
async fn generic_mode_opens_no_stream() {
    let config = Config {
        mode: Mode::Generic,
        ..Config::default()
    };
    let node = Node::watch_with(config, ten).await;
    node.at(10.0).await;
    assert_eq!(node.sim.calls_made(Rpc::GetContainerEvents), 0);
    assert_eq!(node.status().await.stream.state, "off");
}

#[tokio::test(start_paused = true)]
async fn an_inspection_that_a_list_overtakes_reports_nothing_false() {
    let node = Node::watch_stream(|sim| sim.run("a", &["app"])).await;
    node.at(1.5).await;
    node.reported();
    // The inspection is requested before the exit and answered after the list that shows it.
    node.sim
        .fault(Rpc::ContainerStatus, None, Fault::Slow(seconds(3.0)));
    let now = node.sim.now();
    node.sim.world().pod("a").restart("app", 1, now);
    node.at(3.6).await;
    node.sim.exit("a", "app", 2);
    node.at(60.0).await;
    let reported = node.reported();
    for once in [
        "Died a/app.0 with 1",
        "Started a/app.1",
        "Died a/app.1 with 2",
    ] {
        assert!(reported.matches(once).count() <= 1, "{reported}");
    }
    assert!(reported.contains("Died a/app.0 with 1"), "{reported}");
    assert!(reported.contains("Died a/app.1 with 2"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_waits_for_a_version_sleeps() {
    let node = Node::watch_stream(|sim| sim.fault(Rpc::Version, None, Fault::Hang)).await;
    // If the loop spun, virtual time would stand still.
    node.at(100.0).await;
    assert_eq!(node.sim.calls_made(Rpc::GetContainerEvents), 0);
    node.sim.lift_all();
    node.at(102.0).await;
    assert_eq!(node.status().await.stream.state, "live");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_not_as_of_a_time_that_a_late_stream_has_not_reached() {
    let node = Node::watch_stream(ten).await;
    node.at(1.5).await;
    restart(&node.sim, 0..6);
    node.at(200.2).await;
    assert_eq!(period(&node.status().await), 30.0);
    node.sim.set_stream_fault(StreamFault::Delay(seconds(0.8)));
    let started = Instant::now();
    for container in 0..8 {
        let now = node.sim.now();
        let mut world = node.sim.world();
        let pod = world.pod("p1");
        pod.create(&format!("c{container}"), now).start(now);
        drop(world);
        node.sample(0.2, |at, _| {
            let p1 = node.pleg.cache().get(&"uid-p1".into());
            let as_of = p1.as_of.unwrap().instant;
            let by_then = |number: u32| as_of > started + seconds(0.2) * number;
            let expected = (0..=container).filter(|number| by_then(*number)).count();
            let shown = p1.status.containers.len() - 2;
            assert!(shown >= expected, "at {at}: {shown}, and not {expected}");
        })
        .await;
    }
    node.pass(2.0).await;
    let p1 = node.pleg.cache().get(&"uid-p1".into());
    assert_eq!(p1.status.containers.len(), 10);
}
