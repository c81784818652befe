//! Disks, the servers of mounts, and agents that permit access to files.

use causes::Cause;
use causes::finding::Confidence;
use doctor::diagnosis::diagnose;
use doctor::facts::Fact;
use doctor::facts::host::Filesystem;

use crate::built::{Machine, advises, shows};
use crate::task::Task;

#[test]
fn a_shim_that_waits_for_a_dead_server_is_named_with_the_server() {
    let mut shim = Task::new(700, 1, "containerd-shim").blocked_in("rpc_wait_bit_killable");
    shim.stack = &["rpc_wait_bit_killable", "nfs4_proc_getattr", "vfs_statx"];
    let finding = Machine::healthy()
        .task(&shim)
        .finding(Cause::StorageUnresponsive);
    assert_eq!(finding.confidence, Confidence::High);
    assert_eq!(finding.culprit.pid, Some(700));
    shows(&finding, "of filer:/export");
    advises(&finding, "check whether filer:/export responds");
    advises(
        &finding,
        "`umount -f -l /var/lib/kubelet/pods/p/volumes/data`",
    );
}

#[test]
fn neither_what_is_collected_nor_what_is_found_holds_a_credential() {
    let mut shim = Task::new(700, 1, "containerd-shim").blocked_in("rpc_wait_bit_killable");
    shim.stack = &["rpc_wait_bit_killable", "nfs4_proc_getattr", "vfs_statx"];
    let kernel =
        "6,1,999000000000,-;nfs: server //bob:hunter2@filer not responding, still trying\n";
    let machine = Machine::healthy()
        .task(&shim)
        .file("dev/kmsg", kernel)
        .file(
            "proc/1/mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
             24 22 0:60 / /data rw - nfs4 //bob:hunter2@filer/export rw,password=hunter2\n",
        );
    let facts = serde_json::to_string(&machine.facts()).unwrap();
    let findings = machine.findings(Cause::StorageUnresponsive);
    shows(&findings[0], "of //[redacted]@filer/export");
    for shown in [facts, serde_json::to_string(&findings).unwrap()] {
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("//[redacted]@filer"), "{shown}");
    }
    // A bundle that an earlier version made is quoted without the credential.
    let mut facts = machine.facts();
    let Fact::Known { value, .. } = &mut facts.host.mounts else {
        panic!("{:?}", facts.host.mounts);
    };
    value.remote[0].source = "//bob:hunter2@filer/export".to_owned();
    let diagnosis = diagnose(&facts, |_| true);
    let shown = serde_json::to_string(&diagnosis).unwrap();
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_thread_that_ran_between_the_samples_is_not_blocked() {
    let mut shim = Task::new(700, 1, "containerd-shim").blocked_in("rpc_wait_bit_killable");
    let machine = Machine::healthy().task(&shim);
    shim.switches += 1;
    machine
        .task_later(shim)
        .has_no_finding(Cause::StorageUnresponsive);
    // A process that sleeps interruptibly is not blocked either.
    let mut asleep = Task::new(700, 1, "containerd-shim");
    asleep.wchan = "fuse_dev_do_read";
    Machine::healthy()
        .task(&asleep)
        .has_no_finding(Cause::StorageUnresponsive);
}

#[test]
fn a_workload_that_waits_for_its_volume_is_only_a_suspicion() {
    let app = Task::new(710, 700, "app")
        .in_container()
        .blocked_in("nfs_wait_bit_killable");
    let finding = Machine::healthy()
        .task(&app)
        .finding(Cause::StorageUnresponsive);
    assert_eq!(finding.confidence, Confidence::Medium);
    assert!(finding.culprit.pod.is_some());
}

#[test]
fn a_fuse_server_that_does_not_answer_is_named_with_how_to_abort_its_connection() {
    let waiting = "sys/fs/fuse/connections/61/waiting";
    let machine = || {
        Machine::healthy()
            .file(waiting, "4\n")
            .later(waiting, "9\n")
    };
    let app = Task::new(710, 700, "app").blocked_in("request_wait_answer");
    let findings = machine().task(&app).findings(Cause::StorageUnresponsive);
    let finding = &findings[1];
    shows(finding, "9 unanswered requests");
    shows(finding, "of s3fs at /mnt/s3");
    advises(finding, "s3fs, mounted at /mnt/s3");
    advises(finding, "`echo 1 > /sys/fs/fuse/connections/61/abort`");
    // The server is busy but still answers: its connection is not to be aborted, and there is no
    // finding if no component of the node waits.
    let finding = machine().suffering().finding(Cause::StorageUnresponsive);
    shows(&finding, "ListContainers took 3.2s");
    advises(&finding, "s3fs, mounted at /mnt/s3, still works");
    assert!(!finding.advice[0].contains("abort"), "{finding:?}");
    machine().has_no_finding(Cause::StorageUnresponsive);
    Machine::healthy()
        .file(waiting, "4\n")
        .later(waiting, "0\n")
        .has_no_finding(Cause::StorageUnresponsive);
}

#[test]
fn a_wait_for_a_fuse_server_names_the_server_and_not_the_kernels_own_folder() {
    let shim = Task::new(700, 1, "containerd-shim").blocked_in("request_wait_answer");
    let finding = Machine::healthy()
        .task(&shim)
        .finding(Cause::StorageUnresponsive);
    advises(&finding, "`umount -f -l /mnt/s3`");
    let said = [
        finding.evidence,
        finding.advice.iter().map(ToString::to_string).collect(),
    ];
    assert!(!said.concat().concat().contains("fusectl"));
}

#[test]
fn the_agent_that_does_not_permit_access_is_the_culprit() {
    let mut agent = Task::new(800, 1, "twistlock");
    agent.fds = vec!["anon_inode:[eventpoll]", "anon_inode:[fanotify]"];
    let marks = "pos:\t0\nflags:\t04002\nfanotify flags:4 event-flags:8000\n\
                 fanotify mnt_id:1d mflags:0 mask:10000 ignored_mask:0\n\
                 fanotify mnt_id:1e mflags:0 mask:8000020 ignored_mask:0\n";
    let agent = || {
        Machine::healthy()
            .task(&agent)
            .file("proc/800/fdinfo/1", marks)
    };
    let victim = Task::new(600, 1, "kubelet").blocked_in("fanotify_handle_event");
    let finding = agent().task(&victim).finding(Cause::FanotifyBlocked);
    assert_eq!(finding.confidence, Confidence::Certain);
    assert_eq!(finding.culprit.process.as_deref(), Some("twistlock"));
    shows(
        &finding,
        "2 fanotify marks, 1 of which require its permission",
    );
    shows(&finding, "kubelet (600) waits in fanotify_handle_event");
    advises(&finding, "`kill -KILL 800`");
    agent().has_no_finding(Cause::FanotifyBlocked);
}

#[test]
fn a_listener_that_no_process_waits_for_is_shown_and_not_to_be_killed() {
    let mut watcher = Task::new(800, 1, "watcher");
    watcher.fds = vec!["anon_inode:[eventpoll]", "anon_inode:[fanotify]"];
    let marks = "pos:\t0\nflags:\t04002\nfanotify flags:600 event-flags:0\n\
                 fanotify mnt_id:1d mflags:0 mask:8000020 ignored_mask:0\n";
    let finding = Machine::healthy()
        .task(&watcher)
        .file("proc/800/fdinfo/1", marks)
        .task(&Task::new(600, 1, "kubelet").blocked_in("fanotify_handle_event"))
        .finding(Cause::FanotifyBlocked);
    assert_eq!(finding.confidence, Confidence::Certain);
    assert_eq!(finding.culprit.process.as_deref(), Some("kubelet"));
    shows(&finding, "watcher (800) has 1 fanotify marks, 0 of which");
    advises(&finding, "stop the agent that holds the fanotify marks");
}

const STALLED: &str = "some avg10=90.00 avg60=80.00 avg300=9.00 total=1\n\
                       full avg10=70.00 avg60=60.00 avg300=9.00 total=1\n";
/// 10 reads and 20 writes in a second that took half a second each, on a disk that is always busy.
const SLOW: &str = "   8       0 sda 1010 0 0 6000 1020 0 0 11000 12 2000 9000\n";

#[test]
fn a_disk_that_all_tasks_wait_for_is_reported_with_the_directories_on_it() {
    let machine = || {
        Machine::healthy()
            .file("proc/pressure/io", STALLED)
            .later("proc/diskstats", SLOW)
    };
    let finding = machine().suffering().finding(Cause::DiskSaturated);
    assert_eq!(finding.confidence, Confidence::High);
    shows(&finding, "70 % of the last 10 s");
    shows(&finding, "sda (holds /, /var/lib/containerd");
    shows(&finding, "500 ms per request, 12 in flight");
    shows(&finding, "ListContainers took 3.2s");
    // The disk is busy, but no component that the node needs waits for it, or no task is stalled.
    machine().has_no_finding(Cause::DiskSaturated);
    Machine::healthy()
        .suffering()
        .later("proc/diskstats", SLOW)
        .has_no_finding(Cause::DiskSaturated);
}

#[test]
fn without_pressure_information_disks_are_judged_by_their_requests() {
    let in_flight = "   8       0 sda 1000 0 0 1000 1000 0 0 1000 7 2000 2000\n";
    let old = || Machine::healthy().without("proc/pressure");
    let stuck = || {
        old()
            .file(
                "proc/diskstats",
                &in_flight.replace("2000 2000", "1000 1000"),
            )
            .later("proc/diskstats", in_flight)
    };
    let finding = stuck().suffering().finding(Cause::DiskSaturated);
    assert_eq!(finding.confidence, Confidence::Medium);
    shows(&finding, "none completed, 7 in flight");
    stuck().has_no_finding(Cause::DiskSaturated);
    old().suffering().has_no_finding(Cause::DiskSaturated);
}

#[test]
fn a_file_system_without_space_or_inodes_is_full_unless_it_is_read_only() {
    let root = |bytes_available, inodes_available, read_only| Filesystem {
        path: "/run".to_owned(),
        bytes: 100 << 20,
        bytes_available,
        inodes: 1000,
        inodes_available,
        read_only,
    };
    let large = |bytes_available, inodes_available| Filesystem {
        bytes: 10 << 40,
        inodes: 600 << 20,
        ..root(bytes_available, inodes_available, false)
    };
    for (root, found) in [
        (root(50 << 20, 900, false), 0),
        (root(0, 900, false), 1),
        (root(50 << 20, 3, false), 1),
        (root(0, 0, true), 0),
        (large(90 << 30, 5 << 20), 0),
        (large(900 << 20, 5 << 20), 1),
        (large(90 << 30, 900), 1),
    ] {
        let mut facts = Machine::healthy().facts();
        facts.host.filesystems = vec![Fact::known(root, "/run")];
        let diagnosis = doctor::diagnosis::diagnose(&facts, |cause| cause == Cause::DiskFull);
        assert_eq!(diagnosis.findings.len(), found, "{:?}", diagnosis.findings);
    }
}
