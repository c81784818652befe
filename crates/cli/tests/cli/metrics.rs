//! The metrics of an agent.

use pleg::runtime::{CallError, Rpc};
use sim::Fault;

use crate::support::{Agent, FakeRuntime, families, value};

#[test]
fn all_documented_metrics_exist() {
    let mut runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    // An exit, and a call that fails.
    let failure = CallError::Refused("not today".into());
    runtime.sim.exit("a", "x", 1);
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("a/x.0"), Fault::Fail(failure));
    agent.wait("/metrics", |answer| {
        let errors = "pleg_runtime_operations_errors_total{operation_type=\"container_status\"}";
        value(&answer.body, errors).is_some_and(|count| count > 0.0)
    });
    runtime.sim.lift_all();
    let died = "pleg_events_total{type=\"ContainerDied\"}";
    let answer = agent.wait("/metrics", |answer| value(&answer.body, died) == Some(1.0));
    let families = families(&answer.body);
    for (name, kind, series) in [
        ("pleg_health", "gauge", "pleg_health{state=\"Healthy\"}"),
        (
            "pleg_inflight_seconds",
            "gauge",
            "pleg_inflight_seconds{operation_type=\"list_containers\"}",
        ),
        (
            "pleg_stuck",
            "gauge",
            "pleg_stuck{operation_type=\"container_status\"}",
        ),
        ("pleg_last_seen_seconds", "gauge", "pleg_last_seen_seconds"),
        (
            "pleg_relist_duration_seconds",
            "histogram",
            "pleg_relist_duration_seconds_count",
        ),
        (
            "pleg_event_latency_seconds",
            "histogram",
            "pleg_event_latency_seconds_count{source=\"relist\"}",
        ),
        (
            "pleg_events_total",
            "counter",
            "pleg_events_total{type=\"ContainerStarted\"}",
        ),
        (
            "pleg_conflated_events_total",
            "counter",
            "pleg_conflated_events_total",
        ),
        (
            "pleg_list_response_bytes",
            "gauge",
            "pleg_list_response_bytes{operation_type=\"list_podsandbox\"}",
        ),
        (
            "pleg_runtime_operations_total",
            "counter",
            "pleg_runtime_operations_total{operation_type=\"version\"}",
        ),
        (
            "pleg_runtime_operations_errors_total",
            "counter",
            "pleg_runtime_operations_errors_total{operation_type=\"container_status\"}",
        ),
        (
            "pleg_runtime_operations_duration_seconds",
            "histogram",
            "pleg_runtime_operations_duration_seconds_sum{operation_type=\"list_containers\"}",
        ),
    ] {
        let family = families
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(family.kind, kind, "{name}");
        assert!(
            family.series.contains(series),
            "{series} in {:#?}",
            family.series
        );
    }
    assert!(
        !families.contains_key("pleg_kubelet_notready_in_seconds"),
        "no problem expected"
    );
    assert!(families.keys().all(|name| name.starts_with("pleg_")));

    runtime.go_away();
    agent.wait("/metrics", |answer| {
        let seconds = value(&answer.body, "pleg_kubelet_notready_in_seconds");
        seconds.is_some_and(|seconds| seconds > 60.0 && seconds <= 180.0)
            && value(&answer.body, "pleg_health{state=\"Degraded\"}") == Some(1.0)
    });
    runtime.come_back();
    agent.wait_healthy();
    let text = agent.get("/metrics").body;
    assert_eq!(value(&text, "pleg_kubelet_notready_in_seconds"), None);
    assert_eq!(value(&text, "pleg_health{state=\"Healthy\"}"), Some(1.0));
}

#[test]
fn the_age_of_a_stuck_call_grows() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::configured(&runtime.endpoint(), "listOverdue: 100ms\n");
    agent.wait_healthy();
    runtime.sim.fault(Rpc::ListPodSandbox, None, Fault::Hang);
    let age = |text: &str| {
        let series = "pleg_inflight_seconds{operation_type=\"list_podsandbox\"}";
        value(text, series).unwrap()
    };
    let first = agent.wait("/metrics", |answer| age(&answer.body) > 0.2);
    let second = agent.wait("/metrics", |answer| age(&answer.body) > 0.5);
    assert!(age(&second.body) > age(&first.body));
    let stuck = "pleg_stuck{operation_type=\"list_podsandbox\"}";
    assert_eq!(value(&second.body, stuck), Some(1.0));
    runtime.sim.lift_all();
    agent.wait_healthy();
    assert_eq!(value(&agent.get("/metrics").body, stuck), Some(0.0));
}

#[test]
fn two_agents_count_separately() {
    let one = FakeRuntime::with_pods(&[("a", &["x"])]);
    let two = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"]), ("c", &["x"])]);
    let agents = [
        Agent::watching(&one.endpoint()),
        Agent::watching(&two.endpoint()),
    ];
    let counted = agents.each_ref().map(|agent| {
        agent.wait_healthy();
        let text = agent.get("/metrics/kubelet").body;
        value(&text, "kubelet_running_pods").unwrap()
    });
    assert_eq!(counted, [1.0, 3.0]);
}
