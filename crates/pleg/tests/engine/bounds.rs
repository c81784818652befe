//! The calls to a runtime, and the data that is kept, are bounded, whatever the runtime does.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::node::{Node, STATUSES, generic, is_healthy, many, named, seconds};
use crate::subscribers::read_all;
use pleg::Config;
use pleg::out::health::HealthState;
use pleg::out::record::Record;
use pleg::runtime::{CallError, Rpc};
use sim::{Fault, Flood, Sim};
use tokio::time::{Instant, timeout};

/// How many calls may be outstanding while nothing is known to be stuck.
const WINDOW: usize = 64;

/// How many calls may be outstanding, whichever are stuck.
const MAX_OUTSTANDING: usize = 256;

pub fn statuses_sent(sim: &Sim) -> usize {
    STATUSES.iter().map(|call| sim.calls_made(*call)).sum()
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_answers_no_status_receives_64_calls_from_the_start() {
    let node = Node::watch_with_kernel(Config::default(), |sim| {
        many(sim, 2000, &["app"]);
        for call in STATUSES {
            sim.fault(call, None, Fault::Hang);
        }
    })
    .await;
    node.at(120.0).await;
    let most = node.sim.max_outstanding();
    assert!(most <= WINDOW, "{most} calls at once");
    node.sim.lift_all();
    node.wait(60.0, is_healthy).await.expect("all are seen");
    assert!(node.synced().is_some());
    assert!(node.sim.max_outstanding() <= WINDOW);
}

#[tokio::test(start_paused = true)]
async fn two_thousand_exits_while_no_status_is_answered_cause_64_calls_and_are_reported_afterwards()
{
    let node = Node::watch_with_kernel(generic(), |sim| many(sim, 2000, &["app"])).await;
    node.at(30.4).await;
    for call in STATUSES {
        node.sim.fault(call, None, Fault::Hang);
    }
    let now = node.sim.now();
    for number in 0..2000 {
        node.sim.kill(&format!("p{number}"), "app");
    }
    for pod in node.sim.world().pods.values_mut() {
        pod.containers[0].exit(137, now);
    }
    node.at(90.0).await;
    let most = node.sim.max_outstanding();
    assert!(most <= WINDOW, "{most} calls at once");
    assert!(!is_healthy(&node.status().await));
    node.sim.lift_all();
    node.wait(60.0, is_healthy).await.expect("all are seen");
    for number in 0..2000 {
        let id = format!("p{number}/app.0");
        assert_eq!(node.deaths(&id).len(), 1, "{id}");
    }
}

/// 200 pods have changed, and the runtime is restarted while the first of their statuses are requested.
/// Returns the node a minute later.
async fn restarted_while_statuses_are(held_up: Fault, config: Config) -> Node {
    let node = Node::watch_with(config, |sim| many(sim, 200, &["app"])).await;
    node.at(3.5).await;
    for call in STATUSES {
        node.sim.fault(call, None, held_up.clone());
    }
    for number in 0..200 {
        node.sim.exit(&format!("p{number}"), "app", 1);
    }
    let statuses = |sim: &Sim| sim.outstanding().iter().any(|call| call.id.is_some());
    while !statuses(&node.sim) {
        node.pass(0.05).await;
    }
    node.pass(0.2).await;
    node.sim.restart(seconds(0.3));
    node.pass(60.0).await;
    node
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_sent_again_after_a_restart_stay_within_the_window() {
    for config in [generic(), Config::default()] {
        let node = restarted_while_statuses_are(Fault::Hang, config).await;
        let most = node.sim.max_outstanding();
        assert!(most <= WINDOW, "{most} calls at once");
        node.sim.lift_all();
        node.wait(60.0, is_healthy).await.expect("all are seen");
        for number in 0..200 {
            let id = format!("p{number}/app.0");
            assert_eq!(node.deaths(&id).len(), 1, "{id}");
        }
        assert!(node.sim.max_outstanding() <= WINDOW);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_sent_again_do_not_wait_for_all_others() {
    for config in [generic(), Config::default()] {
        let slow = Fault::Slow(seconds(2.0));
        let node = restarted_while_statuses_are(slow, config).await;
        for number in 0..200 {
            let id = format!("p{number}/app.0");
            assert_eq!(node.deaths(&id).len(), 1, "{id}");
        }
        let most = node.sim.max_outstanding();
        assert!(most <= WINDOW, "{most} calls at once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_stuck_pods_delay_none_of_two_hundred_others() {
    let node = Node::watch(|sim| many(sim, 300, &["app"])).await;
    node.at(1.5).await;
    let mut stuck: Vec<String> = (0..100).map(|number| format!("p{number}/app.0")).collect();
    for (number, id) in stuck.iter().enumerate() {
        node.sim.fault(Rpc::ContainerStatus, Some(id), Fault::Hang);
        node.sim.exit(&format!("p{number}"), "app", 1);
    }
    node.pass(0.6).await;
    node.sim.exit("p299", "app", 1);
    node.pass(6.0).await;
    let reported = node.deaths("p299/app.0").len();
    assert_eq!(reported, 1, "also in the first moment");
    node.at(15.0).await;
    for number in 100..130 {
        node.sim.exit(&format!("p{number}"), "app", 1);
        let died = node.elapsed();
        // Each exit is at a different point in the relist period.
        node.pass(2.37).await;
        let id = format!("p{number}/app.0");
        let reported = node.deaths(&id);
        let period = 1.0;
        let in_time = |reported: &f64| reported - died <= 2.0 * period + 0.01;
        assert!(
            reported.first().is_some_and(in_time),
            "{id} at {died}: {reported:?}"
        );
    }
    let most = node.sim.max_outstanding();
    assert!(most <= MAX_OUTSTANDING, "{most} calls at once");
    let status = node.status().await;
    assert_eq!(status.health.state, HealthState::Degraded);
    stuck.sort();
    for id in named(&status.stuck) {
        assert!(stuck.binary_search(&id.to_string()).is_ok(), "{id}");
    }
    node.sim.lift_all();
    node.wait(5.0, is_healthy).await.expect("all are seen");
    for id in stuck {
        assert_eq!(node.deaths(&id).len(), 1, "{id}");
    }
}

fn bytes(records: &[Record]) -> usize {
    let bytes = |record| serde_json::to_vec(record).map_or(0, |json| json.len());
    records.iter().map(bytes).sum()
}

fn health_records(records: &[Record]) -> usize {
    let health = |record: &&Record| matches!(record, Record::Health(_));
    records.iter().filter(health).count()
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_has_at_most_a_thousand_records_one_gap_and_the_newest_health() {
    const PODS: usize = 20;
    let node = Node::watch(|sim| many(sim, PODS, &["app"])).await;
    node.at(0.5).await;
    let mut sleepers = Vec::new();
    for _ in 0..3 {
        sleepers.push(node.pleg.subscribe().await.unwrap());
    }
    let mut round = 0;
    while node.event_count() < 100_000 {
        round += 1;
        if round % 7 == 0 {
            let gone = Fault::Fail(CallError::connection_refused());
            node.sim.fault(Rpc::ListContainers, None, gone);
            node.pass(1.5).await;
            node.sim.lift_all();
            node.pass(1.5).await;
        }
        let now = node.sim.now();
        for pod in node.sim.world().pods.values_mut() {
            pod.restart("app", 1, now);
            let dead = pod.containers.len().saturating_sub(2);
            pod.containers.drain(..dead);
        }
        node.pass(1.0).await;
    }
    let health = node.health_reports(0.0).len();
    assert!(health > 200, "a subscriber that reads receives each change");
    for mut sleeper in sleepers {
        let records = read_all(&mut sleeper).await;
        assert!(
            records.len() <= 1100 + 3 * PODS,
            "{} records",
            records.len()
        );
        let gaps = records.iter().filter(|it| matches!(it, Record::Gap { .. }));
        assert_eq!(gaps.count(), 1);
        // One record may have been queued when the subscription began.
        let health = health_records(&records);
        assert!(health <= 2, "{health} records of health");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_does_not_keep_each_list_of_stuck_calls() {
    const PODS: usize = 200;
    let node = Node::watch(|sim| many(sim, PODS, &["app"])).await;
    node.at(0.5).await;
    let mut sleeper = node.pleg.subscribe().await.unwrap();
    read_all(&mut sleeper).await;
    // One call after the other becomes stuck: health changes, and its report is longer each time.
    for number in 0..PODS {
        let name = format!("p{number}");
        let id = format!("{name}/app.0");
        node.sim.fault(Rpc::ContainerStatus, Some(&id), Fault::Hang);
        node.sim.exit(&name, "app", 1);
        node.pass(0.3).await;
    }
    node.pass(10.0).await;
    let records = read_all(&mut sleeper).await;
    let health = health_records(&records);
    assert!(health <= 1, "{health} records of health");
    let bytes = bytes(&records);
    assert!(bytes <= 1 << 17, "{bytes} bytes");
}

/// Twenty thousand events a second for ten seconds.
async fn flooded(flood: Flood) {
    const PODS: usize = 20;
    let node = Node::watch_stream(|sim| {
        many(sim, PODS, &["app"]);
        for call in STATUSES {
            sim.fault(call, None, Fault::Slow(seconds(0.005)));
        }
    })
    .await;
    node.at(2.3).await;
    let sent = statuses_sent(&node.sim);
    let mut lists = node.sim.calls_made(Rpc::ListContainers);
    for second in 0..10 {
        if second == 4 {
            node.sim.exit("p7", "app", 9);
        }
        for _ in 0..20 {
            node.sim.flood(flood, 1000);
            node.pass(0.05).await;
        }
        let begun = Instant::now();
        let status = timeout(seconds(0.2), node.pleg.status()).await;
        assert!(status.is_ok(), "no answer after {second} s");
        assert!(begun.elapsed() <= seconds(0.2));
        let all = node.pleg.cache().all().len();
        assert_eq!(all, PODS, "pods after {second} s");
        let now = node.sim.calls_made(Rpc::ListContainers);
        assert!(now > lists, "no list in second {second}");
        lists = now;
    }
    assert_eq!(node.deaths("p7/app.0").len(), 1);
    let sent = statuses_sent(&node.sim) - sent;
    assert!(sent <= 2500, "{sent} status calls in ten seconds");
    node.pass(5.0).await;
    assert_eq!(node.pleg.cache().all().len(), PODS);
    assert_eq!(node.status().await.pods, PODS);
    let sent = statuses_sent(&node.sim);
    node.pass(5.0).await;
    let sent = statuses_sent(&node.sim) - sent;
    assert!(sent <= 10, "{sent} status calls after the flood");
    assert!(node.sim.max_outstanding() <= WINDOW);
    assert!(is_healthy(&node.status().await));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_ids_causes_no_more_than_a_relist() {
    flooded(Flood::UnknownIds).await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_pods_creates_no_pods() {
    flooded(Flood::UnknownPods).await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_events_at_the_start_delays_the_first_pass_by_at_most_a_second() {
    let synced = async |flood: Option<Flood>| {
        let node = Node::watch_stream(|sim| {
            many(sim, 60, &["app"]);
            for call in STATUSES {
                sim.fault(call, None, Fault::Slow(seconds(0.02)));
            }
        })
        .await;
        for _ in 0..400 {
            if let Some(flood) = flood {
                node.sim.flood(flood, 100);
            }
            node.pass(0.05).await;
        }
        node.synced().expect("it is synced after 20 s")
    };
    let quiet = synced(None).await;
    for flood in [Flood::Known, Flood::UnknownIds, Flood::UnknownPods] {
        let flooded = synced(Some(flood)).await;
        assert!(
            flooded <= quiet + 1.0,
            "{flood:?}: {flooded} s, else {quiet} s"
        );
    }
}

/// The CPU time that this thread has used.
fn used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel");
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.expect("a number"))
}

/// Four times as many pods take four times as long, and during that time four times as many lists arrive,
/// each four times as long. When all pods were judged after each answer, the cost was ninety times as high.
#[tokio::test(start_paused = true)]
async fn a_slow_first_relist_of_four_times_as_many_pods_costs_about_sixteen_times_as_much() {
    let mut took = Vec::new();
    for pods in [1000, 4000] {
        let mut before = Duration::ZERO;
        let node = Node::watch(|sim| {
            many(sim, pods, &["a", "b", "c", "d"]);
            // Several relists begin before the first one ends.
            for call in STATUSES {
                sim.fault(call, None, Fault::Slow(seconds(0.05)));
            }
            before = used();
        })
        .await;
        node.wait(60.0, is_healthy).await.expect("all are seen");
        took.push(used() - before);
    }
    assert!(took[1] < took[0] * 40, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_waits_for_room_does_not_spin() {
    let mut took = BTreeMap::new();
    for kills in [0, 20] {
        let node = Node::watch_with_kernel(generic(), |sim| many(sim, 100, &["app"])).await;
        node.at(9.3).await;
        node.sim.stop();
        for n in 0..kills {
            node.sim.kill(&format!("p{n}"), "app");
        }
        node.pass(10.0).await;
        let began = std::time::Instant::now();
        node.pass(600.0).await;
        took.insert(kills, began.elapsed());
    }
    assert!(took[&20] < took[&0] + Duration::from_secs(2), "{took:?}");
}
