//! The taint, and what is removed at a stop.

use api_double::new_node;
use cluster::TaintWhen;
use pleg_text::GoDuration;

use super::*;

async fn assert_removed_at_a_stop(double: &Double) {
    let config = KubernetesConfig {
        taint: vec![TaintWhen::Unhealthy],
        ..config(double)
    };
    let (reporter, _) = reporter(config);
    reporter.report(unhealthy());
    says(double, "True", "RuntimeSilent").await;
    until("the taint", || {
        double.node()["spec"]["taints"].as_array().unwrap().len() == 2
    })
    .await;
    reporter.stop().await;
    let before = new_node("uid-1");
    assert_eq!(double.node(), before);
}

#[tokio::test]
async fn our_taint_is_removed_after_the_node_was_healthy_for_the_hold_off() {
    let double = Double::start().await;
    let config = KubernetesConfig {
        taint: vec![TaintWhen::Unhealthy],
        taint_hold_off: GoDuration(Duration::from_millis(300)),
        ..config(&double)
    };
    let (reporter, _) = reporter(config);
    let taints = || double.node()["spec"]["taints"].as_array().unwrap().clone();
    reporter.report(stuck());
    says(&double, "False", "ContainerStuck").await;
    assert_eq!(taints().len(), 1);
    reporter.report(unhealthy());
    until("the taint", || taints().len() == 2).await;
    assert_eq!(
        taints()[1],
        json!({"key": "plegnothealthy", "value": "true", "effect": "NoSchedule"})
    );
    let requests = double.requests();
    let patch = requests
        .iter()
        .find(|it| it.content_type == "application/json-patch+json")
        .unwrap();
    assert_eq!(patch.body[0]["op"], "test");
    assert_eq!(patch.body[0]["path"], "/spec/taints");
    reporter.report(healthy());
    until("no taint", || taints().len() == 1).await;
    assert_eq!(taints()[0]["key"], "other");
    let annotations = &double.node()["metadata"]["annotations"];
    assert_eq!(annotations["a"], "b");
    assert_eq!(annotations.get("pleg.dev/taint"), None);
}

#[tokio::test]
async fn a_taint_of_another_client_is_never_removed() {
    let double = Double::start().await;
    let mut node = new_node("uid-1");
    let theirs = json!({"key": "plegnothealthy", "value": "true", "effect": "NoSchedule"});
    node["spec"]["taints"]
        .as_array_mut()
        .unwrap()
        .push(theirs.clone());
    double.set_node(node);
    let config = KubernetesConfig {
        taint: vec![TaintWhen::Unhealthy],
        taint_hold_off: GoDuration(Duration::from_millis(100)),
        ..config(&double)
    };
    let (reporter, _) = reporter(config);
    reporter.report(unhealthy());
    says(&double, "True", "RuntimeSilent").await;
    reporter.report(healthy());
    says(&double, "False", "AllSeen").await;
    sleep(Duration::from_millis(500)).await;
    reporter.stop().await;
    assert_eq!(double.node()["spec"]["taints"][1], theirs);
    let requests = double.requests();
    assert!(
        requests
            .iter()
            .all(|it| it.content_type != "application/json-patch+json")
    );
}

#[tokio::test]
async fn a_missing_right_delays_no_other_write() {
    for (path, status) in [("/status", 403), ("/status", 409), ("events.k8s.io", 403)] {
        let double = Double::start().await;
        double.refuse(path, status);
        let config = KubernetesConfig {
            taint: vec![TaintWhen::Unhealthy],
            ..config(&double)
        };
        let (reporter, _) = reporter(config);
        reporter.report(unhealthy());
        until("the taint", || {
            double.node()["spec"]["taints"].as_array().unwrap().len() == 2
        })
        .await;
        match path {
            "/status" => until("an event", || !double.events().is_empty()).await,
            _ => says(&double, "True", "RuntimeSilent").await,
        }
        sleep(Duration::from_millis(1500)).await;
        let tries = double
            .requests()
            .into_iter()
            .filter(|it| it.path.contains(path))
            .count();
        // A server that has just started refuses requests that it allows a second later.
        let most = if status == 403 { 4 } else { 1 };
        assert!(tries <= most, "{path} {status}: it was tried {tries} times");
    }
}

#[tokio::test]
async fn the_condition_and_the_taint_are_removed_at_a_stop() {
    assert_removed_at_a_stop(&Double::start().await).await;
}

#[tokio::test]
async fn a_taint_that_the_watch_does_not_show_yet_is_removed_at_a_stop() {
    let double = Double::start().await;
    double.delay_watches(Duration::from_millis(100));
    assert_removed_at_a_stop(&double).await;
}
