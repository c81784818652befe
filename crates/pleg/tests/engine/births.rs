//! Births that the kernel reports: a start is reported whichever calls are stuck, and lists are rare on a
//! node on which each birth and each death is watched.

use crate::node::{Node, STATUSES, generic, seconds};
use pleg::Config;
use pleg::out::health::HealthState;
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, Rpc};
use sim::{Fault, Sim, StreamFault};

fn ten(sim: &Sim) {
    for pod in 0..10 {
        sim.run(&format!("p{pod}"), &["app"]);
    }
}

fn restart(sim: &Sim, pods: std::ops::Range<usize>) {
    for pod in pods {
        let now = sim.now();
        sim.world().pod(&format!("p{pod}")).restart("app", 1, now);
    }
}

fn period(status: &StatusReport) -> f64 {
    status.relist.period_seconds
}

/// A node of ten pods whose births, deaths and events are reported.
async fn watched() -> Node {
    Node::watch_with_kernel(Config::default(), |sim| {
        ten(sim);
        sim.watch_births();
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_quiet_node_is_listed_every_thirty_seconds_from_the_start() {
    let node = watched().await;
    node.at(10.0).await;
    let status = node.status().await;
    assert_eq!(period(&status), 30.0);
    assert!(status.kernel.births.watched);
    let lists = node.sim.calls_made(Rpc::ListContainers);
    assert!(lists <= 3, "{lists}");
    node.at(100.0).await;
    assert_eq!(node.sim.calls_made(Rpc::ListContainers), lists + 3);
}

#[tokio::test(start_paused = true)]
async fn after_a_long_pause_of_this_process_a_quiet_node_is_listed_at_once() {
    let node = watched().await;
    node.at(40.0).await;
    let lists = node.sim.calls_made(Rpc::ListContainers);
    tokio::time::advance(seconds(60.0)).await;
    node.pass(0.5).await;
    assert_eq!(node.sim.calls_made(Rpc::ListContainers), lists + 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_nothing_announced_brings_the_period_back_to_one_second() {
    let node = watched().await;
    node.at(10.0).await;
    node.reported();
    // Neither the kernel nor the stream announces a new container: a list finds it.
    node.sim.set_stream_fault(StreamFault::Silent);
    node.sim.lose_births(|sim| {
        let now = sim.now();
        sim.world().pod("p9").create("more", now).start(now);
    });
    node.at(11.0).await;
    assert!(node.reported().contains("Started p9/more.0"));
    node.at(14.0).await;
    let status = node.status().await;
    assert_eq!((period(&status), status.stream.missed), (1.0, 1));
    node.at(100.0).await;
    assert_eq!(period(&node.status().await), 1.0);
    // Ten announced changes restore the trust in the hints.
    node.sim.lift_stream_faults();
    restart(&node.sim, 0..5);
    node.at(102.5).await;
    assert_eq!(period(&node.status().await), 30.0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stops_is_noticed_at_the_next_birth_or_exit() {
    for is_birth in [true, false] {
        let node = watched().await;
        node.at(10.0).await;
        node.reported();
        node.sim.set_stream_fault(StreamFault::Silent);
        let expected = match is_birth {
            true => {
                node.sim.run("new", &["app"]);
                "Started new/app.0 (kernel)"
            }
            false => {
                node.sim.kill("p3", "app");
                node.sim.exit("p3", "app", 9);
                "Died p3/app.0 with 9 (kernel)"
            }
        };
        node.at(10.1).await;
        let reported = node.reported();
        assert!(reported.contains(expected), "{reported}");
        node.at(14.0).await;
        let status = node.status().await;
        assert_eq!(period(&status), 1.0);
        assert!(status.stream.missed > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_is_reported_within_a_tenth_of_a_second_while_the_list_hangs() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        ten(sim);
        sim.watch_births();
    })
    .await;
    node.at(0.5).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(8.0).await;
    node.reported();
    let now = node.sim.now();
    node.sim.world().pod("p3").create("late", now);
    // Its directory exists, but its process does not yet.
    node.at(8.13).await;
    node.assert_reported("");
    let now = node.sim.now();
    node.sim
        .world()
        .pod("p3")
        .container("late")
        .unwrap()
        .start(now);
    node.at(8.23).await;
    let reported = node.reported();
    assert!(
        reported.contains("Started p3/late.0 (kernel)"),
        "{reported}"
    );
    // And its process is watched from then on.
    node.sim.kill("p3", "late");
    node.sim.exit("p3", "late", 2);
    node.at(8.33).await;
    assert!(node.reported().contains("Died p3/late.0 with 2 (kernel)"));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_takes_seconds_is_also_reported_within_a_tenth_of_a_second() {
    let node = watched().await;
    node.at(10.0).await;
    node.reported();
    node.sim.set_stream_fault(StreamFault::Silent);
    let now = node.sim.now();
    node.sim.world().pod("p3").create("slow", now);
    node.at(13.05).await;
    node.assert_reported_no_event();
    let now = node.sim.now();
    let mut world = node.sim.world();
    world.pod("p3").container("slow").unwrap().start(now);
    drop(world);
    node.at(13.15).await;
    let reported = node.reported();
    assert!(
        reported.contains("Started p3/slow.0 (kernel)"),
        "{reported}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_start_is_reported_although_the_runtime_does_not_know_the_id_at_first() {
    let node = watched().await;
    node.at(10.0).await;
    node.reported();
    node.sim.set_stream_fault(StreamFault::Silent);
    let unknown = Fault::Fail(CallError::NotFound("no such container".into()));
    node.sim
        .fault(Rpc::ContainerStatus, Some("p3/late.0"), unknown);
    let now = node.sim.now();
    node.sim.world().pod("p3").create("late", now).start(now);
    node.at(10.2).await;
    node.assert_reported_no_event();
    node.sim.lift_all();
    node.at(10.5).await;
    let reported = node.reported();
    assert!(
        reported.contains("Started p3/late.0 (kernel)"),
        "{reported}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_is_reported_while_both_lists_are_stuck() {
    let node = watched().await;
    node.at(10.0).await;
    node.reported();
    node.sim.set_stream_fault(StreamFault::Silent);
    for list in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        node.sim.fault(list, None, Fault::Hang);
    }
    node.sim.run("new", &["app"]);
    node.at(10.1).await;
    node.assert_reported(
        "10.050 Started new/app.0 (kernel)
         10.050 Started new.0 (kernel)",
    );
    assert_eq!(node.sim.max_outstanding_per_id(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_sandbox_is_reported_although_no_event_announces_it() {
    let node = watched().await;
    node.at(10.0).await;
    node.reported();
    node.sim.set_stream_fault(StreamFault::Silent);
    let now = node.sim.now();
    node.sim.world().pod("p4").stop(now);
    node.at(10.2).await;
    let reported = node.reported();
    assert!(reported.contains("Died p4.0 (kernel)"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn changes_that_are_lost_are_found_by_a_list_at_once() {
    let node = watched().await;
    node.at(10.0).await;
    node.reported();
    node.sim.set_stream_fault(StreamFault::Silent);
    node.sim.lose_births(|sim| sim.run("new", &["app"]));
    node.at(10.3).await;
    let reported = node.reported();
    assert!(reported.contains("Started new/app.0"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn a_removed_directory_brings_the_period_back_until_it_exists_again() {
    let node = watched().await;
    node.at(10.0).await;
    let lists = node.sim.calls_made(Rpc::ListContainers);
    node.sim.unwatch_births();
    node.at(20.5).await;
    let status = node.status().await;
    assert_eq!(period(&status), 1.0);
    let births = status.kernel.births;
    assert!(!births.watched);
    assert!(births.why.unwrap().contains("removed"));
    let more = node.sim.calls_made(Rpc::ListContainers) - lists;
    assert!((9..=11).contains(&more), "{more}");
    node.sim.watch_births();
    node.at(30.0).await;
    let status = node.status().await;
    assert_eq!(period(&status), 30.0);
    assert_eq!(status.kernel.births.why, None);
}

#[tokio::test(start_paused = true)]
async fn without_births_everything_works() {
    let node = Node::watch_with_kernel(Config::default(), ten).await;
    node.at(60.0).await;
    let status = node.status().await;
    assert_eq!(period(&status), 1.0);
    assert!(!status.kernel.births.watched);
    restart(&node.sim, 0..5);
    node.at(200.0).await;
    assert_eq!(period(&node.status().await), 30.0);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_be_watched_brings_the_period_back() {
    let node = watched().await;
    node.at(10.0).await;
    assert_eq!(period(&node.status().await), 30.0);
    node.sim.hide_pids();
    node.sim.run("new", &["app"]);
    let lists = node.sim.calls_made(Rpc::ListContainers);
    node.at(20.5).await;
    assert_eq!(period(&node.status().await), 1.0);
    let more = node.sim.calls_made(Rpc::ListContainers) - lists;
    assert!((9..=11).contains(&more), "{more}");
    node.sim.world().remove("new");
    node.at(30.0).await;
    assert_eq!(period(&node.status().await), 30.0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_or_is_stuck_is_inspected_again_each_second() {
    let refused = || Fault::Fail(CallError::Refused("Unknown: broken".into()));
    for fault in [refused(), Fault::Hang] {
        let node = watched().await;
        node.at(10.0).await;
        node.sim
            .fault(Rpc::ContainerStatus, Some("p7/app.1"), fault);
        restart(&node.sim, 7..8);
        node.at(20.0).await;
        assert_eq!(period(&node.status().await), 1.0);
        node.sim.lift_all();
        node.at(30.0).await;
        let status = node.status().await;
        assert_eq!(period(&status), 30.0);
        assert_eq!(status.health.state, HealthState::Healthy);
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_of_another_client_is_requested_a_few_times_and_no_more() {
    let node = watched().await;
    node.at(10.0).await;
    let calls =
        |sim: &Sim| sim.calls_made(Rpc::ContainerStatus) + sim.calls_made(Rpc::PodSandboxStatus);
    let before = calls(&node.sim);
    // The statuses of the new pod are not found for a long time.
    for call in STATUSES {
        for id in ["new.0", "new/app.0"] {
            let gone = CallError::NotFound("no such thing".into());
            node.sim.fault(call, Some(id), Fault::Fail(gone));
        }
    }
    node.sim.set_stream_fault(StreamFault::Silent);
    node.sim.run("new", &["app"]);
    node.at(16.0).await;
    let after_six = calls(&node.sim) - before;
    assert!(after_six < 60, "{after_six}");
    node.at(30.0).await;
    assert_eq!(calls(&node.sim) - before, after_six);
}

#[tokio::test(start_paused = true)]
async fn many_births_at_once_are_left_to_a_list() {
    let node = watched().await;
    node.at(10.0).await;
    node.reported();
    node.sim.set_stream_fault(StreamFault::Silent);
    for pod in 0..400 {
        node.sim.run(&format!("new{pod}"), &["app"]);
    }
    node.pass(2.0).await;
    let reported = node.reported();
    for pod in 0..400 {
        let started = format!("Started new{pod}/app.0");
        assert_eq!(reported.matches(&started).count(), 1, "{started}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_birth_with_a_stuck_status_delays_no_other_birth() {
    let node = watched().await;
    node.at(10.0).await;
    node.reported();
    node.sim.set_stream_fault(StreamFault::Silent);
    for pod in 0..20 {
        let id = format!("p0/hung{pod}.0");
        node.sim.fault(Rpc::ContainerStatus, Some(&id), Fault::Hang);
        let now = node.sim.now();
        node.sim
            .world()
            .pod("p0")
            .create(&format!("hung{pod}"), now)
            .start(now);
    }
    node.pass(5.5).await;
    node.reported();
    node.sim.run("new", &["app"]);
    node.pass(0.1).await;
    let reported = node.reported();
    assert!(reported.contains("Started new/app.0"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn an_exit_is_reported_at_once_although_the_runtime_reports_no_pids() {
    let node = Node::watch_with_kernel(generic(), |sim| {
        ten(sim);
        sim.hide_pids();
        sim.watch_births();
    })
    .await;
    node.at(5.1).await;
    node.sim.exit("p3", "app", 1);
    node.at(10.0).await;
    let reported = node.deaths("p3/app.0");
    assert!(reported.len() == 1 && reported[0] < 5.3, "{reported:?}");
}
