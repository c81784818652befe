//! Each sample is recognised: its kind, states and waits, pattern or cause.

mod read;

use analyze::analysis::Analysis;
use analyze::kind::Kind;
use analyze::series::Pattern;
use read::{causes, files, files_at_once, pleg};

/// Reads one sample, and checks that all of its lines are recognised.
#[track_caller]
fn sample(name: &str, kind: Kind) -> Analysis {
    let analysis = files(&[name]);
    let input = &analysis.inputs[0];
    assert_eq!((input.kind, input.unread_lines), (kind, 0), "{analysis:#?}");
    analysis
}

/// Reads a dump, and checks that its first group is in this state for this many minutes, in this function.
#[track_caller]
fn dump(name: &str, state: Option<&str>, minutes: Option<u64>, function: &str) -> Analysis {
    let analysis = sample(name, Kind::GoroutineDump);
    let group = &analysis.goroutines.as_ref().unwrap().groups[0];
    assert_eq!(
        (
            group.state.as_deref(),
            group.min_wait_minutes,
            group.max_wait_minutes
        ),
        (state, minutes, minutes)
    );
    assert!(group.function.ends_with(function), "{group:#?}");
    analysis
}

#[track_caller]
fn log(name: &str, pattern: Pattern, peak: f64, lines: u64) -> Analysis {
    let analysis = sample(name, Kind::KubeletLog);
    let pleg = pleg(&analysis);
    assert_eq!(pleg.pattern, pattern, "{pleg:#?}");
    assert_eq!(pleg.intervals.len(), 1, "{pleg:#?}");
    let interval = &pleg.intervals[0];
    assert!(
        (interval.peak_seconds - peak).abs() < 0.001,
        "{interval:#?}"
    );
    assert_eq!(interval.lines, lines);
    analysis
}

#[test]
fn calico_waits_for_netlink() {
    let found = dump(
        "dump-calico-felix-netlink-vishvananda254.txt",
        Some("syscall"),
        Some(66),
        "(*NetlinkSocket).Receive",
    );
    assert_eq!(causes(&found), ["cni-plugin-hang"]);
    let holder = found.goroutines.unwrap().likely_holder.unwrap();
    assert_eq!(
        (holder.goroutine, holder.wait_minutes),
        (Some(10_672_222), Some(66))
    );
}

#[test]
fn containerd_waits_for_a_status_lock_behind_links() {
    let found = dump(
        "dump-containerd-1.7-rwmutex-rlock-containerd10583.txt",
        Some("sync.RWMutex.RLock"),
        Some(1),
        "container.(*statusStorage).Get",
    );
    assert_eq!(causes(&found), ["container-status-lock"]);
    let frames = &found.goroutines.unwrap().groups[0].frames;
    assert!(frames[3].ends_with("server.toCRIContainer"), "{frames:?}");
}

#[test]
fn a_goroutine_on_one_line_is_idle() {
    let found = dump(
        "dump-containerd-1.7.32-oneline-created-by-in-goroutine-containerd13692.txt",
        Some("select"),
        Some(1544),
        "server.(*criService).Run",
    );
    assert_eq!(causes(&found), [""; 0]);
    let group = &found.goroutines.as_ref().unwrap().groups[0];
    assert!(group.idle && group.frames.len() == 2, "{group:#?}");
    assert_eq!(
        group.created_by.as_deref(),
        Some("github.com/containerd/containerd/pkg/cri.initCRIService")
    );
    assert!(!found.has_problem());
}

#[test]
fn cri_o_waits_for_a_container() {
    let found = dump(
        "dump-crio-1.29-mutex-crio9406.txt",
        Some("sync.Mutex.Lock"),
        Some(215),
        "oci.(*runtimeOCI).UpdateContainerStatus",
    );
    assert_eq!(causes(&found), ["container-lock"]);
    let group = &found.goroutines.as_ref().unwrap().groups[0];
    assert_eq!(
        (group.lock.as_deref(), group.lock_waiters),
        (Some("0xc0045c7bd0"), Some(1))
    );
}

#[test]
fn dockerd_of_18_06_waits_for_its_store_of_execs() {
    let found = dump(
        "dump-dockerd-18.06-execstore-rwmutex-dockerforlinux543.txt",
        Some("semacquire"),
        Some(5611),
        "exec.(*Store).List",
    );
    assert_eq!(causes(&found), ["container-lock"]);
}

#[test]
fn dockerd_of_20_10_waits_to_inspect() {
    let found = dump(
        "dump-dockerd-20.10.7-inspect-semacquire-eks1071.txt",
        Some("semacquire"),
        Some(528),
        "(*Daemon).ContainerInspectCurrent",
    );
    assert_eq!(causes(&found), ["container-lock"]);
}

#[test]
fn a_dump_is_read_out_of_the_journal() {
    let found = dump(
        "dump-dockerd-journald-prefixed-moby27827.txt",
        Some("semacquire"),
        Some(5),
        "Semacquire",
    );
    let group = &found.goroutines.as_ref().unwrap().groups[0];
    assert_eq!(
        group.frames,
        ["sync.runtime_Semacquire", "sync.(*Mutex).Lock"]
    );
    assert_eq!(group.lock.as_deref(), Some("0xc820354f50"));
    assert_eq!(causes(&found), ["container-lock"]);
}

#[test]
fn the_relist_waits_for_its_own_channel() {
    let found = dump(
        "dump-kubelet-1.11-relist-chansend-k8s72482.txt",
        Some("chan send"),
        Some(1140),
        "pleg.(*GenericPLEG).relist",
    );
    assert_eq!(causes(&found), ["kubelet-internal"]);
    let group = &found.goroutines.as_ref().unwrap().groups[0];
    assert!(group.frames[1].ends_with("(k8s.io/kubernetes/pkg/kubelet/pleg.relist)-fm"));
    assert_eq!(
        found.goroutines.unwrap().likely_holder.unwrap().goroutine,
        Some(386)
    );
}

#[test]
fn a_sandbox_status_waits_for_a_plugin() {
    let found = dump(
        "dump-kubelet-1.8to1.11-pluginmanager-semacquire-k8s45419.txt",
        Some("semacquire"),
        Some(2766),
        "network.(*PluginManager).GetPodNetworkStatus",
    );
    assert_eq!(causes(&found), ["cni-plugin-hang"]);
}

#[test]
fn a_stack_without_its_header_is_a_group_without_state() {
    let found = dump(
        "dump-runc-1.0rc-dbus-inworker-runc1959.txt",
        None,
        None,
        "dbus.(*unixTransport).ReadMessage",
    );
    let goroutines = found.goroutines.as_ref().unwrap();
    assert_eq!(goroutines.total, 2);
    assert_eq!(goroutines.groups[1].state.as_deref(), Some("chan receive"));
    assert_eq!(causes(&found), ["systemd-cookie-overflow"]);
}

#[test]
fn a_program_that_waits_for_another_is_not_the_culprit() {
    let culprit = |name: &str| files(&[name]).findings.swap_remove(0).culprit.process;
    let kubelet_waits_for_a_plugin = "dump-kubelet-1.8to1.11-pluginmanager-semacquire-k8s45419.txt";
    assert_eq!(
        culprit(kubelet_waits_for_a_plugin).as_deref(),
        Some("cni-plugin")
    );
    let kubelet_waits_for_itself = "dump-kubelet-1.11-relist-chansend-k8s72482.txt";
    assert_eq!(
        culprit(kubelet_waits_for_itself).as_deref(),
        Some("kubelet")
    );
}

#[test]
fn a_hung_unmount_is_found_in_the_kernels_log() {
    let found = sample(
        "kern-dockerd-ovl-sync-fs-hung-task-containerd5325.log",
        Kind::KernelLog,
    );
    assert_eq!(causes(&found), ["storage-unresponsive"]);
    let culprit = &found.findings[0].culprit;
    assert_eq!(
        (culprit.pid, culprit.process.as_deref()),
        (Some(1810), Some("dockerd"))
    );
}

#[test]
fn a_late_journal_shows_a_starved_node() {
    let found = log(
        "log-k3s-1.18-late-journal-k3s2370.log",
        Pattern::ListNeverSucceeds,
        306.764_478_598,
        4,
    );
    assert_eq!(causes(&found), ["disk-saturated"]);
}

#[test]
fn single_lines_of_all_generations_are_read() {
    log(
        "log-kubelet-1.17-docker19.03-containerd3529.log",
        Pattern::ListNeverSucceeds,
        236.954_991_781,
        1,
    );
    log(
        "log-kubelet-1.19-two-errors-k8s101056.log",
        Pattern::ListNeverSucceeds,
        966.559_177_445,
        1,
    );
    log(
        "log-kubelet-1.23-eks-structured-eksworkshop447.log",
        Pattern::ListNeverSucceeds,
        9_197.705_751_197,
        2,
    );
    log(
        "log-kubelet-1.9-gke-k8s61117.log",
        Pattern::ListNeverSucceeds,
        205.306_459_083,
        5,
    );
    log(
        "log-kubelet-1.6-coreos-k8s45419.log",
        Pattern::ListNeverSucceeds,
        187.629_592_089,
        1,
    );
}

#[test]
fn year_and_zone_are_taken_from_the_message() {
    let found = log(
        "log-kubelet-1.18-notready-k8s98044.log",
        Pattern::ListNeverSucceeds,
        184.612_899_233,
        1,
    );
    let start = pleg(&found).intervals[0].start.unwrap();
    assert_eq!(start.to_string(), "2021-01-09T11:48:52.460707000Z");
}

#[test]
fn a_startup_is_not_a_fault() {
    let found = sample(
        "log-kubelet-1.22-pathful-caller-k8s106265.log",
        Kind::KubeletLog,
    );
    assert_eq!(pleg(&found).pattern, Pattern::Startup);
    assert!(
        pleg(&found).intervals.is_empty() && !found.has_problem(),
        "{found:#?}"
    );
}

#[test]
fn a_sandbox_that_cannot_be_created_is_found_in_json() {
    let found = sample("log-kubelet-1.31-talos-json-k8s61117.log", Kind::KubeletLog);
    assert_eq!(pleg(&found).pattern, Pattern::None);
    assert_eq!(causes(&found), ["cni-plugin-hang"]);
}

#[test]
fn a_list_beyond_the_limit_is_certain() {
    let found = sample(
        "log-kubelet-1.3x-grpc-16mib-listcontainers-k8s134750.log",
        Kind::KubeletLog,
    );
    assert_eq!(causes(&found), ["list-exceeds-grpc-limit"]);
    assert_eq!(found.findings[0].confidence.as_str(), "certain");
}

#[test]
fn a_kubelet_that_never_relisted_is_not_292_years_late() {
    log(
        "log-origin-node-never-relisted-maxint-k8s84978.log",
        Pattern::NeverRelisted,
        10.000_253,
        3,
    );
}

#[test]
fn the_cookie_overflow_is_certain() {
    let found = sample(
        "log-systemd-cookie-overflow-systemdrhel266.log",
        Kind::SystemdLog,
    );
    assert_eq!(causes(&found), ["systemd-cookie-overflow"]);
    assert_eq!(found.findings[0].confidence.as_str(), "certain");
    assert_eq!(found.pleg, None);
}

#[test]
fn a_frozen_runc_init_is_named() {
    let found = sample(
        "proc-runc-init-refrigerator-runc4481.txt",
        Kind::KernelStack,
    );
    assert_eq!(causes(&found), ["runc-init-frozen"]);
    assert_eq!(found.findings[0].culprit.pid, Some(14378));
}

#[test]
fn a_lost_wakeup_is_suspected() {
    let found = sample("ps-runc-create-epoll-lostwakeup-runc3641.txt", Kind::Ps);
    assert_eq!(causes(&found), ["kernel-regression"]);
}

#[test]
fn the_findings_do_not_depend_on_how_many_files_are_read_at_once() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples");
    let names = std::fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.collect();
    // More than one batch, and each of them twice.
    let mut names: Vec<&str> = names.iter().chain(&names).map(String::as_str).collect();
    names.sort_unstable();
    let one_by_one = files_at_once(&names, 1);
    assert!(names.len() > 40 && one_by_one.findings.len() > 5);
    for at_once in [2, 7] {
        assert_eq!(files_at_once(&names, at_once), one_by_one);
    }
}
