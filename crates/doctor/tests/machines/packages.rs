//! Packages, according to rpm.

use std::time::{Duration, Instant};

use causes::Cause;
use causes::finding::Confidence;
use doctor::facts::host::{Ping, VersionFacts};
use doctor::facts::{Fact, Missing, NodeFacts};

use crate::built::Machine;
use crate::task::Task;

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
fn the_version_of_a_package_decides_whether_the_serial_numbers_may_overflow() {
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
fn rpm_is_run_once_without_privileges_and_without_the_environment() {
    // The script returns its user and its environment as versions.
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
fn an_rpm_that_hangs_is_ended_with_all_processes_that_it_has_started() {
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
        let command = std::fs::read_to_string(entry.path().join("cmdline"));
        command.is_ok_and(|command| command.starts_with("sleep") && command.contains(&mark))
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn the_output_of_rpm_is_limited() {
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
    // The output up to the limit is used.
    let flooded = versions(&rpm("printf 'systemd\\t252-1\\n'; exec yes"));
    assert_eq!(flooded.package("systemd"), Some("252-1"));
}

#[test]
fn nothing_is_executed_while_an_exec_may_wait_for_permission() {
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
fn packages_are_missing_with_a_reason_if_rpm_cannot_be_started_or_does_not_exist() {
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
    // If dpkg has packages, rpm is not used.
    let script = "#!/bin/sh\nprintf 'systemd\\t1-1\\n'\n";
    let both = versions(&Machine::healthy().program("usr/bin/rpm", script));
    assert_eq!(both.package("systemd"), Some("252.39-1~deb12u1"));
}
