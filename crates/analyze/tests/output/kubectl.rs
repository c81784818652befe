//! Nodes, pods and events as `kubectl` prints them.

use analyze::kind::Kind;

use crate::read::{causes, text};
use crate::{healthy, output, trouble};

fn conditions(row: &str) -> String {
    format!(
        "Name:               n1\nRoles:              <none>\nConditions:\n  Type  Status  LastHeartbeatTime  LastTransitionTime  Reason  Message\n  ----  ------  -----------------  ------------------  ------  -------\n  {row}\nAddresses:\n  InternalIP:  10.0.0.1\n"
    )
}

const TIMES: &str = "Mon, 05 Jun 2023 10:00:00 +0000   Mon, 05 Jun 2023 09:00:00 +0000";

#[test]
fn the_conditions_of_a_node_show_causes() {
    for (kind, status, message, named) in [
        (
            "DiskPressure",
            "True",
            "KubeletHasDiskPressure   kubelet has disk pressure",
            "disk-full",
        ),
        (
            "MemoryPressure",
            "True",
            "KubeletHasInsufficientMemory   kubelet has insufficient memory available",
            "memory-thrash",
        ),
        (
            "PIDPressure",
            "True",
            "KubeletHasInsufficientPID   kubelet has insufficient PID available",
            "pids-exhausted",
        ),
        (
            "ReadonlyFilesystem",
            "True",
            "FilesystemIsReadOnly   EXT4-fs: remounting",
            "disk-errors",
        ),
        (
            "Ready",
            "False",
            "KubeletNotReady   container runtime is down",
            "runtime-unresponsive",
        ),
        (
            "FrequentKubeletRestart",
            "True",
            "FrequentKubeletRestart   Found 7 matching logs",
            "repair-loop",
        ),
    ] {
        let page = conditions(&format!("{kind}   {status}   {TIMES}   {message}"));
        output(Kind::KubectlDescribe, &[named], &page);
    }
}

#[test]
fn the_conditions_of_an_object_are_read_like_those_of_a_description() {
    let object = |status: &str, kind: &str, message: &str| {
        format!(
            "  - lastHeartbeatTime: \"2020-01-08T19:50:41Z\"\n    \
             lastTransitionTime: \"2020-01-08T19:44:30Z\"\n    message: {message}\n    \
             reason: Because\n    status: \"{status}\"\n    type: {kind}\n"
        )
    };
    let full = object("True", "DiskPressure", "kubelet has disk pressure");
    output(Kind::ToolOutput, &["disk-full"], &full);
    healthy(&object(
        "False",
        "DiskPressure",
        "kubelet has no disk pressure",
    ));
    trouble(&object(
        "False",
        "Ready",
        "'missing node capacity for\n      resources: cpu'",
    ));
    let in_json = "{\n\"lastHeartbeatTime\": \"2020-01-08T19:50:41Z\",\n\
                   \"lastTransitionTime\": \"2020-01-08T19:44:30Z\",\n\
                   \"message\": \"kubelet has disk pressure\",\n\"reason\": \"Because\",\n\
                   \"status\": \"True\",\n\"type\": \"DiskPressure\"\n}\n";
    assert_eq!(causes(&text(in_json)), ["disk-full"]);
    // Conditions of pods have no heartbeat.
    healthy("  - lastProbeTime: null\n    status: \"False\"\n    type: Ready\n");
}

#[test]
fn a_node_that_is_ready_or_just_starting_has_no_problem() {
    healthy(&conditions(&format!(
        "Ready   True   {TIMES}   KubeletReady   kubelet is posting ready status"
    )));
    healthy(&conditions(&format!(
        "Ready   False   {TIMES}   KubeletNotReady   [container runtime status check may not have completed yet, PLEG is not healthy: pleg has yet to be successful]"
    )));
}

#[test]
fn a_problem_without_a_known_cause_is_not_called_healthy() {
    trouble(&conditions(&format!(
        "Ready   Unknown   {TIMES}   NodeStatusUnknown   Kubelet stopped posting node status."
    )));
    trouble("[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n");
    trouble(
        "NAME   STATUS     ROLES    AGE   VERSION\nn1     Ready      <none>   10d   v1.30.1\nn2     NotReady   <none>   10d   v1.30.1\n",
    );
    output(
        Kind::ToolOutput,
        &["kubelet-not-running"],
        "● kubelet.service - kubelet\n   Loaded: loaded (/lib/systemd/system/kubelet.service; enabled)\n   Active: activating (auto-restart) (Result: exit-code) since Mon 2023-06-05 10:00:00 UTC; 3s ago\n",
    );
}

#[test]
fn events_in_all_layouts_are_read() {
    let message = "Failed to create pod sandbox: rpc error: code = DeadlineExceeded desc = failed to set up network for sandbox \"ab\": plugin type=\"calico\" failed (add): context deadline exceeded";
    let rows = [
        format!(
            "LAST SEEN   TYPE      REASON                   OBJECT    MESSAGE\n4m12s       Warning   FailedCreatePodSandBox   pod/web   {message}\n"
        ),
        format!("4m12s       Warning   FailedCreatePodSandBox   pod/web   {message}\n"),
        format!(
            "LASTSEEN   FIRSTSEEN   COUNT   NAME   KIND   SUBOBJECT   TYPE   REASON   SOURCE   MESSAGE\n4m   9m   3   web   Pod      Warning   FailedCreatePodSandBox   kubelet, n1   {message}\n"
        ),
        format!(
            "NAMESPACE   LAST SEEN   TYPE      REASON                   OBJECT    MESSAGE\nshop        4m12s       Warning   FailedCreatePodSandBox   pod/web   {message}\n"
        ),
    ];
    for page in rows {
        output(Kind::KubectlEvents, &["cni-plugin-hang"], &page);
    }
}

#[test]
fn a_log_after_the_output_of_a_command_is_a_log() {
    let log = "E0505 13:59:56.872880    2858 kubelet.go:2055] \"Skipping pod synchronization\" err=\"PLEG is not healthy: pleg was last seen active 16m6.5s ago; threshold is 3m0s\"\n";
    let found = text(format!(
        "{}{}",
        conditions(&format!("Ready   True   {TIMES}   KubeletReady   ready")),
        log.repeat(30)
    ));
    assert_eq!(found.inputs[0].kind, Kind::KubeletLog);
}

#[test]
fn many_pods_that_do_not_end_are_a_problem() {
    let table = |pods: usize| {
        let row = "default   web-6af85cd969-2fgwb   1/1   Terminating   1 (12d ago)   12d\n";
        format!(
            "NAMESPACE   NAME   READY   STATUS   RESTARTS   AGE\n{}",
            row.repeat(pods)
        )
    };
    healthy(&table(2));
    trouble(&table(3));
}

#[test]
fn volumes_whose_mounts_fail_repeatedly_are_a_problem() {
    let event = |count: &str| {
        format!(
            "Events:\n  Type     Reason       Age   From     Message\n  ----     ------       ----  ----     -------\n  Warning  FailedMount  15m{count}   kubelet  MountVolume.SetUp failed for volume \"x\" : mount error(112): Host is down\n"
        )
    };
    healthy(&event(""));
    trouble(&event(" (x16 over 33m)"));
}
