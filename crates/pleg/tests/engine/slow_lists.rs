//! Lists that are always slow are reported once, and delay no report of an exit.

use crate::bounds::statuses_sent;
use crate::node::{Node, is_healthy, many, seconds};
use pleg::out::health::{HealthState, Reason};
use pleg::runtime::Rpc;
use sim::Fault;

/// Asserts that a node on which these lists always take this many seconds reports this once.
async fn assert_slow_lists_are_reported_once(slow: &[(Rpc, f64)]) {
    let node = Node::watch(|sim| many(sim, 50, &["one", "two"])).await;
    node.at(4.5).await;
    for (list, takes) in slow {
        let fault = Fault::Slow(seconds(*takes));
        node.sim.fault(*list, None, fault);
    }
    let (slowest, takes) = slow[0];
    node.pass(30.0).await;
    let settled = node.elapsed();
    let (mut minute, mut sent) = (settled, statuses_sent(&node.sim));
    let mut begun = Vec::new();
    let (mut death, mut victim) = (None, 0);
    while node.elapsed() < settled + 600.0 {
        node.pass(0.25).await;
        let at = node.elapsed();
        let status = node.status().await;
        let is = (status.health.state, status.health.reason);
        let expected = (HealthState::Degraded, Reason::ListSlow);
        assert_eq!(is, expected, "{at:.2} {}", status.health.message);

        if at - minute >= 60.0 {
            let made = statuses_sent(&node.sim) - sent;
            assert!(made < 1600, "{made} status calls in a minute");
            (minute, sent) = (at, sent + made);
        }

        let list = node.sim.outstanding().into_iter();
        let list = list.filter(|call| call.rpc == slowest);
        for call in list {
            if begun.last() != Some(&call.since) {
                begun.push(call.since);
            }
        }

        // Exits at every phase of the relist period.
        match death.take() {
            None if ((at * 4.0) as u64).is_multiple_of(69) => {
                node.sim.exit(&format!("p{victim}"), "two", 3);
                death = Some(at);
            }
            Some(died) => {
                let reported = node.deaths(&format!("p{victim}/two.0"));
                if reported.is_empty() {
                    assert!(at - died <= 6.0, "p{victim} died {} s ago", at - died);
                    death = Some(died);
                } else {
                    victim += 1;
                }
            }
            None => {}
        }
    }
    assert!(victim > 20);
    assert!(begun.len() > 30, "lists are still requested");
    for pair in begun.windows(2) {
        let pause = (pair[1] - pair[0]).as_secs_f64() - takes;
        assert!(pause >= 0.99, "a pause of {pause} s");
    }
    let changes = node.health_reports(settled).len();
    assert!(changes <= 10, "an unchanged state is not reported again");

    node.sim.lift_all();
    let well = node.wait(12.0, is_healthy).await;
    well.unwrap_or_else(|status| panic!("{:?}", status.health));
}

#[tokio::test(start_paused = true)]
async fn a_list_of_containers_that_is_always_slow_is_reported_once() {
    assert_slow_lists_are_reported_once(&[(Rpc::ListContainers, 9.0)]).await;
}

#[tokio::test(start_paused = true)]
async fn both_lists_that_are_always_slow_are_reported_once() {
    assert_slow_lists_are_reported_once(&[(Rpc::ListContainers, 9.0), (Rpc::ListPodSandbox, 9.0)])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_and_a_slower_one_are_reported_once() {
    for other in [3.0, 5.0, 6.5] {
        let lists = [(Rpc::ListContainers, 7.0), (Rpc::ListPodSandbox, other)];
        assert_slow_lists_are_reported_once(&lists).await;
        let lists = [(Rpc::ListPodSandbox, 7.0), (Rpc::ListContainers, other)];
        assert_slow_lists_are_reported_once(&lists).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_stuck_once_is_late_and_one_that_is_slow_each_time_is_slow() {
    let node = Node::watch(|sim| many(sim, 3, &["app"])).await;
    node.at(8.4).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(40.4).await;
    node.sim.lift_all();
    let mut messages = std::collections::BTreeSet::new();
    for _ in 0..200 {
        node.pass(0.1).await;
        messages.insert(node.status().await.health.message.to_string());
    }
    let takes = |message: &String| message.contains("lists take");
    assert!(!messages.iter().any(takes), "{messages:#?}");
    let slow = Fault::Slow(seconds(9.0));
    node.sim.fault(Rpc::ListContainers, None, slow);
    node.pass(60.0).await;
    let message = node.status().await.health.message.to_string();
    assert!(takes(&message), "{message}");
}
