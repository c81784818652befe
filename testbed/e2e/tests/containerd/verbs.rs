//! Faults during which lists and statuses are answered. They affect the programs with which containerd
//! starts and stops pods, its statistics, its shims while it starts, or its disk.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use cri::v1::{ListContainerStatsRequest, ListContainerStatsResponse};
use cri::{ApiVersion, Client, Endpoint, Rpc};
use e2e::doctor::{assert_healthy, doctor, doctor_about, only, run_pods};
use e2e::{Agent, Running, WAIT_LIMIT, newest};
use serde_json::Value;
use testbed_driver::{Driver, Network, PodSpec, Testbed};

/// After this time a runc counts as hung; the limit is half a minute.
const RUNC_IS_HUNG: Duration = Duration::from_secs(31);

/// After this time a plugin, or a daemon that does not listen, is reported; the limit is ten seconds.
const REPORTED_AFTER: Duration = Duration::from_secs(12);

fn findings(report: &Value) -> Vec<&Value> {
    let found = report["findings"].as_array();
    found.expect("they are a list").iter().collect()
}

fn sentence(finding: &Value) -> &str {
    finding["sentence"].as_str().expect("a sentence")
}

/// Continues the culprit's process, as the finding advises.
#[track_caller]
fn follow_advice(finding: &Value) {
    signal("-CONT", finding);
}

/// Sends this signal to the culprit's process, and to the others that the finding's advice names.
#[track_caller]
fn signal(signal: &str, finding: &Value) {
    let culprit = finding["culprit"]["pid"].as_u64().expect("a process");
    let advice = finding["advice"][0].as_str().unwrap_or_default();
    let command = format!("`kill {signal} ");
    let (_, pids) = advice.split_once(&command).expect(advice);
    let (pids, _) = pids.split_once('`').expect(advice);
    let pids: Vec<&str> = pids.split(' ').collect();
    assert!(pids.contains(&&*culprit.to_string()), "{advice}");
    let sent = Command::new("kill").arg(signal).args(pids).status();
    assert!(sent.unwrap().success());
}

/// Waits until the doctor finds nothing any more.
async fn until_healthy(testbed: &Testbed) {
    until_healthy_with(testbed, |_| {}).await;
}

/// Waits until the doctor finds nothing any more, and repairs each finding until then.
async fn until_healthy_with(testbed: &Testbed, mend: impl Fn(&Value)) {
    let begun = Instant::now();
    let mut report = doctor(testbed);
    while report["verdict"] != "ok" && begun.elapsed() < WAIT_LIMIT {
        findings(&report).into_iter().for_each(&mend);
        tokio::time::sleep(Duration::from_millis(500)).await;
        report = doctor(testbed);
    }
    assert_healthy(&doctor(testbed));
}

#[tokio::test]
async fn a_stopped_runc_of_each_verb_is_named_and_is_to_be_continued() {
    let testbed = newest("verbs-runc").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let driver = driver.with_deadline(Duration::from_secs(120));
    let pods = run_pods(&driver, 3).await;
    let stopped = pods[1].id("app").unwrap().to_owned();
    let mut calls = Vec::new();
    // A container is started by `runc create` and then `runc start`.
    for (verb, pod) in [("start", &pods[2]), ("create", &pods[0])] {
        let id = driver.create_container(pod, &"new".into()).await.unwrap();
        testbed.verb(&["runc-stop", verb]).await.unwrap();
        let driver = driver.clone();
        calls.push(tokio::spawn(
            async move { driver.start_container(&id).await },
        ));
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    testbed.verb(&["runc-stop", "kill"]).await.unwrap();
    let stop = driver.clone();
    calls.push(tokio::spawn(
        async move { stop.stop_container(&stopped).await },
    ));
    tokio::time::sleep(RUNC_IS_HUNG).await;

    let report = doctor(&testbed);
    let found = findings(&report);
    for (verb, pod) in [("create", "pod-0"), ("kill", "pod-1"), ("start", "pod-2")] {
        let named = format!("`runc {verb}` of container ");
        let mut its = found.iter().filter(|it| sentence(it).starts_with(&named));
        let finding = its.next().unwrap_or_else(|| panic!("{verb}: {report:#}"));
        assert_eq!(finding["cause"], "runc-hung");
        assert_eq!(finding["confidence"], "certain", "{finding:#}");
        assert_eq!(finding["culprit"]["pod"]["name"], pod, "{finding:#}");
        assert!(
            sentence(finding).ends_with("is stopped"),
            "{}",
            sentence(finding)
        );
        follow_advice(finding);
    }
    // The statistics of all containers wait for the `runc start`.
    let causes: Vec<_> = found
        .iter()
        .map(|it| it["cause"].as_str().unwrap())
        .collect();
    let runcs = causes.iter().filter(|cause| **cause == "runc-hung");
    assert_eq!(runcs.count(), 3, "{causes:?}");
    let is_expected = |cause: &&str| ["runc-hung", "statistics-hang"].contains(cause);
    assert!(causes.iter().all(is_expected), "{causes:?}");
    // The `runc start` that follows `runc create` is stopped as well.
    testbed.verb(&["runc-free"]).await.unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_healthy(&doctor(&testbed));
}

#[tokio::test]
async fn a_cni_plugin_that_hangs_when_a_pod_stops_is_named_while_other_pods_start() {
    let testbed = newest("verbs-cni").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let driver = driver.with_deadline(Duration::from_secs(60));
    let spec = |name: &str| PodSpec {
        network: Network::Pod,
        ..PodSpec::new(name)
    };
    let leaves = driver.run_pod(&spec("leaves")).await.unwrap();
    testbed.verb(&["cni-hang", "del"]).await.unwrap();
    let stopping = tokio::spawn({
        let driver = driver.clone();
        async move { driver.stop_pod(&leaves).await }
    });
    driver.run_pod(&spec("comes")).await.unwrap();
    tokio::time::sleep(REPORTED_AFTER).await;
    let finding = only(&doctor(&testbed), "cni-plugin-hang");
    assert_eq!(finding["verdict"], "suspect", "{finding:#}");
    assert_eq!(finding["culprit"]["process"], "cni-gate");
    testbed.verb(&["cni-free"]).await.unwrap();
    stopping.await.unwrap().unwrap();
    assert_healthy(&doctor(&testbed));
}

/// containerd requests the tasks of each shim before it listens. The newest version gives up on a shim
/// after ten seconds.
#[tokio::test]
async fn a_containerd_that_waits_for_leftover_shims_before_it_listens_is_named_with_them() {
    let testbed = newest("verbs-leftover").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = run_pods(&driver, 4).await;
    for pod in &pods[..3] {
        testbed.verb(&["shim-stop", &pod.sandbox_id]).await.unwrap();
    }
    testbed.verb(&["crash"]).await.unwrap();
    testbed.verb(&["start", "now"]).await.unwrap();
    // Diagnose at once, and again after ten seconds.
    let early = doctor(&testbed);
    tokio::time::sleep(REPORTED_AFTER).await;
    let report = doctor(&testbed);
    let found = findings(&report);
    for report in [&early, &report] {
        assert_eq!(
            report["findings"][0]["cause"], "runtime-unresponsive",
            "{report:#}"
        );
    }
    let early = sentence(&early["findings"][0]);
    assert!(
        early.contains("does not listen yet; 3 shims are stopped"),
        "{early}"
    );
    let pid = testbed.verb(&["pid"]).await.unwrap();
    let says = sentence(found[0]);
    assert!(
        says.starts_with(&format!("containerd ({pid}) was started ")),
        "{says}"
    );
    // containerd gives up on one shim after the other.
    assert!(
        says.contains("does not listen yet; ") && says.contains(" stopped"),
        "{says}"
    );
    found.into_iter().for_each(follow_advice);
    // containerd may have given up on a shim before it was continued. It then lists the pod as ended, although
    // its processes still run.
    until_healthy_with(&testbed, |found| {
        if found["cause"] == "container-not-dying" {
            signal("-KILL", found);
        }
    })
    .await;
    let there = driver.pods().await.unwrap();
    assert!(there.iter().any(|pod| pod.name == "pod-3" && pod.ready));
}

/// The shim of the pod serves no task yet, and the pod is in no list.
#[tokio::test]
async fn a_runc_that_does_not_create_the_sandbox_of_a_new_pod_is_named_with_the_pod() {
    let testbed = newest("verbs-create").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let driver = driver.with_deadline(Duration::from_secs(120));
    run_pods(&driver, 1).await;
    testbed.verb(&["runc-stuck", "create"]).await.unwrap();
    let starting = tokio::spawn({
        let driver = driver.clone();
        async move { driver.run_pod(&PodSpec::new("born").container("app")).await }
    });
    tokio::time::sleep(RUNC_IS_HUNG + Duration::from_secs(2)).await;
    let finding = only(&doctor_about(&testbed, "runc-hung"), "runc-hung");
    let says = sentence(&finding);
    assert!(says.starts_with("`runc create` of container "), "{says}");
    assert_eq!(finding["culprit"]["pod"]["name"], "born", "{finding:#}");
    testbed.verb(&["runc-free"]).await.unwrap();
    starting.await.unwrap().unwrap();
    assert_healthy(&doctor(&testbed));
}

/// containerd ends each `runc delete` after ten seconds, and starts another one after a growing pause.
#[tokio::test]
async fn a_deletion_that_does_not_return_is_found_between_two_runcs_as_well() {
    let testbed = newest("verbs-delete").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = run_pods(&driver, 2).await;
    let bundles = tempfile::tempdir().unwrap();
    let lines = format!("diagnosis:\n  directory: {}\n", bundles.path().display());
    let agent = Agent::configured(&testbed.endpoint(), &lines);
    testbed.verb(&["runc-stuck", "delete"]).await.unwrap();
    let id = pods[1].id("app").unwrap();
    let begun = Instant::now();
    driver.kill_container(id).await.unwrap();
    let (mut with_runc, mut without) = (0, 0);
    while with_runc == 0 || without == 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(90),
            "{with_runc} {without}"
        );
        let cause = "shim-unresponsive";
        let finding = only(&doctor_about(&testbed, cause), cause);
        assert_eq!(finding["culprit"]["id"], id, "{finding:#}");
        let advice = finding["advice"].to_string();
        assert!(
            !advice.contains("-KILL") && !advice.contains("systemctl"),
            "{advice}"
        );
        assert!(
            advice.contains("do not restart the runtime until"),
            "{advice}"
        );
        match finding["culprit"]["pid"].is_null() {
            true => without += 1,
            false => with_runc += 1,
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    let is_found = |status: &Value| status["finding"]["cause"] == "shim-unresponsive";
    agent.until("the finding", is_found);
    println!(
        "the agent has a finding {:?} after the exit",
        begun.elapsed()
    );
    testbed.verb(&["runc-free"]).await.unwrap();
    until_healthy(&testbed).await;
    agent.until("Healthy", |status| status["health"]["state"] == "Healthy");
}

/// The container's first process waits for another one, which waits for a frozen disk in state D: no signal ends it.
/// All lists and statuses are answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_does_not_die_is_found_by_the_agent_within_a_minute_of_its_stop() {
    const WITHIN: Duration = Duration::from_secs(60);
    let testbed = newest("verbs-unkillable").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let driver = driver.with_deadline(Duration::from_secs(120));
    let pods = run_pods(&driver, 2).await;
    let bundles = tempfile::tempdir().unwrap();
    let lines = format!("diagnosis:\n  directory: {}\n", bundles.path().display());
    let agent = Agent::configured(&testbed.endpoint(), &lines);
    let id = pods[1].id("app").unwrap().to_owned();
    testbed.verb(&["unkillable", &id]).await.unwrap();
    let begun = Instant::now();
    let stopping = tokio::spawn(async move { driver.stop_container(&id).await });
    let is_found = |status: &Value| status["finding"]["cause"] == "container-not-dying";
    let status = agent.until_within(WITHIN, "the finding", is_found);
    println!(
        "the agent has a finding {:?} after the stop",
        begun.elapsed()
    );
    let says = status["finding"]["sentence"].as_str().unwrap();
    assert!(says.contains("app of pod default/pod-1"), "{says}");
    testbed.verb(&["killable"]).await.unwrap();
    stopping.await.unwrap().unwrap();
    agent.until("no finding", |status| status["finding"].is_null());
}

/// No other test runs at the same time as these: the doctor judges the disks of all runtimes of the machine.
mod alone {
    use super::*;

    #[tokio::test]
    async fn a_full_root_of_containerd_is_named_also_when_a_restart_has_lost_containers() {
        let testbed = newest("verbs-full").await;
        testbed.verb(&["disk"]).await.unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        run_pods(&driver, 2).await;
        let containers = async || {
            let pods = driver.pods().await.unwrap();
            pods.iter().map(|pod| pod.containers.len()).sum::<usize>()
        };
        testbed.verb(&["disk-full"]).await.unwrap();
        let is_full = || {
            let finding = only(&doctor_about(&testbed, "disk-full"), "disk-full");
            assert_eq!(finding["confidence"], "certain", "{finding:#}");
            let place = "/var/lib/pleg-testbed/verbs-full/root";
            assert!(sentence(&finding).contains(place), "{finding:#}");
        };
        let watch = Running::watch(&testbed.endpoint(), &[]);
        watch.synced();
        is_full();
        let agent = Agent::watching(&testbed.endpoint());
        // containerd cannot write the status of a container, and forgets the container.
        testbed.verb(&["restart"]).await.unwrap();
        assert_eq!(containers().await, 0, "their processes run");
        is_full();
        let lost = || {
            only(
                &doctor_about(&testbed, "container-not-listed"),
                "container-not-listed",
            )
        };
        lost();
        testbed.verb(&["disk-free"]).await.unwrap();
        let finding = lost();
        let says = finding.to_string();
        for pod in ["pod-0", "pod-1"] {
            assert!(
                says.contains(&format!("container app of pod default/{pod}")),
                "{finding:#}"
            );
        }
        let is_degraded = |status: &Value| {
            let message = status["health"]["message"].as_str().unwrap();
            status["health"]["state"] == "Degraded" && message.contains("does not list")
        };
        let status = agent.until("Degraded", is_degraded);
        let failing = status["failing"].as_array().unwrap().iter();
        let pods: BTreeSet<_> = failing
            .map(|it| it["pod"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(pods, BTreeSet::from(["pod-0", "pod-1"]), "{status:#}");
        testbed.verb(&["restart"]).await.unwrap();
        assert_eq!(containers().await, 2);
        assert_healthy(&doctor(&testbed));
        agent.until("Healthy", |status| status["health"]["state"] == "Healthy");
        let events = watch.within(Duration::from_secs(1));
        let events = events.iter().filter(|record| record["kind"] == "event");
        let ends = ["ContainerDied", "ContainerRemoved"];
        let ended: Vec<_> = events
            .filter(|event| ends.iter().any(|end| event["type"] == *end))
            .collect();
        assert!(
            ended.is_empty(),
            "their processes ran all the time: {ended:#?}"
        );
    }
}

/// The ids of the containers whose statistics are answered, or None after `in_time`.
async fn statistics(endpoint: &Endpoint, in_time: Duration) -> Option<Vec<String>> {
    let client = Client::new(endpoint, 16 << 20);
    let request = ListContainerStatsRequest::default();
    let call = client.unary(ApiVersion::V1, Rpc::ListContainerStats, request);
    let answer = tokio::time::timeout(in_time, call).await.ok()?;
    let answer: ListContainerStatsResponse = answer.unwrap();
    let rows = answer.stats.into_iter().filter_map(|it| it.attributes);
    let mut ids: Vec<_> = rows.map(|it| it.id).collect();
    ids.sort();
    Some(ids)
}

#[tokio::test]
async fn statistics_that_one_shim_holds_up_are_answered_by_the_guard() {
    const IN_TIME: Duration = Duration::from_secs(15);
    let testbed = newest("verbs-stats").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = run_pods(&driver, 3).await;
    let (_agent, guarded) = Agent::guarding(&testbed.endpoint(), "");
    let before = statistics(&guarded, IN_TIME).await.unwrap();
    assert_eq!(before.len(), 3, "{before:?}");
    let stuck = &pods[1].sandbox_id;
    testbed.verb(&["shim-stop", stuck]).await.unwrap();
    assert_eq!(statistics(&testbed.endpoint(), IN_TIME).await, None);
    assert_eq!(statistics(&guarded, IN_TIME).await, Some(before.clone()));
    testbed.verb(&["shim-cont", stuck]).await.unwrap();
    assert_eq!(statistics(&testbed.endpoint(), IN_TIME).await, Some(before));
}
