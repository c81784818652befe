//! The writes to an API server, with any answers.

use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Duration;

use api_double::{Double, Wrong, new_node, until};
use cluster::{Figures, KubernetesConfig, Reporter, TaintWhen, start};
use pleg::model::wall_time::system_clock;
use pleg::out::status_report::StatusReport;
use pleg_text::GoDuration;
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use tokio::time::sleep;

fn config(double: &Double) -> KubernetesConfig {
    KubernetesConfig {
        node_name: Some("node-1".to_owned()),
        kubeconfig: Some(double.kubeconfig()),
        agents: 1,
        ..KubernetesConfig::default()
    }
}

fn reporter(config: KubernetesConfig) -> (Reporter, Registry) {
    let registry = Registry::new();
    let figures = Figures::register(&registry).unwrap();
    (start(config, figures, system_clock()).unwrap(), registry)
}

fn report(state: &str, reason: &str, message: &str, stuck: Value) -> StatusReport {
    let report = json!({
        "health": {"state": state, "reason": reason, "since": "2026-11-22T20:00:00Z", "message": message,
            "lastSeen": "2026-11-22T20:00:00Z", "ageSeconds": 0.1, "thresholdSeconds": 180.0},
        "kubeletView": {"ready": true, "message": "", "notReadyInSeconds": null},
        "relist": {"mode": "generic", "count": 1, "periodSeconds": 1.0, "lastDurationSeconds": 0.1,
            "lastKind": "list", "lastFailure": null, "sweeping": false},
        "stuck": stuck, "failing": [], "blind": [], "inFlight": [],
        "stream": {"state": "off", "events": 0, "missed": 0, "reconnects": 0},
        "kernel": {"state": "off", "watched": 0, "why": null},
        "runtime": {"name": null, "version": null, "apiVersion": null, "endpoint": "unix:///x"},
        "pods": 2, "containers": {},
    });
    serde_json::from_value(report).unwrap()
}

fn healthy() -> StatusReport {
    report("Healthy", "AllSeen", "all pods are up to date", json!([]))
}

fn stuck() -> StatusReport {
    let call = json!({"call": "ContainerStatus", "id": "abc", "container": "app", "sinceSeconds": 12.3,
        "pod": {"uid": "pod-uid", "namespace": "shop", "name": "web-1"}});
    let message = "all pods are up to date except: ContainerStatus of app in shop/web-1 (abc) has \
                   not answered for 12s";
    report("Degraded", "ContainerStuck", message, json!([call]))
}

fn unhealthy() -> StatusReport {
    let message = "PLEG is not healthy: pleg was last seen active 3m1s ago";
    report("Unhealthy", "RuntimeSilent", message, json!([]))
}

async fn says(double: &Double, status: &str, reason: &str) {
    until(&format!("{status} {reason}"), || {
        let condition = double.condition("PLEGUnhealthy");
        condition.is_some_and(|it| it["status"] == status && it["reason"] == reason)
    })
    .await;
}

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
    let requests = double.asked();
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
        .asked()
        .into_iter()
        .filter(|it| it.method != "GET")
        .count();
    assert_eq!(writes, 1);
    assert_eq!(double.events(), Vec::<Value>::new());
}

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
    let requests = double.asked();
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
async fn the_watches_of_a_fleet_do_not_end_together() {
    let double = Double::start().await;
    let tellers: Vec<_> = (0..8).map(|_| reporter(config(&double))).collect();
    let timeouts = || {
        let requests = double.asked().into_iter();
        let requests = requests.filter_map(|it| {
            let (_, timeout) = it.path.split_once("timeoutSeconds=")?;
            timeout.parse::<u64>().ok()
        });
        requests.collect::<Vec<_>>()
    };
    until("they watch", || timeouts().len() >= tellers.len()).await;
    let timeouts = timeouts();
    assert!(timeouts.iter().all(|it| (1800..=3600).contains(it)));
    let distinct: std::collections::BTreeSet<_> = timeouts.iter().collect();
    assert!(distinct.len() > 1, "{timeouts:?}");
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
    let requests = double.asked();
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
    let requests = double.asked();
    assert!(
        requests.iter().all(|it| !it.path.contains("..")),
        "{requests:?}"
    );
    assert_eq!(double.events().len(), 1);
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
    let requests = double.asked();
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
    let requests = double.asked();
    assert!(
        requests
            .iter()
            .all(|it| it.content_type != "application/json-patch+json")
    );
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
        double.go_wrong("watch=true", Wrong::Status(500));
        double.go_wrong("watch=true", Wrong::Body("{\"type\":\"ADDED\"\n"));
        double.go_wrong("/status", wrong);
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
            .asked()
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
    double.watch_late(Duration::from_millis(100));
    assert_removed_at_a_stop(&double).await;
}

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

/// Everything that is logged in this process.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log of a writer with this configuration.
async fn logged_of(config: KubernetesConfig) -> String {
    let subscriber = tracing_subscriber::fmt().with_writer(|| Log);
    let _ = subscriber.with_max_level(tracing::Level::TRACE).try_init();
    LOG.lock().unwrap().clear();
    let (reporter, _) = reporter(config);
    reporter.report(stuck());
    sleep(Duration::from_millis(1500)).await;
    reporter.stop().await;
    String::from_utf8(LOG.lock().unwrap().clone()).unwrap()
}

#[tokio::test]
async fn the_content_of_a_kubeconfig_is_never_logged() {
    let double = Double::start().await;
    let good = std::fs::read_to_string(double.kubeconfig()).unwrap();
    for bad in [
        good.replace("\"secret\"", "\"secret\": ["),
        good.replace("\"token\"", "\"client-key-data\""),
        good.replace("{\"token\":", "{\"exec\": {\"command\": \"false\"}, \"x\":"),
        good.replace("http://", "secret "),
    ] {
        assert_ne!(bad, good);
        std::fs::write(double.kubeconfig(), bad).unwrap();
        let logged = logged_of(config(&double)).await;
        assert!(logged.contains("credentials"), "{logged}");
        assert!(!logged.contains("secret"), "{logged}");
    }
}

#[tokio::test]
async fn an_unreachable_server_does_not_delay_a_stop() {
    let double = Double::start().await;
    std::fs::write(double.kubeconfig(), "nonsense: [").unwrap();
    let (reporter, _) = reporter(config(&double));
    reporter.report(stuck());
    sleep(Duration::from_millis(300)).await;
    let began = std::time::Instant::now();
    reporter.stop().await;
    assert!(began.elapsed() < Duration::from_millis(950));
}
