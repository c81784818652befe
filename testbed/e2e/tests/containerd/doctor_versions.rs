//! `pleg doctor` beside the other generations of containerd.

use e2e::doctor::{
    assert_stop_and_crash_are_told_apart, assert_well, doctor, healthy_line, only, run_pods,
};
use e2e::newest;
use serde_json::Value;
use testbed_driver::{Driver, Pod, Testbed};

/// A shim that is stopped is named while every call answers, and when an update of a
/// container has run into it so that the lists hang, that is what is said.
async fn shim_and_status_lock(testbed: &Testbed, driver: &Driver, pods: &[Pod]) -> Value {
    let locked = &pods[1];
    let id = locked.id("app").unwrap();
    testbed
        .verb(&["shim-stop", &locked.sandbox_id])
        .await
        .unwrap();
    let finding = only(&doctor(testbed), "shim-unresponsive");
    assert_eq!(finding["confidence"], "certain", "{finding:#}");
    assert_eq!(finding["culprit"]["pod"]["name"], "pod-1");
    let shim = finding["culprit"]["pid"].clone();

    let update = driver.hold_update(id).await;
    assert!(update.is_held());
    let report = doctor(testbed);
    let finding = only(&report, "container-status-lock");
    assert_eq!(finding["confidence"], "certain", "{finding:#}");
    assert_eq!(finding["culprit"]["id"], id);
    assert_eq!(finding["culprit"]["pod"]["name"], "pod-1");
    assert_eq!(finding["culprit"]["container"], "app");
    assert_eq!(finding["culprit"]["pid"], shim);
    testbed
        .verb(&["shim-cont", &locked.sandbox_id])
        .await
        .unwrap();
    update.answered().await.unwrap();
    assert_well(&doctor(testbed));
    report
}

/// Which calls for the whole node were not answered.
fn hung(report: &Value) -> Vec<&Value> {
    let probes = report["probes"].as_array().unwrap().iter();
    let hung = probes.filter(|probe| probe["outcome"] == "hung" && probe["id"].is_null());
    hung.map(|probe| &probe["call"]).collect()
}

#[tokio::test]
async fn under_the_status_lock_of_containerd_1_6_container_and_shim_are_named() {
    let testbed = Testbed::up("1.6", "doctor-1.6").await.unwrap();
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = run_pods(&driver, 3).await;
    assert_well(&doctor(&testbed));
    let report = shim_and_status_lock(&testbed, &driver, &pods).await;
    assert_eq!(hung(&report), ["ListContainers"]);
}

#[tokio::test]
async fn beside_containerd_2_the_same_is_found_as_beside_1() {
    let Some(testbed) = newest("doctor-2").await else {
        return;
    };
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = run_pods(&driver, 3).await;
    let page = healthy_line(&testbed);
    assert!(
        page.starts_with("Healthy: no kubelet on this machine; containerd 2."),
        "{page}"
    );
    let report = shim_and_status_lock(&testbed, &driver, &pods).await;
    assert_eq!(hung(&report), ["ListContainers"]);

    assert_stop_and_crash_are_told_apart(&testbed).await;
}
