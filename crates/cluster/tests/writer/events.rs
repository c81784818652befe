//! Events on the Node and on pods.

use super::*;

#[tokio::test]
async fn a_stuck_container_and_its_end_are_events_on_the_pod_and_on_the_node() {
    let double = Double::start().await;
    let (reporter, _) = reporter(config(&double));
    reporter.report(healthy());
    says(&double, "False", "AllSeen").await;
    reporter.report(stuck());
    until("two events", || double.events().len() == 2).await;
    reporter.report(healthy());
    until("four events", || double.events().len() == 4).await;
    let of = |kind: &str| {
        let events = double.events().into_iter();
        let events = events.filter(|it| it["regarding"]["kind"] == kind);
        events.collect::<Vec<_>>()
    };
    let pod = of("Pod");
    assert_eq!(pod[0]["regarding"]["uid"], "pod-uid");
    assert_eq!(pod[0]["regarding"]["namespace"], "shop");
    assert_eq!(pod[0]["metadata"]["namespace"], "shop");
    assert_eq!(pod[0]["regarding"]["fieldPath"], "spec.containers{app}");
    assert_eq!(
        (&pod[0]["type"], &pod[0]["reason"]),
        (&json!("Warning"), &json!("ContainerStuck"))
    );
    assert_eq!(
        (&pod[1]["type"], &pod[1]["reason"]),
        (&json!("Normal"), &json!("ContainerAnswers"))
    );
    let node = of("Node");
    assert_eq!(node[0]["regarding"]["uid"], "uid-1");
    assert_eq!(node[0]["metadata"]["namespace"], "default");
    assert_eq!(
        (&node[0]["type"], &node[1]["type"]),
        (&json!("Warning"), &json!("Normal"))
    );
}

#[tokio::test]
async fn a_recurring_event_is_written_into_the_series_of_the_first_one() {
    let double = Double::start().await;
    let (reporter, _) = reporter(config(&double));
    reporter.report(healthy());
    says(&double, "False", "AllSeen").await;
    for _ in 0..2 {
        reporter.report(stuck());
        sleep(Duration::from_millis(300)).await;
        reporter.report(healthy());
        sleep(Duration::from_millis(300)).await;
    }
    until("the series of all", || {
        let events = double.events();
        events.len() == 4 && events.iter().all(|it| it["series"]["count"] == 2)
    })
    .await;
    for event in double.events() {
        let last = event["series"]["lastObservedTime"].as_str().unwrap();
        assert!(last > event["eventTime"].as_str().unwrap(), "{event}");
    }
    let requests = double.requests();
    let patches = requests.iter().filter(|it| it.path.contains("/events/"));
    for patch in patches {
        let keys: Vec<_> = patch.body.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["series"], "all else of an event is immutable");
    }
}

#[tokio::test]
async fn an_event_that_has_expired_is_created_again_with_its_series() {
    let double = Double::start().await;
    let (reporter, _) = reporter(config(&double));
    reporter.report(stuck());
    until("two events", || double.events().len() == 2).await;
    reporter.report(healthy());
    until("four events", || double.events().len() == 4).await;
    double.set_events(Vec::new());
    reporter.report(stuck());
    until("two events", || double.events().len() == 2).await;
    let events = double.events();
    assert!(events.iter().all(|it| it["series"]["count"] == 2));
}

#[tokio::test]
async fn a_diagnosis_is_in_the_condition_in_an_annotation_and_in_one_event() {
    let double = Double::start().await;
    let (reporter, _) = reporter(config(&double));
    let mut report = stuck();
    reporter.report(report.clone());
    says(&double, "False", "ContainerStuck").await;
    let finding = json!({
        "cause": "shim-unresponsive", "sentence": "the shim 42 is stopped", "confidence": "high",
        "time": "2026-11-22T20:00:10Z", "bundle": "/var/lib/pleg/bundles/x.json.gz",
    });
    report.finding = Some(serde_json::from_value(finding).unwrap());
    reporter.report(report.clone());
    until("the condition names the cause", || {
        let condition = double.condition("PLEGUnhealthy").unwrap();
        let message = condition["message"].as_str().unwrap();
        message.contains("web-1") && message.contains("the shim 42 is stopped")
    })
    .await;
    let requests = double.requests();
    let applied = requests
        .iter()
        .rfind(|it| it.path.contains("/status"))
        .unwrap();
    let summary = applied.body["metadata"]["annotations"]["pleg.dev/status"].as_str();
    let summary: Value = serde_json::from_str(summary.unwrap()).unwrap();
    assert_eq!(summary["cause"], "shim-unresponsive");
    assert_eq!(summary["culprits"][0]["pod"], "web-1");
    let diagnosed = || {
        let events = double.events().into_iter();
        let diagnosed = events.filter(|event| event["reason"] == "Diagnosed");
        diagnosed.collect::<Vec<_>>()
    };
    until("an event", || !diagnosed().is_empty()).await;
    let note = diagnosed()[0]["note"].to_string();
    for part in ["shim-unresponsive", "high", "x.json.gz"] {
        assert!(note.contains(part), "{note}");
    }
    reporter.report(report);
    sleep(Duration::from_millis(300)).await;
    assert_eq!(diagnosed().len(), 1);
}

#[tokio::test]
async fn an_early_warning_is_an_event_once_a_day_and_not_a_condition() {
    let double = Double::start().await;
    let (reporter, _) = reporter(config(&double));
    let mut report = healthy();
    let warning = json!({"cause": "systemd-cookie-overflow", "sentence": "in 12 days",
        "confidence": "medium", "time": "2026-11-22T20:00:10Z"});
    report.warnings = vec![serde_json::from_value(warning).unwrap()];
    for _ in 0..3 {
        reporter.report(report.clone());
        sleep(Duration::from_millis(100)).await;
    }
    says(&double, "False", "AllSeen").await;
    until("an event", || !double.events().is_empty()).await;
    let events = double.events();
    assert_eq!(
        (events.len(), &events[0]["reason"]),
        (1, &json!("EarlyWarning"))
    );
}

#[tokio::test]
async fn a_guard_that_no_kubelet_uses_is_an_event_once_a_day() {
    let double = Double::start().await;
    let (reporter, _) = reporter(config(&double));
    let mut report = healthy();
    for idle in [599.0, 601.0, 700.0] {
        report.guard.idle_seconds = Some(idle);
        reporter.report(report.clone());
        sleep(Duration::from_millis(100)).await;
    }
    until("an event", || !double.events().is_empty()).await;
    let events = double.events();
    assert_eq!(
        (events.len(), &events[0]["reason"]),
        (1, &json!("GuardBypassed"))
    );
}

#[tokio::test]
async fn pods_with_invalid_names_get_no_event() {
    let double = Double::start().await;
    let (reporter, _) = reporter(config(&double));
    let mut report = stuck();
    report.stuck[0].pod.as_mut().unwrap().namespace = "../../../api/v1/nodes/x?".into();
    reporter.report(report);
    until("the node's event", || !double.events().is_empty()).await;
    sleep(Duration::from_millis(300)).await;
    let requests = double.requests();
    assert!(
        requests.iter().all(|it| !it.path.contains("..")),
        "{requests:?}"
    );
    assert_eq!(double.events().len(), 1);
}
