//! Logs of all writers, with all kinds of prefixes.

mod read;

use analyze::kind::Kind;
use analyze::series::Pattern;
use read::{causes, pleg, text};

const MESSAGE: &str = "E0505 13:59:56.872880    2858 kubelet.go:2055] \"Skipping pod synchronization\" err=\"PLEG is not healthy: pleg was last seen active 16m6.5s ago; threshold is 3m0s\"";

/// Checks that the kubelet's line is read completely in this form.
#[track_caller]
fn carried(line: &str) {
    let found = text(line);
    let input = &found.inputs[0];
    assert_eq!(
        (input.kind, input.unread_lines),
        (Kind::KubeletLog, 0),
        "{line}"
    );
    let interval = &pleg(&found).intervals[0];
    assert_eq!(interval.peak_seconds, 966.5, "{line}");
    let start = interval.start.unwrap_or_else(|| panic!("no time: {line}"));
    assert!(
        start.to_string().contains(":59:56.87288"),
        "{start}: {line}"
    );
}

#[test]
fn the_kubelets_line_is_read_with_every_prefix() {
    let escaped = serde_json::to_string(MESSAGE).unwrap();
    for carrier in [
        "",
        "May 05 13:59:56 n1 kubelet[2858]: ",
        "May  5 13:59:56 n1 kubelet: ",
        "May 05 13:59:56.872899 n1 hyperkube[2858]: ",
        "2023-05-05T13:59:56+0000 n1 kubelet[2858]: ",
        "2023-05-05T13:59:56.872899+00:00 n1 rke2[2858]: ",
        "Fri 2023-05-05 13:59:56 UTC n1 k3s[2858]: ",
        "1683295196.872899 n1 kubelet[2858]: ",
        "<30>May 05 13:59:56 n1 kubenswrapper[2858]: ",
        "<30>1 2023-05-05T13:59:56.872899Z n1 kubelet 2858 - - ",
        "2023-05-05T13:59:56.872899Z stderr F ",
        "10.200.1.3: ",
        "kubelet[2858]: ",
        "12 | May 05 13:59:56 n1 kubelet[2858]: ",
        "> ",
        "\0\0\0\0",
        "node-7 | ",
        "May 05 13:59:56 n1 microk8s.daemon-kubelite[2858]: ",
        "the journal of that node says: ",
    ] {
        carried(&format!("{carrier}{MESSAGE}\n"));
    }
    carried(&format!(
        "{{\"log\":{escaped},\"stream\":\"stderr\",\"time\":\"2023-05-05T13:59:56.8Z\"}}\n"
    ));
    carried(&format!(
        "{{\"__REALTIME_TIMESTAMP\":\"1683295196872899\",\"SYSLOG_IDENTIFIER\":\"kubelet\",\"_HOSTNAME\":\"n1\",\"_PID\":\"2858\",\"MESSAGE\":{escaped}}}\n"
    ));
    carried(
        "{\"ts\":1683295196872.88,\"caller\":\"kubelet/kubelet.go:2055\",\"msg\":\"Skipping pod synchronization\",\"err\":\"PLEG is not healthy: pleg was last seen active 16m6.5s ago; threshold is 3m0s\"}\n",
    );
}

#[test]
fn a_sentence_without_a_log_around_it_is_read() {
    for line in [
        "Node became not ready: {Type:Ready Status:False Reason:KubeletNotReady Message:PLEG is not healthy: pleg was last seen active 16m6.5s ago; threshold is 3m0s}",
        "message: '[container runtime is down PLEG is not healthy: pleg was last seen active 16m6.5s ago; threshold is 3m0s]'",
    ] {
        let found = text(line);
        assert_eq!(found.inputs[0].kind, Kind::KubeletLog, "{line}");
        assert_eq!(pleg(&found).intervals[0].peak_seconds, 966.5, "{line}");
    }
    let row = "Ready False Fri, 05 May 2023 KubeletNotReady PLEG is not healthy: pleg was last seen active 16m6.5s ago; threshold is 3m0s";
    let found = text(row);
    assert_eq!(found.inputs[0].kind, Kind::KubectlDescribe);
    assert_eq!(pleg(&found).intervals[0].peak_seconds, 966.5);
}

#[track_caller]
fn cause(kind: Kind, line: &str, cause: &str) {
    let found = text(line);
    assert_eq!(
        (found.inputs[0].kind, causes(&found)),
        (kind, vec![cause]),
        "{line}"
    );
}

#[test]
fn lines_of_the_runtime_become_findings() {
    let id = "c1".repeat(32);
    cause(
        Kind::RuntimeLog,
        &format!(
            "time=\"2023-05-05T13:59:56.1Z\" level=error msg=\"get state for {id}\" error=\"context deadline exceeded: unknown\"\n"
        ),
        "shim-unresponsive",
    );
    cause(
        Kind::RuntimeLog,
        "May 05 13:59:56 n1 dockerd[7]: http: Accept error: accept unix /var/run/docker.sock: accept4: too many open files; retrying in 1s\n",
        "fd-or-inotify-exhausted",
    );
    cause(
        Kind::RuntimeLog,
        "{\"level\":\"fatal\",\"msg\":\"failed to load plugin io.containerd.grpc.v1.cri\",\"time\":\"2023-05-05T13:59:56Z\"}\n",
        "runtime-unresponsive",
    );
    cause(
        Kind::RuntimeLog,
        "time=\"2023-05-05T13:59:56.1Z\" level=error msg=\"RunPodSandbox failed\" error=\"failed to setup network for sandbox: plugin type=calico failed (add): context deadline exceeded\"\n",
        "cni-plugin-hang",
    );
    cause(
        Kind::RuntimeLog,
        "time=\"2023-05-05T13:59:56.1Z\" level=error msg=\"runc create failed: fork/exec /proc/self/exe: resource temporarily unavailable\"\n",
        "pids-exhausted",
    );
}

#[test]
fn an_unreachable_runtime_is_not_confused_with_a_start_or_another_server() {
    let header = |second: u32| format!("E0505 13:59:{second:02}.872880    2858 ");
    let refused = "remote_runtime.go:207] \"ListPodSandbox with filter from runtime service failed\" err=\"rpc error: code = Unavailable desc = connection error: desc = \\\"transport: Error while dialing dial unix /run/containerd/containerd.sock: connect: connection refused\\\"\"";
    let gone: String = (10..20).map(|at| header(at) + refused + "\n").collect();
    let found = text(&gone);
    assert_eq!(causes(&found), ["runtime-unresponsive"]);
    assert!(found.findings[0].evidence[0].contains("for at least 9 s"));
    // Half a minute later no line complains, so the runtime is back.
    let later = "I0505 14:01:00.872880    2858 kubelet.go:2055] \"SyncLoop ADD\" source=\"api\"\n";
    assert!(!text(gone + later).has_problem());
    for line in [
        "kubelet.go:1765] skipping pod synchronization - [container runtime is down PLEG is not healthy: pleg was last seen active 2562047h47m16.854775807s ago; threshold is 3m0s]",
        "kubelet_node_status.go:92] \"Unable to register node with API server\" err=\"Post \\\"https://10.0.0.1:6443/api/v1/nodes\\\": dial tcp 10.0.0.1:6443: connect: connection refused\"",
        "csi_plugin.go:178] grpc: addrConn.createTransport failed to connect to /var/lib/kubelet/plugins/x/csi.sock: dial unix /var/lib/kubelet/plugins/x/csi.sock: connect: no such file or directory",
    ] {
        let found = text(header(10) + line + "\n");
        assert!(found.findings.is_empty(), "{line}: {:#?}", found.findings);
    }
}

#[test]
fn lines_of_systemd_and_the_kernel_become_findings() {
    cause(
        Kind::SystemdLog,
        "May 05 13:59:56 n1 dbus-daemon[7]: [system] Failed to activate service 'org.freedesktop.systemd1': timed out\n",
        "bus-unavailable",
    );
    cause(
        Kind::SystemdLog,
        "May 05 13:59:56 n1 systemd[1]: Freezing execution.\n",
        "bus-unavailable",
    );
    cause(
        Kind::KernelLog,
        "[450528.013688] unregister_netdevice: waiting for lo to become free. Usage count = 1\n",
        "rtnl-stuck",
    );
    cause(
        Kind::KernelLog,
        "May 05 13:59:56 n1 kernel: nfs: server 10.0.0.1 not responding, still trying\n",
        "storage-unresponsive",
    );
    cause(
        Kind::KernelLog,
        "[Fri May  5 13:59:56 2023] Out of memory: Killed process 812 (containerd) total-vm:1kB\n",
        "memory-thrash",
    );
    cause(
        Kind::KernelLog,
        "10.5.0.2: kern:    info: [2023-05-05T13:59:56.6Z]: cgroup: fork rejected by pids controller in /system.slice/docker.service\n",
        "pids-exhausted",
    );
}

#[test]
fn stacks_of_the_kernel_become_findings() {
    cause(
        Kind::KernelStack,
        "[<0>] fanotify_handle_event+0x1d/0x2f0\n[<0>] fsnotify+0x1/0x2\n",
        "fanotify-blocked",
    );
    cause(
        Kind::KernelStack,
        "PID: 7  TASK: ffff880951f70fd0  CPU: 1  COMMAND: \"kubelet\"\n #0 [ffff880826267a40] __schedule at ffffffff816a8f65\n #1 [ffff880826267a50] rpc_wait_bit_killable at ffffffff816a8f65\n",
        "storage-unresponsive",
    );
    cause(
        Kind::KernelLog,
        "[1.2] INFO: task kworker/u4:2:77 blocked for more than 120 seconds.\n[1.2] Call Trace:\n[1.2]  __mutex_lock+0x1/0x2\n[1.2]  rtnl_lock+0x15/0x20\n",
        "rtnl-stuck",
    );
}

#[test]
fn a_journal_of_all_writers_gives_one_timeline() {
    let journal = format!(
        "May 05 13:50:00 n1 systemd[1]: Started Session 12 of user root.\n\
         May 05 13:55:00 n1 kernel: nfs: server 10.0.0.1 not responding, still trying\n\
         May 05 13:59:56 n1 kubelet[2858]: {MESSAGE}\n\
         May 05 13:59:57 n1 kubelet[2858]: I0505 13:59:57.1 2858 x.go:1] y\n\
         May 05 13:59:58 n1 sshd[7]: Accepted publickey\n"
    );
    let found = text(&journal);
    assert_eq!(found.inputs[0].unread_lines, 0);
    assert_eq!(pleg(&found).pattern, Pattern::ListNeverSucceeds);
    let timeline: Vec<u64> = found.timeline.iter().map(|quote| quote.line).collect();
    assert_eq!(timeline, [2, 3]);
}

#[test]
fn a_dump_in_the_kubelets_journal_is_read_along_with_the_log() {
    let carried = |text: &str| {
        text.lines()
            .map(|line| format!("May 05 14:00:00 n1 kubelet[2858]: {line}\n"))
            .collect::<String>()
    };
    let dump = carried(
        "SIGABRT: abort\nPC=0x46d0a1 m=0 sigcode=0\n\ngoroutine 386 [chan send, 11 minutes]:\nk8s.io/kubernetes/pkg/kubelet/pleg.(*GenericPLEG).relist(0xc42069ea20)\n\t/x/generic.go:261 +0x74e\n\nrax    0x0\n",
    );
    let found = text(format!("{}{dump}{}", carried(MESSAGE), carried(MESSAGE)));
    assert_eq!(found.inputs[0].unread_lines, 0, "{found:#?}");
    assert_eq!(found.goroutines.as_ref().unwrap().total, 1);
    assert_eq!(causes(&found), ["kubelet-internal"]);
    assert_eq!(pleg(&found).intervals[0].lines, 2);
}

#[test]
fn a_log_of_k3s_is_the_kubelets() {
    let own = "Oct  8 16:29:50 n1 k3s[1636]: time=\"2020-10-08T16:29:50Z\" level=info msg=\"Cluster-Http-Server\"\n";
    let found = text(format!(
        "{}Oct  8 16:29:51 n1 k3s[1636]: {MESSAGE}\n",
        own.repeat(5)
    ));
    assert_eq!(found.inputs[0].kind, Kind::KubeletLog);
}

#[test]
fn a_year_that_a_later_line_shows_applies_to_all_lines() {
    let before = "Jan 09 19:48:52 n1 kubelet[9136]: I0109 19:48:52.100000    9136 kubelet.go:1765] skipping pod synchronization - [PLEG is not healthy: pleg was last seen active 3m4.2s ago; threshold is 3m0s]\n";
    let condition = "Jan 09 19:48:52 n1 kubelet[9136]: I0109 19:48:52.460707    9136 setters.go:559] Node became not ready: {Type:Ready Status:False LastHeartbeatTime:2021-01-09 19:48:52.460628029 +0800 CST m=+1199233.179416634 Reason:KubeletNotReady Message:PLEG is not healthy: pleg was last seen active 3m4.612899233s ago; threshold is 3m0s}\n";
    let found = text(format!("{before}{condition}"));
    let interval = &pleg(&found).intervals[0];
    assert_eq!(interval.lines, 2);
    assert_eq!(
        interval.start.unwrap().to_string(),
        "2021-01-09T11:48:52.100000000Z"
    );
    let time = found.timeline[0].time.unwrap();
    assert_eq!(time.to_string(), "2021-01-09T11:48:52.100000000Z");
}

const LATE_LEASE: &str = "E0412 10:49:32.719846   23221 controller.go:178] failed to update node lease, error: Put https://192.0.2.49:6443/x?timeout=10s: context deadline exceeded\n";

#[test]
fn one_late_lease_is_usual_and_two_are_a_problem() {
    assert!(!text(LATE_LEASE).has_problem());
    let found = text(format!("{LATE_LEASE}{LATE_LEASE}"));
    assert_eq!(causes(&found), ["api-server-unreachable"]);
    assert!(found.summary.contains("API server"), "{}", found.summary);
}

#[test]
fn a_fatal_error_of_the_kubelet_is_a_problem() {
    let fatal = "F0412 10:49:32.719846   23221 server.go:196] the cloud provider is not known\n";
    assert!(text(fatal).has_problem());
    assert!(!text(fatal.replace('F', "E")).has_problem());
    let skipped = "I0802 14:51:42.855708   19214 kubelet.go:1752] skipping pod synchronization - [x already exists.]\n";
    assert!(!text(skipped).has_problem());
    assert!(text(format!("{skipped}{skipped}")).has_problem());
}

#[test]
fn a_container_that_cannot_be_created_is_a_problem_unless_its_command_is_wrong() {
    let line = |reason: &str| {
        format!("Nov 18 14:55:52 n1 conmon[2154]: runtime stderr: runc create failed: {reason}\n")
    };
    assert!(text(line("can't get final child's PID from pipe: EOF")).has_problem());
    for of_the_pod in [
        "exec: \"top\": executable file not found in $PATH",
        "exec /entrypoint.sh: exec format error",
    ] {
        assert!(!text(line(of_the_pod)).has_problem(), "{of_the_pod}");
    }
}
