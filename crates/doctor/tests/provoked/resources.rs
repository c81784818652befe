//! Limits that are really reached.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use causes::Cause;
use causes::finding::Confidence;
use doctor::collect::helper::Helper;
use doctor::collect::host::Host;

use crate::local::{Group, Mount, Running, about, facts, findings};

#[test]
fn a_daemon_that_has_no_descriptor_left_is_found_and_its_twin_is_not() {
    // The process that started the test may have left some of them open.
    let close = "exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&-";
    let open = "exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null";
    let daemon = |limit: u32| {
        let script = format!("{close}; ulimit -n {limit}; {open}; read line");
        let daemon = Running::shell("containerd", &script);
        // With all descriptors open, the shell could not even print that it is ready.
        let last = format!("/proc/{}/fd/8", daemon.pid());
        let opens = (0..1000).any(|_| {
            sleep(Duration::from_millis(5));
            fs::symlink_metadata(&last).is_ok()
        });
        assert!(opens, "{last}");
        daemon
    };
    let (full, twin) = (daemon(9), daemon(90));
    let seen = facts(&Host::local());
    let found = about(&seen, Cause::FdOrInotifyExhausted, full.pid()).expect("a finding");
    assert_eq!(found.confidence, Confidence::Certain);
    // A shell keeps some descriptors above the limit that it set.
    let says = found.evidence[0].ends_with(" of 9 file descriptors open");
    assert!(says, "{found:?}");
    assert_eq!(about(&seen, Cause::FdOrInotifyExhausted, twin.pid()), None);
}

#[test]
fn a_group_that_may_not_fork_is_found_until_its_limit_is_raised() {
    let Some(group) = Group::new("pids", "pids") else {
        return;
    };
    let sleeper = |name| {
        let sleeper = Running::shell(name, "read line");
        group.add(&sleeper);
        sleeper
    };
    let _sleepers: Vec<_> = (0..3).map(|_| sleeper("sleeper")).collect();
    let other = sleeper("sleeper");
    group.write("pids.max", "4");
    let full = |host: &Host| {
        let found = findings(&facts(host), Cause::PidsExhausted);
        let of_ours = |line: &String| line == &format!("{} has 4 of at most 4 tasks", group.path());
        found.iter().any(|one| one.evidence.iter().any(of_ours))
    };
    // No process that the node needs is in the group.
    assert!(!full(&Host::local()));
    drop(other);
    let _daemon = sleeper("containerd");
    assert!(full(&Host::local()));
    group.write("pids.max", "400");
    assert!(!full(&Host::local()));
}

#[test]
fn a_daemon_that_its_quota_stops_is_found_with_the_periods() {
    let Some(group) = Group::new("cpu", "quota") else {
        return;
    };
    group.write("cpu.cfs_period_us", "20000");
    group.write("cpu.cfs_quota_us", "1000");
    let busy = Running::shell("containerd", "while :; do :; done");
    let idle = Running::shell("containerd", "read line");
    group.add(&busy);
    let seen = facts(&Host::local());
    let found = about(&seen, Cause::CpuStarved, busy.pid()).expect("a finding");
    assert!(
        found.evidence[0].contains("by the CPU quota of"),
        "{found:?}"
    );
    assert_eq!(about(&seen, Cause::CpuStarved, idle.pid()), None);
}

#[test]
fn a_runtime_whose_root_is_in_an_unusual_place_is_found_with_it_full() {
    let Some(room) = Mount::small() else {
        return;
    };
    let root = room.path().display().to_string();
    let folder = room.path().join("io.containerd.metadata.v1.bolt");
    fs::create_dir(&folder).expect("a folder");
    let database = folder.join("meta.db");
    let _runtime = Running::saying(&format!(
        "printf containerd > /proc/self/comm; exec 5<>{}; echo ready >&2; read line",
        database.display()
    ));
    let _ = fs::write(room.path().join("log"), vec![0; 1 << 20]);
    let found = findings(&facts(&Host::local()), Cause::DiskFull);
    let mut evidence = found.iter().flat_map(|found| &found.evidence);
    assert!(evidence.any(|line| line.starts_with(&root)), "{found:?}");
}

fn only(root: PathBuf) -> Host {
    Host {
        roots: vec![root],
        ..Host::local()
    }
}

#[test]
fn a_file_system_without_free_space_or_inodes_is_full() {
    let Some(room) = Mount::small() else {
        return;
    };
    let host = only(room.path().to_owned());
    assert_eq!(findings(&facts(&host), Cause::DiskFull), []);
    // The file system is full before all of this is written.
    let _ = fs::write(room.path().join("log"), vec![0; 1 << 20]);
    let found = findings(&facts(&host), Cause::DiskFull);
    assert_eq!(found[0].confidence, Confidence::Certain, "{found:?}");
    let says = format!(
        "the file system of {} has no space left",
        room.path().display()
    );
    assert_eq!(found[0].sentence, says);

    let inodes = Mount::small().expect("as the first");
    for number in 0..64 {
        let _ = fs::write(inodes.path().join(number.to_string()), "");
    }
    let found = findings(&facts(&only(inodes.path().to_owned())), Cause::DiskFull);
    assert!(
        found[0].evidence[0].contains("0 of 32 inodes left"),
        "{found:?}"
    );
}

#[test]
fn a_helper_process_answers_and_one_that_has_exited_is_skipped() {
    use doctor::collect::helper::Helpers;
    let shell = |script: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]);
        Helper::process(command).expect("a process")
    };
    // A helper that gives this answer to each request.
    let talks = shell(
        "while read line; do \
         echo '{\"Err\":{\"kind\":\"other\",\"message\":\"out of order\"}}'; done",
    );
    let gone = shell("exit 0");
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut helpers = Helpers::new(vec![talks, gone]);
    let host = only(PathBuf::from("/"));
    let seen = doctor::collect::host::collect(&host, &mut helpers, Default::default);
    let why = seen.filesystems[0].why().expect("no answer");
    assert_eq!(why.to_string(), "out of order");
}
