//! `/metrics/kubelet` compared with the metrics of a kubelet.

use crate::support::{Agent, FakeRuntime, families, value};

#[test]
fn the_kubelets_metrics_have_exactly_the_kubelets_names() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x", "y"]), ("b", &["x"])]);
    runtime.sim.exit("a", "y", 0);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let answer = agent.wait("/metrics/kubelet", |answer| {
        let interval = "kubelet_pleg_relist_interval_seconds_count";
        value(&answer.body, interval).is_some_and(|count| count > 2.0)
    });
    let ours = families(&answer.body);
    for (name, theirs) in families(include_str!("../data/kubelet-metrics.txt")) {
        let ours = ours
            .get(&name)
            .unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(
            (&ours.kind, &ours.help),
            (&theirs.kind, &theirs.help),
            "{name}"
        );
        let missing: Vec<_> = theirs.series.difference(&ours.series).collect();
        assert!(missing.is_empty(), "{name} lacks {missing:#?}");
        // A state without containers may be present; no other label may.
        let more: Vec<_> = ours.series.difference(&theirs.series).collect();
        assert!(
            more.iter()
                .all(|series| series.contains("{container_state=")),
            "{name} has {more:#?}"
        );
    }
    let text = &answer.body;
    for (series, wanted) in [
        ("kubelet_running_pods", 2.0),
        (
            "kubelet_running_containers{container_state=\"running\"}",
            2.0,
        ),
        (
            "kubelet_running_containers{container_state=\"exited\"}",
            1.0,
        ),
        // One call for each container, and one for the pid of each running one.
        (
            "kubelet_runtime_operations_total{operation_type=\"container_status\"}",
            5.0,
        ),
        (
            "kubelet_runtime_operations_total{operation_type=\"version\"}",
            1.0,
        ),
        ("kubelet_pleg_discard_events", 0.0),
    ] {
        assert_eq!(value(text, series), Some(wanted), "{series}");
    }
    assert!(!text.contains("\npleg_"), "own names are apart");
}
