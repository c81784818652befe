//! Pods start and end on real containerd, and each change is reported.

use e2e::{ALL_VERSIONS, Running, VERSIONS, WITHOUT_EVENTS, is_event, pleg, pleg_json};
use pleg::runtime::Runtime;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use testbed_driver::{Driver, PodSpec, Testbed};

#[tokio::test]
async fn a_pod_is_reported_from_its_start_to_its_removal() {
    for version in ALL_VERSIONS {
        let testbed = Testbed::up(version, &format!("e2e-life-{version}"))
            .await
            .unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        let there = driver
            .run_pod(&PodSpec::new("there").container("app"))
            .await
            .unwrap();
        let watch = Running::watch(&testbed.endpoint(), &[]);
        let first = watch.until("synced", |record| record["kind"] == "synced");
        let initial = first.iter().map(|(_, record)| record);
        let initial: Vec<_> = initial.filter(|record| record["kind"] == "event").collect();
        assert_eq!(initial.len(), 2, "{initial:?}");
        assert!(initial.iter().all(|event| event["initial"] == true));
        assert_eq!(initial[0]["pod"]["uid"], there.uid.as_str());

        let pod = driver
            .run_pod(&PodSpec::new("web").container("app"))
            .await
            .unwrap();
        let old = pod.id("app").unwrap();
        watch.event("ContainerStarted", old);
        driver.kill_container(old).await.unwrap();
        let (_, died) = watch.event("ContainerDied", old);
        assert_eq!(died["exitCode"], 137);
        assert_eq!(died["reason"], "Error");
        assert_eq!(died["container"], "app");
        assert_eq!(died["pod"]["name"], "web");
        assert_ne!(died["source"], "sweep", "the lists answer");

        let new = driver.restart_container(&pod, "app").await.unwrap();
        watch.event("ContainerStarted", &new.id);
        driver
            .remove_pod(&driver.pod("web").await.unwrap())
            .await
            .unwrap();
        watch.until("the removal of the sandbox", |record| {
            is_event(record, "ContainerRemoved", &pod.sandbox_id)
        });
    }
}

#[tokio::test]
async fn pods_and_status_show_what_there_is() {
    for version in VERSIONS {
        let testbed = Testbed::up(version, &format!("e2e-show-{version}"))
            .await
            .unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        let pod = driver
            .run_pod(&PodSpec::new("web").container("app"))
            .await
            .unwrap();
        let endpoint = testbed.endpoint().to_string();

        let pods = pleg_json(&["pods", "-r", &endpoint]);
        assert_eq!(pods[0]["uid"], pod.uid.as_str());
        assert_eq!(pods[0]["sandboxes"][0]["id"], pod.sandbox_id.as_str());
        let container = &pods[0]["containers"][0];
        assert_eq!(container["name"], "app");
        assert_eq!(container["state"], "running");
        assert_eq!(container["exitCode"], serde_json::Value::Null);
        assert_eq!(container["image"], "pleg.test/busybox:latest");

        let status = pleg_json(&["status", "--agent", "off", "-r", &endpoint]);
        assert_eq!(status["health"]["state"], "Healthy");
        assert_eq!(status["runtime"]["name"], "containerd");
        let runtime = status["runtime"]["version"].as_str().unwrap();
        assert!(runtime.starts_with(version), "{runtime}");
        assert_eq!(status["runtime"]["apiVersion"], "v1");
        assert_eq!(status["containers"]["running"], 1);

        let text = pleg(&["pods", "-r", &endpoint]);
        assert!(text.status.success());
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(text.starts_with("NAMESPACE"), "{text}");
        assert!(!text.contains('\u{1b}'), "a pipe gets no colours");
    }
}

#[tokio::test]
async fn v1alpha2_is_spoken_with_a_runtime_that_serves_it() {
    let testbed = Testbed::up(WITHOUT_EVENTS, "e2e-alpha").await.unwrap();
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let pod = driver
        .run_pod(&PodSpec::new("web").container("app"))
        .await
        .unwrap();
    let runtime = GrpcRuntime::in_v1alpha2(&testbed.endpoint(), MAX_MESSAGE_SIZE);

    let version = runtime.version().await.unwrap();
    assert_eq!(&*version.api_version, "v1alpha2");
    let sandboxes = runtime.list_sandboxes().await.unwrap().rows;
    assert_eq!(sandboxes[0].id.as_str(), pod.sandbox_id);
    let containers = runtime.list_containers().await.unwrap().rows;
    assert_eq!(containers[0].pod.as_ref().unwrap().uid.as_str(), pod.uid);
    let status = runtime.container_status(&containers[0].id).await.unwrap();
    assert_eq!(&*status.name, "app");
    runtime.sandbox_status(&sandboxes[0].id).await.unwrap();
}
