//! `pleg doctor` on real containerd: each fault is named, and nothing is found on a healthy node.

use std::time::{Duration, Instant};

use e2e::doctor::{
    assert_healthy, assert_stop_and_crash_are_distinguished, doctor, doctor_about, doctor_at,
    doctor_with_logs, healthy_line, only, run_pods,
};
use e2e::{Agent, newest};
use testbed_driver::{Driver, Network, PodSpec, Testbed};

#[tokio::test]
async fn under_the_status_lock_container_and_shim_are_named_and_the_advice_frees_the_node() {
    let testbed = newest("doctor-lock").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = run_pods(&driver, 4).await;
    let locked = &pods[1];
    let id = locked.id("app").unwrap();
    testbed
        .verb(&["shim-stop", &locked.sandbox_id])
        .await
        .unwrap();
    let update = driver.hold_update(id).await;
    assert!(update.is_held());

    let begun = Instant::now();
    let report = doctor(&testbed);
    let took = begun.elapsed();
    println!("the doctor names the culprit after {took:?}");
    assert!(took < Duration::from_secs(7), "{took:?}");
    let finding = only(&report, "container-status-lock");
    assert_eq!(finding["confidence"], "certain", "{finding:#}");
    let culprit = &finding["culprit"];
    // No agent ran and no list was answered: the names are from containerd's state directory.
    assert_eq!(culprit["pod"]["name"], "pod-1");
    assert_eq!(culprit["container"], "app");
    assert_eq!(culprit["id"], id);
    assert_eq!(culprit["process"], "containerd-shim");
    let evidence = finding["evidence"].to_string();
    assert!(evidence.contains("is stopped (state T)"), "{evidence}");
    assert!(
        evidence.contains("for other containers were answered"),
        "{evidence}"
    );
    let pid = culprit["pid"].as_u64().unwrap().to_string();
    let advice = finding["advice"][0].as_str().unwrap();
    assert!(
        advice.starts_with(&format!("run `kill -CONT {pid}`")),
        "{advice}"
    );

    // If the doctor may request the goroutines of containerd, it shows where the lock is held.
    let report = e2e::doctor::report(&testbed.endpoint(), &["--allow-signals"]);
    let finding = only(&report, "container-status-lock");
    let evidence = finding["evidence"].to_string();
    assert!(evidence.contains("blocks the others"), "{evidence}");
    let containerd = testbed.verb(&["pid"]).await.unwrap();
    std::fs::remove_file(format!("/tmp/containerd.{containerd}.stacks.log")).unwrap();

    // Follow the advice.
    let kill = std::process::Command::new("kill")
        .args(["-CONT", &pid])
        .status();
    assert!(kill.unwrap().success());
    update.answered().await.unwrap();
    assert_healthy(&doctor(&testbed));
}

/// containerd syncs its metadata while it holds the lock, although the shim has already answered.
#[tokio::test]
async fn while_containerd_waits_for_its_disk_under_the_status_lock_no_process_is_to_be_killed() {
    let testbed = newest("doctor-disk").await;
    testbed.verb(&["disk"]).await.unwrap();
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = run_pods(&driver, 4).await;
    let id = pods[1].id("app").unwrap();
    testbed.verb(&["disk-slow"]).await.unwrap();
    let update = driver.hold_update(id).await;
    assert!(update.is_held());

    let report = doctor(&testbed);
    let found = report["findings"].as_array().unwrap();
    let mut found = found.iter();
    let finding = found.find(|finding| finding["cause"] == "container-status-lock");
    let finding = finding.unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(finding["confidence"], "high", "{finding:#}");
    assert_eq!(finding["culprit"]["id"], id);
    assert!(finding["culprit"]["pid"].is_null(), "{finding:#}");
    let sentence = finding["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("while it waits for the disk"),
        "{sentence}"
    );
    assert!(
        sentence.ends_with("its shim is not shown to be at fault"),
        "{sentence}"
    );
    let evidence = finding["evidence"].to_string();
    assert!(evidence.contains("its shim containerd-shim"), "{evidence}");
    let advice = report["findings"].to_string();
    assert!(!advice.contains("-KILL"), "{advice}");

    testbed.verb(&["disk-quick"]).await.unwrap();
    update.answered().await.unwrap();
    assert_healthy(&doctor(&testbed));
}

#[tokio::test]
async fn a_stopped_runtime_is_distinguished_from_a_crashed_one() {
    let testbed = newest("doctor-stop").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    run_pods(&driver, 2).await;
    assert_stop_and_crash_are_distinguished(&testbed).await;
}

#[tokio::test]
async fn a_shim_that_is_stopped_is_named_while_every_call_is_still_answered() {
    let testbed = newest("doctor-shim").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = run_pods(&driver, 3).await;
    let sandbox = &pods[2].sandbox_id;
    testbed.verb(&["shim-stop", sandbox]).await.unwrap();
    let finding = only(&doctor(&testbed), "shim-unresponsive");
    assert_eq!(finding["confidence"], "certain", "{finding:#}");
    assert_eq!(finding["culprit"]["pod"]["name"], "pod-2");
    testbed.verb(&["shim-cont", sandbox]).await.unwrap();
    assert_healthy(&doctor(&testbed));
}

#[tokio::test]
async fn a_cni_plugin_that_does_not_return_is_named_with_its_age() {
    let testbed = newest("doctor-cni").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    run_pods(&driver, 1).await;
    testbed.verb(&["cni-hang"]).await.unwrap();
    let starts = {
        let driver = driver.clone();
        let spec = PodSpec {
            network: Network::Pod,
            ..PodSpec::new("networked")
        };
        tokio::spawn(async move { driver.run_pod(&spec).await })
    };
    // A plugin is reported once it has run for ten seconds.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let finding = only(&doctor(&testbed), "cni-plugin-hang");
    assert_eq!(finding["verdict"], "suspect", "{finding:#}");
    assert_eq!(finding["culprit"]["process"], "cni-gate");
    testbed.verb(&["cni-free"]).await.unwrap();
    // The creation may fail, because containerd may have given up.
    let _ = starts.await.unwrap();
    assert_healthy(&doctor(&testbed));
}

#[tokio::test]
async fn nothing_is_found_on_a_busy_healthy_node() {
    let testbed = newest("doctor-well").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let made = run_pods(&driver, 12).await;
    let endpoint = testbed.endpoint();
    let looks = tokio::task::spawn_blocking(move || {
        for _ in 0..5 {
            let report = doctor_at(&endpoint);
            assert_healthy(&report);
        }
    });
    let (churned, looked) = tokio::join!(driver.run_dead(&made[0], 40, |_| {}), looks);
    churned.unwrap();
    looked.unwrap();
    let page = healthy_line(&testbed);
    assert!(
        page.starts_with("Healthy: no kubelet on this machine; containerd 2."),
        "{page}"
    );
}

#[tokio::test]
async fn a_runc_that_does_not_return_is_named_although_lists_and_statuses_are_answered() {
    let testbed = newest("doctor-runc").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pods = run_pods(&driver, 2).await;
    let id = pods[1].id("app").unwrap().to_owned();
    let bundles = tempfile::tempdir().unwrap();
    let lines = format!("diagnosis:\n  directory: {}\n", bundles.path().display());
    let agent = Agent::configured(&testbed.endpoint(), &lines);
    let begun = Instant::now();
    testbed.verb(&["runc-stuck", "kill"]).await.unwrap();
    let stopping = tokio::spawn({
        let (driver, id) = (driver.with_deadline(Duration::from_secs(90)), id.clone());
        async move { driver.stop_container(&id).await }
    });
    // A runc is hung after half a minute.
    let of_agent = |status: &serde_json::Value| status["finding"]["cause"] == "runc-hung";
    while !of_agent(&agent.status()) {
        assert!(
            begun.elapsed() < Duration::from_secs(45),
            "{:#}",
            agent.status()
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    println!("the agent reports the runc after {:?}", begun.elapsed());
    assert_eq!(agent.status()["health"]["state"], "Healthy");
    let finding = only(&doctor(&testbed), "runc-hung");
    let sentence = finding["sentence"].as_str().unwrap();
    let named = format!("`runc kill` of container {}", &id[..13]);
    assert!(sentence.starts_with(&named), "{sentence}");
    assert_eq!(finding["culprit"]["id"], id);
    assert_eq!(finding["culprit"]["pod"]["name"], "pod-1");

    // Follow the advice.
    let pid = finding["culprit"]["pid"].as_u64().unwrap().to_string();
    let advice = finding["advice"][0].as_str().unwrap();
    assert!(advice.contains(&format!("`kill -KILL {pid}`")), "{advice}");
    testbed.verb(&["runc-free"]).await.unwrap();
    // That stop may still fail, because its deadline may have passed.
    let _ = stopping.await.unwrap();
    assert_healthy(&doctor(&testbed));
    let freed = Instant::now();
    while of_agent(&agent.status()) {
        assert!(freed.elapsed() < Duration::from_secs(20), "it stays");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn a_missing_network_configuration_is_reported_in_the_words_of_the_runtime() {
    let testbed = newest("doctor-cni-conf").await;
    assert_healthy(&doctor_about(&testbed, "cni-not-ready"));
    let folder = "/var/lib/pleg-testbed/doctor-cni-conf/cni/conf";
    let aside = tempfile::tempdir().unwrap();
    let entry = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap();
    let kept = aside.path().join(entry.file_name());
    std::fs::copy(entry.path(), &kept).unwrap();
    std::fs::remove_file(entry.path()).unwrap();
    // containerd notices by inotify, a short time later.
    let mut report = doctor_about(&testbed, "cni-not-ready");
    let begun = Instant::now();
    while report["findings"].as_array().unwrap().is_empty()
        && begun.elapsed() < Duration::from_secs(10)
    {
        tokio::time::sleep(Duration::from_millis(500)).await;
        report = doctor_about(&testbed, "cni-not-ready");
    }
    let finding = only(&report, "cni-not-ready");
    let sentence = finding["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("the pod network is not ready ("),
        "{sentence}"
    );
    assert!(
        sentence.contains("cni plugin not initialized"),
        "{sentence}"
    );
    // No kubelet runs here, so this node may need no pod network.
    assert_eq!(finding["confidence"], "medium");
    std::fs::copy(&kept, entry.path()).unwrap();
}

#[tokio::test]
async fn a_sandbox_image_that_was_removed_is_named_from_the_log_of_the_runtime() {
    let cause = "sandbox-image-missing";
    let testbed = Testbed::up("1.7", "doctor-pause").await.unwrap();
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let logs = tempfile::tempdir().unwrap();
    let read_log = || {
        let log = "/run/pleg-testbed/doctor-pause/containerd.log";
        std::fs::copy(log, logs.path().join("containerd.log")).unwrap();
        doctor_with_logs(&testbed, logs.path(), cause)
    };
    run_pods(&driver, 1).await;
    assert_healthy(&read_log());

    let image = "pleg.test/pause:latest";
    let remove = ["ctr", "images", "rm", "--sync", image];
    testbed.verb(&remove).await.unwrap();
    let refused = driver.run_pod(&PodSpec::new("late").container("app")).await;
    assert!(refused.is_err(), "the image cannot be pulled");
    // The runtime logs a call that timed out later.
    let mut report = read_log();
    let begun = Instant::now();
    while report["findings"].as_array().unwrap().is_empty()
        && begun.elapsed() < Duration::from_secs(60)
    {
        tokio::time::sleep(Duration::from_millis(500)).await;
        report = read_log();
    }
    let finding = only(&report, cause);
    assert_eq!(finding["confidence"], "high", "{finding:#}");
    let sentence = finding["sentence"].as_str().unwrap();
    assert!(sentence.contains(image), "{sentence}");
}
