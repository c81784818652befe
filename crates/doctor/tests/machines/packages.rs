//! Packages, by what rpm says of them.

use std::time::{Duration, Instant};

use causes::Cause;
use causes::finding::Confidence;
use doctor::facts::host::{Ping, VersionFacts};
use doctor::facts::{Fact, Missing, NodeFacts};

use crate::built::{Machine, Task};

/// A machine whose rpm is this script.
fn rpm(script: &str) -> Machine {
    Machine::healthy()
        .without("var/lib/dpkg")
        .program("usr/bin/rpm", &format!("#!/bin/sh\n{script}\n"))
}

fn versions(machine: &Machine) -> VersionFacts {
    let NodeFacts { host, .. } = machine.facts();
    host.versions
}

#[test]
fn a_package_that_rpm_knows_decides_whether_the_serial_numbers_are_a_danger() {
    for (package, confidence) in [
        ("219-62.el7_6.7", Some(Confidence::Certain)),
        ("219-62.el7_6.8", None),
        ("219-67.el7", None),
    ] {
        let machine = rpm(&format!("printf 'systemd\\t{package}\\n'")).bus(|bus| {
            let (serial, seconds) = (0xf000_0000, 0.001);
            bus.systemd = Fact::known("219".to_owned(), "bus");
            bus.ping = Fact::known(Ping::Answered { serial, seconds }, "ping");
        });
        assert_eq!(versions(&machine).package("systemd"), Some(package));
        let found = machine.findings(Cause::SystemdCookieOverflow);
        let found = found.first().map(|finding| finding.confidence);
        assert_eq!(found, confidence, "{package}");
    }
}

#[test]
fn rpm_is_asked_once_by_names_without_privileges_and_without_our_environment() {
    // The script returns what it was given as versions.
    let script = r#"
        [ "$1 $2 $3" = '-q --qf %{NAME}\t%{EVR}\n' ] || exit 1
        for name in "$@"; do [ "$name" = systemd ] && printf 'systemd\t219-67.el7\n'; done
        echo package runc is not installed
        printf 'containerd\t%s\n' "$(id -u)"
        printf 'crun\t%s\n' "${CARGO_MANIFEST_DIR:-none}"
        exit 3"#;
    let versions = versions(&rpm(script));
    assert_eq!(versions.package("systemd"), Some("219-67.el7"));
    assert_eq!(versions.package("crun"), Some("none"));
    assert_eq!(versions.package("runc"), None);
    let root = rustix::process::geteuid().is_root();
    let user = versions.package("containerd").expect("a user");
    assert_eq!(user == "65534", root, "{user}");
    assert!(versions.packages.source().ends_with("usr/bin/rpm -q"));
}

#[test]
fn an_rpm_that_hangs_is_ended_with_all_that_it_has_started() {
    let mark = format!("4242.{}", std::process::id());
    let machine = rpm(&format!("trap '' TERM; sleep {mark} & wait; sleep {mark}"));
    let start = Instant::now();
    let versions = versions(&machine);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    let why = versions.packages.why().expect("no packages");
    assert_eq!(why.to_string(), "rpm did not answer within 3s");
    let left = std::fs::read_dir("/proc").expect("/proc").flatten();
    let left = left.filter(|entry| {
        let said = std::fs::read_to_string(entry.path().join("cmdline"));
        said.is_ok_and(|said| said.starts_with("sleep") && said.contains(&mark))
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn an_rpm_that_says_anything_without_end_is_heard_for_so_long() {
    for script in ["exec cat /dev/zero", "exec yes 'systemd 1' >&2"] {
        let start = Instant::now();
        let versions = versions(&rpm(script));
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            start.elapsed()
        );
        let why = versions.packages.why().expect("no packages");
        assert!(why.to_string().len() < 300, "{why}");
    }
    // The output before the flood is not lost.
    let flooded = versions(&rpm("printf 'systemd\\t252-1\\n'; exec yes"));
    assert_eq!(flooded.package("systemd"), Some("252-1"));
}

#[test]
fn nothing_is_executed_where_an_exec_may_wait_for_a_permission() {
    let waits = Task::new(700, 1, "cat").blocked_in("fanotify_handle_event");
    let machine = rpm("printf 'systemd\\t252-1\\n'").task(&waits);
    let versions = versions(&machine);
    assert_eq!(versions.package("systemd"), None);
    let why = versions.packages.why().expect("no packages");
    assert_eq!(
        why.to_string(),
        "rpm was not run, because it might block in the kernel"
    );
}

#[test]
fn an_rpm_that_cannot_be_started_or_is_not_there_says_why() {
    let broken = versions(
        &Machine::healthy()
            .without("var/lib/dpkg")
            .program("usr/bin/rpm", "#!/nowhere/interpreter\n"),
    );
    let why = broken.packages.why().expect("no packages");
    assert!(matches!(why, Missing::NotThere(_)), "{why}");
    let none = versions(&Machine::healthy().without("var/lib/dpkg"));
    let why = none.packages.why().expect("no packages");
    assert_eq!(why.to_string(), "no list of packages was found");
    // Where dpkg keeps the packages, rpm is a stranger.
    let script = "#!/bin/sh\nprintf 'systemd\\t1-1\\n'\n";
    let both = versions(&Machine::healthy().program("usr/bin/rpm", script));
    assert_eq!(both.package("systemd"), Some("252.39-1~deb12u1"));
}
