//! A `runc init` in a frozen group, and one that writes into a pipe that no process reads.

use std::thread::sleep;
use std::time::Duration;

use causes::Cause;
use causes::finding::Confidence;
use doctor::collect::host::Host;

use crate::local::{Group, Running, about, facts};

#[test]
fn a_frozen_init_is_found_with_what_thaws_it_and_is_no_finding_once_thawed() {
    let Some(group) = Group::new("freezer", "frozen") else {
        return;
    };
    let init = Running::shell("runc:[2:INIT]", "read line");
    group.add(&init);
    group.write("freezer.state", "FROZEN");
    while group.read("freezer.state").trim() != "FROZEN" {
        sleep(Duration::from_millis(10));
    }
    let mut seen = facts(&Host::local());
    group.write("freezer.state", "THAWED");

    let young = about(&seen, Cause::RuncInitFrozen, init.pid()).expect("a finding");
    assert_eq!(young.confidence, Confidence::Medium, "{:?}", young.evidence);
    let thaw = format!("echo THAWED > /sys/fs/cgroup/freezer{}", group.path());
    assert!(young.advice[0].contains(&thaw), "{:?}", young.advice);

    // The same facts half a minute later, without waiting that long.
    let processes = match &mut seen.host.processes {
        doctor::facts::Fact::Known { value, .. } => value,
        missing => panic!("{missing:?}"),
    };
    for process in processes {
        process.age_seconds += 40.0;
    }
    let old = about(&seen, Cause::RuncInitFrozen, init.pid()).expect("a finding");
    assert_eq!(old.confidence, Confidence::Certain, "{:?}", old.evidence);

    let thawed = facts(&Host::local());
    assert_eq!(about(&thawed, Cause::RuncInitFrozen, init.pid()), None);
}

#[test]
fn an_init_that_waits_for_its_own_pipe_is_seen_to_write_into_it() {
    let init = Running::shell("runc:[2:INIT]", "while :; do echo filter; done");
    let calm = Running::shell("runc:[2:INIT]", "read line");
    let wchan = format!("/proc/{}/wchan", init.pid());
    let waits = || std::fs::read_to_string(&wchan).is_ok_and(|name| name.contains("pipe_write"));
    while !waits() {
        sleep(Duration::from_millis(50));
    }
    // A runc of the faulty version, wherever this machine keeps its own runc.
    let usr = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(usr.path().join("sbin")).expect("a folder");
    std::fs::write(usr.path().join("sbin/runc"), "main.version=1.0.0-rc93 ").expect("to write");
    let host = Host {
        usr: usr.path().to_owned(),
        ..Host::local()
    };
    let mut seen = facts(&host);
    if let doctor::facts::Fact::Known { value, .. } = &mut seen.host.processes {
        for process in value {
            process.age_seconds += 40.0;
        }
    }
    let found = about(&seen, Cause::RuncSeccompPipe, init.pid()).expect("a finding");
    assert_eq!(found.confidence, Confidence::Certain);
    assert_eq!(about(&seen, Cause::RuncSeccompPipe, calm.pid()), None);
}
