//! The node condition.

use api_double::{Wrong, new_node};
use prometheus::TextEncoder;

use super::*;

#[tokio::test]
async fn a_condition_is_applied_as_a_separate_entry() {
    let double = Double::start().await;
    let (reporter, _) = reporter(config(&double));
    reporter.report(stuck());
    says(&double, "False", "ContainerStuck").await;
    let condition = double.condition("PLEGUnhealthy").unwrap();
    let message = condition["message"].as_str().unwrap();
    for name in ["ContainerStatus", "app", "shop/web-1", "12s"] {
        assert!(message.contains(name), "{message}");
    }
    let requests = double.requests();
    let write = requests.iter().find(|it| it.method == "PATCH").unwrap();
    assert_eq!(write.path, "/api/v1/nodes/node-1/status?fieldManager=pleg");
    assert_eq!(write.content_type, "application/apply-patch+yaml");
    let conditions = write.body["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 1, "no other entry is changed");
    assert!(double.condition("Ready").is_some());
}

#[tokio::test]
async fn the_transition_time_changes_only_with_the_status_and_survives_a_restart() {
    let double = Double::start().await;
    let mut node = new_node("uid-1");
    let conditions = node["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(
        json!({"type": "PLEGUnhealthy", "status": "False", "reason": "AllSeen",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}),
    );
    double.set_node(node);
    let (reporter, _) = reporter(config(&double));
    reporter.report(stuck());
    says(&double, "False", "ContainerStuck").await;
    let transition = || double.condition("PLEGUnhealthy").unwrap()["lastTransitionTime"].clone();
    assert_eq!(transition(), "2026-01-01T00:00:00Z");
    reporter.report(unhealthy());
    says(&double, "True", "RuntimeSilent").await;
    assert_ne!(transition(), "2026-01-01T00:00:00Z");
}

#[tokio::test]
async fn an_unchanged_condition_is_not_written_again() {
    let double = Double::start().await;
    let (reporter, _) = reporter(config(&double));
    for _ in 0..30 {
        reporter.report(healthy());
        sleep(Duration::from_millis(50)).await;
    }
    says(&double, "False", "AllSeen").await;
    let writes = double
        .requests()
        .into_iter()
        .filter(|it| it.method != "GET")
        .count();
    assert_eq!(writes, 1);
    assert_eq!(double.events(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_recreated_node_gets_the_condition_again() {
    let double = Double::start().await;
    let (reporter, _) = reporter(config(&double));
    reporter.report(healthy());
    says(&double, "False", "AllSeen").await;
    double.set_node(new_node("uid-2"));
    reporter.report(healthy());
    says(&double, "False", "AllSeen").await;
}

#[tokio::test]
async fn the_condition_is_written_after_any_failures_of_the_server() {
    for wrong in [
        Wrong::Status(429),
        Wrong::Status(500),
        Wrong::Status(503),
        Wrong::Status(404),
        Wrong::Status(410),
        Wrong::Status(401),
        Wrong::Half,
        Wrong::Body("<html>"),
        Wrong::Body(""),
    ] {
        let double = Double::start().await;
        double.fail_next("watch=true", Wrong::Status(500));
        double.fail_next("watch=true", Wrong::Body("{\"type\":\"ADDED\"\n"));
        double.fail_next("/status", wrong);
        let (reporter, registry) = reporter(config(&double));
        reporter.report(stuck());
        says(&double, "False", "ContainerStuck").await;
        // The write is counted after its answer, which follows the condition.
        until("it is counted", || {
            let text = TextEncoder::new().encode_to_string(&registry.gather());
            let line = "pleg_kubernetes_writes_total{kind=\"condition\",result=\"ok\"} 1";
            text.unwrap().contains(line)
        })
        .await;
    }
}

#[tokio::test]
async fn the_watches_of_a_fleet_do_not_end_together() {
    let double = Double::start().await;
    let reporters: Vec<_> = (0..8).map(|_| reporter(config(&double))).collect();
    let timeouts = || {
        let requests = double.requests().into_iter();
        let requests = requests.filter_map(|it| {
            let (_, timeout) = it.path.split_once("timeoutSeconds=")?;
            timeout.parse::<u64>().ok()
        });
        requests.collect::<Vec<_>>()
    };
    until("they watch", || timeouts().len() >= reporters.len()).await;
    let timeouts = timeouts();
    assert!(timeouts.iter().all(|it| (1800..=3600).contains(it)));
    let distinct: std::collections::BTreeSet<_> = timeouts.iter().collect();
    assert!(distinct.len() > 1, "{timeouts:?}");
}
