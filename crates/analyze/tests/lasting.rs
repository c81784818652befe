//! States that a kubelet reports repeatedly until they are over.

mod read;

use read::text;

/// A line of the kubelet, this many seconds after 13:00.
fn line(seconds: u32, message: &str) -> String {
    let (minute, second) = (seconds / 60, seconds % 60);
    format!("E0505 13:{minute:02}:{second:02}.872880    2858 {message}\n")
}

const NO_NETWORK: &str = "kubelet.go:2874] \"Container runtime network not ready\" networkReady=\"NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized\"";
const REFUSED: &str = "kubelet_node_status.go:92] \"Unable to register node with API server\" err=\"Post \\\"https://10.0.0.2:6443/api/v1/nodes\\\": dial tcp 10.0.0.2:6443: connect: connection refused\" node=\"n1\"";
const STARTED: &str = "server.go:1233] \"Started kubelet\"";
const REGISTERED: &str = "kubelet_node_status.go:76] \"Successfully registered node\" node=\"n1\"";
const READY: &str = "kubelet_node_status.go:497] \"Recording event message for node\" node=\"n1\" event=\"NodeReady\"";
const USUAL: &str = "kubelet.go:2055] \"SyncLoop DELETE\" source=\"api\" pods=[\"default/web\"]";

/// This message every five seconds, from the first to the last second.
fn every_five(from: u32, to: u32, message: &str) -> String {
    let seconds = (from..=to).step_by(5);
    seconds.map(|second| line(second, message)).collect()
}

#[track_caller]
fn shows(log: &str, cause: &str) {
    let found = text(log);
    let leading = found.leading().map(|finding| finding.cause.id());
    assert_eq!(leading, Some(cause), "{}", found.summary);
}

#[track_caller]
fn is_healthy(log: &str) {
    let found = text(log);
    assert!(!found.has_problem(), "{}", found.summary);
}

#[test]
fn a_state_that_lasts_until_the_end_is_reported() {
    shows(&every_five(0, 30, NO_NETWORK), "cni-not-ready");
    shows(&every_five(0, 30, REFUSED), "api-server-unreachable");
}

#[test]
fn a_state_that_ended_before_the_log_did_is_not_reported() {
    let network = every_five(0, 30, NO_NETWORK);
    is_healthy(&(network.clone() + &line(34, READY)));
    is_healthy(&(network + &every_five(40, 200, USUAL)));
    is_healthy(&(every_five(0, 30, REFUSED) + &line(34, REGISTERED)));
}

#[test]
fn a_state_that_begins_again_is_reported() {
    let again =
        every_five(0, 30, NO_NETWORK) + &line(34, READY) + &every_five(300, 330, NO_NETWORK);
    shows(&again, "cni-not-ready");
}

#[test]
fn states_in_the_first_minute_of_a_kubelet_are_not_reported() {
    let start = line(0, STARTED) + &every_five(1, 50, REFUSED) + &every_five(2, 50, NO_NETWORK);
    is_healthy(&start);
    shows(&(start + &every_five(70, 90, NO_NETWORK)), "cni-not-ready");
}

#[test]
fn an_expired_certificate_of_a_registry_is_not_a_problem_of_the_node() {
    let pull = "kuberuntime_image.go:53] \"Failed to pull image\" err=\"failed to do request: Head \\\"https://registry.example/v2/web/manifests/1\\\": x509: certificate has expired or is not yet valid\"";
    is_healthy(&every_five(0, 30, pull));
}

#[test]
fn a_line_that_counts_the_restarts_itself_is_enough() {
    let restarted = |times: u32| {
        format!(
            "May  5 13:59:56 n1 systemd[1]: kubelet.service: Scheduled restart job, restart counter is at {times}.\n"
        )
    };
    is_healthy(&restarted(1));
    is_healthy(&restarted(5));
    shows(&restarted(412), "kubelet-not-running");
}

#[test]
fn a_container_that_fails_again_is_counted_however_many_others_have_failed_meanwhile() {
    let stop = |number: u32| {
        let id = format!("{number:064x}");
        format!(
            "time=\"2026-05-05T13:00:00Z\" level=error msg=\"StopContainer for \\\"{id}\\\" with timeout 30 (s): container {id} with stop signal timed out after 30s\"\n"
        )
    };
    let others: String = (2..600).map(stop).collect();
    let found = text(stop(1) + &others + &stop(1));
    let shown = found.summary.to_string();
    assert!(shown.contains("a container cannot be killed"), "{shown}");
}
