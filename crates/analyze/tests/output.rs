//! What commands print: each form, with and without a prompt.

mod read;

use analyze::kind::Kind;
use causes::finding::Confidence;
use read::{causes, text};

/// Checks the kind of this output, and which causes it shows.
#[track_caller]
fn output(kind: Kind, named: &[&str], page: &str) {
    let found = text(page);
    assert_eq!(found.inputs[0].kind, kind, "{page}");
    assert_eq!(causes(&found), named, "{page}");
    assert_eq!(found.inputs[0].unread_lines, 0, "{page}");
}

/// Checks that there is a problem without a known cause.
#[track_caller]
fn trouble(page: &str) {
    let found = text(page);
    assert!(
        found.findings.is_empty() && found.has_problem(),
        "{found:#?}"
    );
    assert!(
        found.summary.starts_with("There is a problem"),
        "{}",
        found.summary
    );
}

#[track_caller]
fn healthy(page: &str) {
    let found = text(page);
    assert!(!found.has_problem(), "{found:#?}");
}

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
fn a_unit_that_is_down_is_named() {
    for (unit, active) in [
        ("docker", "failed (Result: start-limit)"),
        ("containerd", "inactive (dead)"),
        ("crio", "activating (auto-restart) (Result: exit-code)"),
    ] {
        let page = format!(
            "$ sudo systemctl status {unit}\n● {unit}.service - a runtime\n     Loaded: loaded (/lib/systemd/system/{unit}.service; enabled)\n     Active: {active} since Mon 2023-06-05 10:00:00 UTC; 3s ago\n"
        );
        output(Kind::ToolOutput, &["runtime-unresponsive"], &page);
        let found = text(&page);
        let named = found.findings[0].culprit.unit.as_deref();
        assert_eq!(named, Some(format!("{unit}.service").as_str()));
    }
    healthy(
        "● docker.service - Docker Application Container Engine\n   Loaded: loaded (/lib/systemd/system/docker.service; enabled)\n   Active: active (running) since Mon 2023-06-05 10:00:00 UTC; 3s ago\n    Tasks: 34 (limit: 4915)\n",
    );
}

#[test]
fn a_unit_at_its_limit_of_tasks_is_named_if_the_node_needs_it() {
    let page = |unit: &str| {
        format!(
            "● {unit}.service - a service\n   Active: active (running) since Mon 2023-06-05 10:00:00 UTC; 3s ago\n    Tasks: 4914 (limit: 4915)\n"
        )
    };
    let found = text(page("containerd"));
    assert_eq!(causes(&found), ["pids-exhausted"]);
    let named = found.findings[0].culprit.unit.as_deref();
    assert_eq!(named, Some("containerd.service"));
    healthy(&page("mysql"));
}

#[test]
fn a_full_disk_is_not_confused_with_a_file_system_that_is_always_full() {
    let header = "Filesystem      Size  Used Avail Use% Mounted on\n";
    output(
        Kind::ToolOutput,
        &["disk-full"],
        &format!("{header}/dev/sda1        50G   50G     0 100% /\n"),
    );
    output(
        Kind::ToolOutput,
        &["disk-full"],
        "Filesystem      Inodes   IUsed IFree IUse% Mounted on\n/dev/sda1      3276800 3276800     0  100% /var/lib/docker\n",
    );
    healthy(&format!(
        "{header}/dev/loop0       56M   56M     0 100% /snap/core18/1988\ntmpfs           3.2G  2.1M  3.1G   1% /run\n"
    ));
}

#[test]
fn both_layouts_of_free_show_that_memory_is_used_up() {
    output(
        Kind::ToolOutput,
        &["memory-thrash"],
        "              total        used        free      shared  buff/cache   available\nMem:          15885       15610         121          12         153         102\nSwap:             0           0           0\n",
    );
    output(
        Kind::ToolOutput,
        &["memory-thrash"],
        "             total       used       free     shared    buffers     cached\nMem:         15885      15810         75          0          2         60\n-/+ buffers/cache:      15748        137\nSwap:            0          0          0\n",
    );
    healthy(
        "$ free -h\n              total        used        free      shared  buff/cache   available\nMem:           31Gi       8.9Gi       1.1Gi        38Mi        21Gi        21Gi\n",
    );
}

#[test]
fn top_shows_which_resource_is_short() {
    let page = |load: &str, processors: &str, row: &str| {
        format!(
            "top - 14:31:55 up 3 days,  2:20,  2 users,  load average: {load}\nTasks: 351 total\n%Cpu(s): {processors}\n\n  PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n{row}\n"
        )
    };
    let idle = " 4471 root      20   0 3052800 118412  37204 S   3.6  0.7 612:40.18 kubelet";
    let kswapd = "   67 root      20   0       0      0      0 R  98.0  0.0 612:40.18 kswapd0";
    output(
        Kind::ToolOutput,
        &["disk-saturated"],
        &page(
            "40.1, 38.0, 35.0",
            "2.0 us, 5.0 sy, 0.0 ni, 1.0 id, 92.0 wa, 0.0 hi, 0.0 si, 0.0 st",
            idle,
        ),
    );
    output(
        Kind::ToolOutput,
        &["cpu-starved"],
        &page(
            "2.1, 2.0, 2.0",
            "9.0 us, 5.0 sy, 0.0 ni, 6.0 id, 0.0 wa, 0.0 hi, 0.0 si, 80.0 st",
            idle,
        ),
    );
    output(
        Kind::ToolOutput,
        &["memory-thrash"],
        &page(
            "9.1, 8.0, 5.0",
            "2.0 us, 45.0 sy, 0.0 ni, 50.0 id, 3.0 wa, 0.0 hi, 0.0 si, 0.0 st",
            kswapd,
        ),
    );
    healthy(&page(
        "0.8, 0.7, 0.6",
        "9.0 us, 5.0 sy, 0.0 ni, 85.0 id, 1.0 wa, 0.0 hi, 0.0 si, 0.0 st",
        idle,
    ));
}

#[test]
fn iostat_and_vmstat_show_a_disk_that_does_not_keep_up() {
    let devices = |await_: &str, util: &str| {
        format!(
            "Device            r/s     w/s     rkB/s     wkB/s   await  %util\nsda             81.40  218.90   1302.40   9822.60   {await_} {util}\n"
        )
    };
    output(
        Kind::ToolOutput,
        &["disk-saturated"],
        &devices("688.25", "100.00"),
    );
    output(
        Kind::ToolOutput,
        &["disk-saturated"],
        &devices("688,25", "100,00"),
    );
    healthy(&devices("1.02", "99.00"));
    healthy(&devices("88.02", "12.00"));
    let processors = |wait: &str, steal: &str| {
        format!(
            "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           6.12    0.00    4.83   {wait}    {steal}    1.03\n"
        )
    };
    output(
        Kind::ToolOutput,
        &["disk-saturated"],
        &processors("88.02", "0.00"),
    );
    output(
        Kind::ToolOutput,
        &["cpu-starved"],
        &processors("1.02", "70.00"),
    );
    healthy(&processors("2.00", "0.00"));
    output(
        Kind::ToolOutput,
        &["disk-saturated"],
        "$ vmstat 1\nprocs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n 1 19      0 812344  12044 902344    0    0  1200  9800 4100 8100  5  4  2 89  0\n",
    );
}

#[test]
fn an_interrupted_command_shows_what_hangs() {
    let id = "d0f631ca1ddb";
    let found = text(format!(
        "[root@n1 ~]# docker inspect {id}\n^C\n[root@n1 ~]# docker ps\nCONTAINER ID   IMAGE   COMMAND\n"
    ));
    assert_eq!(causes(&found), ["container-lock"]);
    assert_eq!(found.findings[0].culprit.id.as_deref(), Some(id));
    let found = text("root@n1:~# crictl pods\n^C\n");
    assert_eq!(causes(&found), ["runtime-unresponsive"]);
}

#[test]
fn a_tool_that_cannot_connect_accuses_the_runtime_unless_permission_is_denied() {
    output(
        Kind::ToolOutput,
        &["runtime-unresponsive"],
        "FATA[0002] validate service connection: validate CRI v1 runtime API for endpoint \"unix:///run/containerd/containerd.sock\": rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused\"\n",
    );
    output(
        Kind::ToolOutput,
        &["runtime-unresponsive"],
        "$ docker ps\nCannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
    );
    output(
        Kind::ToolOutput,
        &["runtime-unresponsive"],
        "ctr: failed to dial \"/run/containerd/containerd.sock\": context deadline exceeded\n",
    );
    healthy(
        "$ crictl ps\nFATA[0000] validate service connection: dial unix /run/containerd/containerd.sock: connect: permission denied\n",
    );
}

#[test]
fn a_stopped_process_and_a_call_that_timed_out_show_causes() {
    output(
        Kind::ToolOutput,
        &["shim-unresponsive"],
        "Name:\tcontainerd-shim\nUmask:\t0022\nState:\tT (stopped)\nTgid:\t4242\n",
    );
    output(
        Kind::ToolOutput,
        &["bus-unavailable"],
        "root@n1:~# busctl status org.freedesktop.systemd1\nFailed to get properties: Connection timed out\n",
    );
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

/// A kernel that loops in writeback. Its release is not in the table of known faults.
const LOOPS_IN_WRITEBACK: &str = "\
[  467.626433] watchdog: BUG: soft lockup - CPU#5 stuck for 22s! [kworker/u16:4:103]
[  467.663395] CPU: 5 PID: 103 Comm: kworker/u16:4 Not tainted 4.14.198-152.320.amzn2.x86_64 #1
[  467.668873] Hardware name: Amazon EC2 m5.2xlarge/, BIOS 1.0 10/16/2017
[  467.672456] Workqueue: writeback wb_workfn (flush-259:0)
[  467.675605] task: ffff888802060000 task.stack: ffffc90003468000
[  467.678961] RIP: 0010:move_expired_inodes+0x55/0x230
";

#[test]
fn a_known_fault_of_the_kernel_is_claimed_only_if_release_and_stack_match() {
    let claims = |page: &str| {
        let found = text(page);
        let leading = found.findings.first().expect("a finding");
        assert!(leading.fixed_in.is_empty(), "{leading:?}");
        let said = format!("{} {}", found.summary, leading.evidence.join(" "));
        let is_known = leading.cause.id() == "kernel-regression";
        assert!(is_known || leading.cause.id() == "kernel-stall", "{said}");
        assert_eq!(said.contains("known fault"), is_known, "{said}");
        is_known
    };
    assert!(!claims(LOOPS_IN_WRITEBACK));
    let affected = LOOPS_IN_WRITEBACK.replace("4.14.198-152.320", "4.14.177-139.253");
    assert!(claims(&affected));
    let elsewhere = affected.replace("move_expired_inodes", "napi_poll");
    assert!(!claims(&elsewhere));
}

/// The confidence and the advice of the cause that a sample shows.
#[track_caller]
fn of_sample(cause: &str, sample: &str) -> (Confidence, String) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../causes/causes");
    let page = std::fs::read(format!("{folder}/{cause}/samples/hit/{sample}")).unwrap();
    let mut findings = text(page).findings.into_iter();
    let found = findings
        .find(|finding| finding.cause.id() == cause)
        .unwrap();
    (found.confidence, found.advice.join("\n"))
}

#[test]
fn the_version_of_runc_and_a_listing_show_more_together_than_each_alone() {
    let (sure, advice) = of_sample("runc-short-exec-stuck", "idle.txt");
    assert_eq!(sure, Confidence::High);
    assert!(advice.starts_with("run `kill -KILL 900`"), "{advice}");
    let (sure, advice) = of_sample("runc-seccomp-pipe", "pipe.txt");
    assert_eq!(sure, Confidence::Certain);
    assert!(advice.starts_with("run `kill -KILL 910`"), "{advice}");
}

#[test]
fn a_count_of_control_groups_adds_what_is_left_to_do() {
    let (sure, advice) = of_sample("memory-cgroup-leak", "counts.txt");
    assert_eq!(sure, Confidence::Certain);
    assert!(advice.contains("61102 are used now"), "{advice}");
}
