//! `pleg doctor` on an overloaded node without a fault: a slow runtime, and many plugins at once.

use std::time::{Duration, Instant};

use e2e::doctor::{assert_healthy, doctor, doctor_about, only};
use e2e::newest;
use pleg_text::GoDuration;
use serde_json::Value;
use testbed_driver::{Driver, Network, PodSpec};

/// The time that follows `after` in a sentence, in seconds.
#[track_caller]
fn seconds(sentence: &str, after: &str) -> f64 {
    let (_, rest) = sentence.split_once(after).expect(sentence);
    let end = |char: char| !char.is_ascii_alphanumeric() && char != '.';
    let word = rest.split(end).next().unwrap_or_default();
    let GoDuration(time) = word.parse().expect(word);
    time.as_secs_f64()
}

#[track_caller]
fn line<'a>(finding: &'a Value, part: &str) -> &'a str {
    let lines = finding["evidence"].as_array().unwrap().iter();
    let mut lines = lines.filter_map(Value::as_str);
    let found = lines.find(|line| line.contains(part));
    found.unwrap_or_else(|| panic!("{part:?} is not in {finding:#}"))
}

#[tokio::test]
async fn the_finding_of_a_slow_runtime_shows_what_a_relist_costs_and_how_many_pods_there_are() {
    const CAUSE: &str = "too-many-containers";
    const PODS: usize = 100;
    const DEAD: usize = 20;
    let testbed = newest("doctor-slow").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let specs: Vec<_> = (0..PODS)
        .map(|number| PodSpec::new(format!("pod-{number}")))
        .map(|spec| spec.container("app").container("sidecar"))
        .collect();
    let pods = driver.run_pods(&specs, |_| {}).await.unwrap();
    driver.run_dead(&pods[0], DEAD, |_| {}).await.unwrap();
    // A fast runtime can serve this many pods.
    assert_healthy(&doctor_about(&testbed, CAUSE));

    // containerd runs for a third of a millisecond in each third of a second, so every call takes
    // one of these periods, sometimes two. Inspecting all pods takes the statuses of 100 sandboxes
    // and 220 containers, which is 112 s, and 100 times both lists, for each of which there are one
    // or two samples.
    testbed.verb(&["slow", "99.9", "350"]).await.unwrap();
    let report = doctor_about(&testbed, CAUSE);
    testbed.verb(&["slow", "off"]).await.unwrap();
    let finding = only(&report, CAUSE);
    let probes = report["probes"].as_array().unwrap();
    // Statistics of this many containers take longer than the doctor waits for them.
    let is_statistics = |call: &str| call.ends_with("Stats") || call.ends_with("Metrics");
    let mut calls = probes
        .iter()
        .filter(|probe| !is_statistics(probe["call"].as_str().unwrap()));
    assert!(calls.all(|probe| probe["outcome"] == "ok"), "{report:#}");

    let sentence = finding["sentence"].as_str().unwrap();
    assert!(sentence.contains("all 100 pods"), "{sentence}");
    let all = seconds(sentence, "about ");
    let lists = seconds(
        line(&finding, "when nothing has changed"),
        "one relist needs ",
    );
    let pod = seconds(line(&finding, "for each pod that has changed"), "and ");
    let reckoned = lists + pod * PODS as f64;
    assert!(
        all >= 60.0 && (all - reckoned).abs() < 0.1,
        "{all} {reckoned}"
    );
    assert_eq!(
        finding["verdict"],
        if all >= 180.0 { "problem" } else { "suspect" }
    );
    match sentence.split_once("more than ") {
        Some((_, carries)) => {
            let carries: f64 = carries.split(' ').next().unwrap().parse().unwrap();
            assert!((carries - (180.0 - lists) / pod).abs() < 2.0, "{finding:#}");
        }
        None => {
            assert!(sentence.contains("all of them can change"), "{sentence}");
            assert!(all < 180.1, "{sentence}");
        }
    }
    // While statuses are requested, lists are requested at most once a second.
    for list in ["list_podsandbox: ", "list_containers: "] {
        let calls = line(&finding, list);
        let count = calls[list.len()..].split(' ').next().unwrap();
        let count: usize = count.parse().expect(calls);
        assert!((1..=15).contains(&count), "{calls}");
    }
    for many in ["podsandbox_status", "container_status"] {
        let quantiles = line(&finding, &format!("{many}: "));
        let [p50, p90, p99] = ["p50 ", "p90 ", "p99 "].map(|of| seconds(quantiles, of));
        assert!(0.0 < p50 && p50 <= p90 && p90 <= p99, "{quantiles}");
    }
    line(&finding, "kubelet_runtime_operations_duration_seconds");
    line(&finding, "220 containers (20 exited)");
    // A call waits for the next period, and by chance for some more, but for at least one.
    let status = seconds(
        line(&finding, "for each pod that has changed"),
        "ContainerStatus ",
    );
    let slowest = seconds(line(&finding, "container_status: "), "max ");
    assert!(0.17 < status && status <= slowest, "{status} {slowest}");
    assert_healthy(&doctor_about(&testbed, CAUSE));
}

#[tokio::test]
async fn plugins_that_pile_up_are_counted_and_those_that_return_are_not() {
    let testbed = newest("doctor-cni-many").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let driver = driver.with_deadline(Duration::from_secs(60));
    let start = |name: String| {
        let driver = driver.clone();
        let spec = PodSpec {
            network: Network::Pod,
            ..PodSpec::new(name)
        };
        tokio::spawn(async move { driver.run_pod(&spec).await })
    };
    // A node that starts eight pods at once.
    let starts: Vec<_> = (0..8)
        .map(|number| start(format!("well-{number}")))
        .collect();
    let endpoint = testbed.endpoint();
    let looks = tokio::task::spawn_blocking(move || {
        for _ in 0..2 {
            assert_healthy(&e2e::doctor::doctor_at(&endpoint));
        }
    });
    for start in starts {
        start.await.unwrap().unwrap();
    }
    looks.await.unwrap();

    testbed.verb(&["cni-hang"]).await.unwrap();
    let begun = Instant::now();
    let starts: Vec<_> = (0..21)
        .map(|number| start(format!("held-{number}")))
        .collect();
    // A plugin is reported once it has run for ten seconds; a busy machine starts the last of them
    // late.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let mut finding = only(&doctor(&testbed), "cni-plugin-hang");
    while finding["verdict"] == "suspect" && begun.elapsed() < Duration::from_secs(40) {
        tokio::time::sleep(Duration::from_secs(2)).await;
        finding = only(&doctor(&testbed), "cni-plugin-hang");
    }
    assert_eq!(finding["verdict"], "problem", "{finding:#}");
    assert_eq!(finding["culprit"]["process"], "cni-gate");
    let sentence = finding["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("21 CNI plugins have not returned"),
        "{sentence}"
    );
    let age = seconds(sentence, "running for ");
    assert!((10.0..60.0).contains(&age), "{sentence}");
    let (culprit, _) = sentence.split_once(", has been").unwrap();
    let (_, culprit) = culprit.split_once("the oldest, ").unwrap();
    line(&finding, &format!("{culprit} sleeps"));
    testbed.verb(&["cni-free"]).await.unwrap();
    for start in starts {
        // The creation may fail, because containerd may have given up.
        let _ = start.await.unwrap();
    }
    assert_healthy(&doctor(&testbed));
}
