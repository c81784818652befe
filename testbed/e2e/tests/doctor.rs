//! `pleg doctor` on real containerd: each fault by its name, and nothing on a node that is
//! well.

use std::time::{Duration, Instant};

use e2e::{pleg, pleg_json};
use serde_json::Value;
use testbed_driver::{Driver, Network, Pod, PodSpec, Testbed};

/// Whatever hangs.
const IN_TIME: Duration = Duration::from_secs(20);

/// Nobody's kubelet.
const NO_KUBELET: [&str; 2] = ["--kubelet-healthz", "127.0.0.1:1"];

fn doctor(testbed: &Testbed) -> Value {
    doctor_at(&testbed.endpoint())
}

fn doctor_at(endpoint: &cri::Endpoint) -> Value {
    let endpoint = endpoint.to_string();
    let arguments = ["doctor", "--agent", "off", "-r", &endpoint];
    let begun = Instant::now();
    let report = pleg_json(&[&arguments[..], &NO_KUBELET].concat());
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    report
}

#[track_caller]
fn only(report: &Value, cause: &str) -> Value {
    let found = report["findings"].as_array().unwrap();
    let causes: Vec<_> = found.iter().map(|found| &found["cause"]).collect();
    assert_eq!(causes, [cause], "{report:#}");
    found[0].clone()
}

#[track_caller]
fn assert_well(report: &Value) {
    assert_eq!(report["verdict"], "ok", "{report:#}");
}

async fn pods(driver: &Driver, count: usize) -> Vec<Pod> {
    let specs: Vec<_> = (0..count)
        .map(|number| PodSpec::new(format!("pod-{number}")).container("app"))
        .collect();
    driver.run_pods(&specs, |_| {}).await.unwrap()
}

#[tokio::test]
async fn under_the_status_lock_container_and_shim_are_named_and_the_advice_frees_the_node() {
    let testbed = Testbed::up("1.7", "doctor-lock").await.unwrap();
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = pods(&driver, 4).await;
    let locked = &pods[1];
    let id = locked.id("app").unwrap();
    testbed
        .verb(&["shim-stop", &locked.sandbox_id])
        .await
        .unwrap();
    let update = driver.hold_update(id).await;
    assert!(update.is_held());

    let report = doctor(&testbed);
    let finding = only(&report, "container-status-lock");
    assert_eq!(finding["confidence"], "certain", "{finding:#}");
    let culprit = &finding["culprit"];
    // No agent ran and no list was answered: the names come from containerd's own folder.
    assert_eq!(culprit["pod"]["name"], "pod-1");
    assert_eq!(culprit["container"], "app");
    assert_eq!(culprit["id"], id);
    assert_eq!(culprit["process"], "containerd-shim");
    let evidence = finding["evidence"].to_string();
    assert!(evidence.contains("is stopped (state T)"), "{evidence}");
    assert!(evidence.contains("other containers answered"), "{evidence}");
    let pid = culprit["pid"].as_u64().unwrap().to_string();
    let advice = finding["advice"][0].as_str().unwrap();
    assert!(
        advice.starts_with(&format!("`kill -CONT {pid}`")),
        "{advice}"
    );

    // Allowed to ask containerd itself, it shows where the lock is held.
    let endpoint = testbed.endpoint().to_string();
    let arguments = [
        "doctor",
        "--agent",
        "off",
        "--allow-signals",
        "-r",
        &endpoint,
    ];
    let report = pleg_json(&[&arguments[..], &NO_KUBELET].concat());
    let finding = only(&report, "container-status-lock");
    let evidence = finding["evidence"].to_string();
    assert!(evidence.contains("in everybody's way"), "{evidence}");
    let containerd = testbed.verb(&["pid"]).await.unwrap();
    std::fs::remove_file(format!("/tmp/containerd.{containerd}.stacks.log")).unwrap();

    // It is taken at its word.
    let kill = std::process::Command::new("kill")
        .args(["-CONT", &pid])
        .status();
    assert!(kill.unwrap().success());
    update.answered().await.unwrap();
    assert_well(&doctor(&testbed));
}

#[tokio::test]
async fn a_runtime_that_is_stopped_and_one_that_crashed_are_told_apart() {
    let testbed = Testbed::up("1.7", "doctor-stop").await.unwrap();
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    pods(&driver, 2).await;
    let pid = testbed.verb(&["pid"]).await.unwrap();
    testbed.verb(&["stop"]).await.unwrap();
    let finding = only(&doctor(&testbed), "runtime-unresponsive");
    assert_eq!(finding["confidence"], "certain", "{finding:#}");
    assert_eq!(finding["culprit"]["process"], "containerd");
    assert_eq!(finding["culprit"]["pid"].to_string(), pid);
    testbed.verb(&["cont"]).await.unwrap();
    assert_well(&doctor(&testbed));

    testbed.verb(&["crash"]).await.unwrap();
    let finding = only(&doctor(&testbed), "runtime-unresponsive");
    let sentence = finding["sentence"].as_str().unwrap();
    assert!(sentence.contains("is gone"), "{sentence}");
    testbed.verb(&["start"]).await.unwrap();
    assert_well(&doctor(&testbed));
}

#[tokio::test]
async fn a_shim_that_is_stopped_is_named_while_every_call_still_answers() {
    let testbed = Testbed::up("1.7", "doctor-shim").await.unwrap();
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = pods(&driver, 3).await;
    let sandbox = &pods[2].sandbox_id;
    testbed.verb(&["shim-stop", sandbox]).await.unwrap();
    let finding = only(&doctor(&testbed), "shim-unresponsive");
    assert_eq!(finding["confidence"], "certain", "{finding:#}");
    assert_eq!(finding["culprit"]["pod"]["name"], "pod-2");
    testbed.verb(&["shim-cont", sandbox]).await.unwrap();
    assert_well(&doctor(&testbed));
}

#[tokio::test]
async fn a_cni_plug_in_that_does_not_return_is_named_with_its_age() {
    let testbed = Testbed::up("1.7", "doctor-cni").await.unwrap();
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    pods(&driver, 1).await;
    testbed.verb(&["cni-hang"]).await.unwrap();
    let starts = {
        let driver = driver.clone();
        let spec = PodSpec {
            network: Network::Pod,
            ..PodSpec::new("networked")
        };
        tokio::spawn(async move { driver.run_pod(&spec).await })
    };
    // A plug-in is old when it has taken ten seconds.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let finding = only(&doctor(&testbed), "cni-plugin-hang");
    assert_eq!(finding["verdict"], "suspect", "{finding:#}");
    assert_eq!(finding["culprit"]["process"], "cni-gate");
    testbed.verb(&["cni-free"]).await.unwrap();
    // Whether the pod still comes is another matter: containerd may have given up.
    let _ = starts.await.unwrap();
    assert_well(&doctor(&testbed));
}

#[tokio::test]
async fn nothing_is_found_on_a_node_that_is_well_and_busy() {
    let testbed = Testbed::up("1.7", "doctor-well").await.unwrap();
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let made = pods(&driver, 12).await;
    let endpoint = testbed.endpoint();
    let looks = tokio::task::spawn_blocking(move || {
        for _ in 0..5 {
            let report = doctor_at(&endpoint);
            assert_well(&report);
        }
    });
    let (churned, looked) = tokio::join!(driver.run_dead(&made[0], 40, |_| {}), looks);
    churned.unwrap();
    looked.unwrap();
    let endpoint = testbed.endpoint().to_string();
    let arguments = ["doctor", "--agent", "off", "-r", &endpoint];
    let output = pleg(&[&arguments[..], &NO_KUBELET].concat());
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.starts_with("Healthy: containerd 1.7"), "{page}");
    assert_eq!(page.lines().count(), 1, "{page}");
}
