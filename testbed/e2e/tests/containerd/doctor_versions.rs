//! `pleg doctor` with versions of containerd after their end of life.

use e2e::doctor::{assert_healthy, doctor, healthy_line, only, run_pods};
use e2e::{LEGACY, WITHOUT_EVENTS};
use serde_json::Value;
use testbed_driver::{Driver, Pod, Testbed};

/// A stopped shim is named while all calls are answered. Once an update of a container waits for the
/// shim, so that the lists hang, the status lock is named.
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
    assert_healthy(&doctor(testbed));
    report
}

/// Which calls for the whole node were not answered.
fn hung(report: &Value) -> Vec<&Value> {
    let probes = report["probes"].as_array().unwrap().iter();
    let hung = probes.filter(|probe| probe["outcome"] == "hung" && probe["id"].is_null());
    hung.map(|probe| &probe["call"]).collect()
}

#[tokio::test]
async fn with_an_old_containerd_the_doctor_finds_the_same_as_with_the_newest() {
    for version in [LEGACY, WITHOUT_EVENTS] {
        let name = format!("doctor-{version}");
        let testbed = Testbed::up(version, &name).await.unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        let pods = run_pods(&driver, 3).await;
        let page = healthy_line(&testbed);
        let well = format!("Healthy: no kubelet on this machine; containerd {version}.");
        assert!(page.starts_with(&well), "{page}");
        let report = shim_and_status_lock(&testbed, &driver, &pods).await;
        assert_eq!(hung(&report), ["ListContainers"]);
    }
}
