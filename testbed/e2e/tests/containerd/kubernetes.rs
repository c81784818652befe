//! The status lock of real containerd, as the agent reports it to Kubernetes.

use api_double::{Double, new_node, until};
use e2e::{Agent, newest};
use testbed_driver::{Driver, PodSpec};

#[tokio::test(flavor = "multi_thread")]
async fn under_the_status_lock_condition_and_events_name_the_container_and_a_bundle_is_kept() {
    let testbed = newest("e2e-kubernetes").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let spec = PodSpec::new("locked").container("app");
    let locked = driver.run_pod(&spec).await.unwrap();
    let spec = PodSpec::new("free").container("app");
    driver.run_pod(&spec).await.unwrap();
    let double = Double::start().await;
    double.set_node(new_node("uid-1"));
    let place = tempfile::tempdir().unwrap();
    let bundles = place.path().join("bundles");
    let _agent = Agent::configured(
        &testbed.endpoint(),
        &format!(
            "diagnosis:\n  directory: {}\nkubernetes:\n  nodeName: node-1\n  agents: 1\n  \
             kubeconfig: {}\n",
            bundles.display(),
            double.kubeconfig().display(),
        ),
    );
    let condition = |part: &str| {
        let condition = double.condition("PLEGUnhealthy");
        condition.is_some_and(|it| it["status"] == "False" && it.to_string().contains(part))
    };
    until("all is well", || condition("AllSeen")).await;

    testbed
        .verb(&["shim-stop", &locked.sandbox_id])
        .await
        .unwrap();
    let update = driver.hold_update(locked.id("app").unwrap()).await;
    assert!(update.is_held());
    until("the container is named", || {
        condition("container app of default/locked is stuck")
    })
    .await;
    until("its cause is named", || condition("container-status-lock")).await;
    let events = |reason: &str| {
        let events = double.events().into_iter();
        let events = events.filter(|event| event["reason"] == reason);
        events.collect::<Vec<_>>()
    };
    until("an event on the pod", || {
        !events("ContainerStuck").is_empty()
    })
    .await;
    let of_pods = events("ContainerStuck").into_iter();
    let of_pods: Vec<_> = of_pods
        .filter(|event| event["regarding"]["kind"] == "Pod")
        .collect();
    assert_eq!(of_pods.len(), 1, "{of_pods:#?}");
    let regarding = &of_pods[0]["regarding"];
    assert_eq!(regarding["name"], "locked");
    assert_eq!(regarding["fieldPath"], "spec.containers{app}");
    until("an event of the diagnosis", || {
        !events("Diagnosed").is_empty()
    })
    .await;
    let kept = std::fs::read_dir(&bundles).unwrap();
    let kept: Vec<_> = kept.map(|entry| entry.unwrap().path()).collect();
    for bundle in &kept {
        let again = e2e::pleg(&["doctor", "--from", bundle.to_str().unwrap(), "-o", "json"]);
        let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(again["findings"][0]["cause"], "container-status-lock");
        assert_eq!(again["findings"][0]["culprit"]["pod"]["name"], "locked");
    }

    testbed
        .verb(&["shim-cont", &locked.sandbox_id])
        .await
        .unwrap();
    update.answered().await.unwrap();
    until("all is well again", || condition("AllSeen")).await;
    until("the end is reported", || {
        !events("ContainerAnswers").is_empty()
    })
    .await;
    // The stopped shim may be a symptom before a list shows the lock.
    let kept = std::fs::read_dir(&bundles).unwrap().count();
    assert!(matches!(kept, 1 | 2), "{kept}");
    assert_eq!(events("Diagnosed").len(), 1, "of one fault");
}
