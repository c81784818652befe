//! A real dbus-daemon that the test starts, and on its bus a simulated systemd whose counter the test sets.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use causes::Cause;
use causes::finding::Confidence;
use doctor::collect::host::Host;
use doctor::facts::NodeFacts;
use doctor::facts::host::{Ping, Reach};
use tempfile::TempDir;

use crate::local::{Running, await_ready, facts, findings, skipped};

mod service;

use service::{Service, Unit};

struct Bus {
    folder: TempDir,
    daemon: Option<Running>,
}

impl Bus {
    /// A bus that accepts at most `connections` connections of one user.
    fn start(connections: u32) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        std::fs::create_dir_all(run.join("dbus")).expect("a folder");
        let socket = run.join("dbus/system_bus_socket");
        let config = format!(
            "<!DOCTYPE busconfig PUBLIC '-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN' \
             'http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd'>\
             <busconfig><listen>unix:path={}</listen><auth>EXTERNAL</auth>\
             <policy context='default'><allow user='*'/><allow own='*'/>\
             <allow send_destination='*'/><allow eavesdrop='true'/></policy>\
             <limit name='max_connections_per_user'>{connections}</limit></busconfig>",
            socket.display()
        );
        let file = folder.path().join("bus.conf");
        std::fs::write(&file, config).expect("to write");
        let started = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", file.display()))
            .args(["--nofork", "--nopidfile", "--print-address"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut daemon) = started.map(Running) else {
            skipped("there is no dbus-daemon");
            return None;
        };
        let mut address = [0];
        // The daemon prints its address once it listens.
        std::io::Read::read_exact(daemon.0.stdout.as_mut().expect("a pipe"), &mut address)
            .expect("an address");
        Some(Self {
            folder,
            daemon: Some(daemon),
        })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("run/dbus/system_bus_socket")
    }

    /// The facts that are read over this bus, with a process 1 that is named systemd.
    fn facts(&self, version: &str) -> NodeFacts {
        let host = Host {
            run: self.folder.path().join("run"),
            var: self.folder.path().join("var"),
            step: Duration::from_secs(2),
            ..Host::local()
        };
        let status =
            format!("Package: systemd\nStatus: install ok installed\nVersion: {version}\n");
        std::fs::create_dir_all(host.var.join("lib/dpkg")).expect("a folder");
        std::fs::write(host.var.join("lib/dpkg/status"), status).expect("to write");
        let mut facts = facts(&host);
        if let doctor::facts::Fact::Known { value, .. } = &mut facts.host.processes {
            for process in value.iter_mut().filter(|process| process.pid == 1) {
                process.comm = "systemd".to_owned();
                process.cpu_share = Some(0.0);
            }
        }
        facts
    }
}

#[test]
fn the_serial_numbers_of_answers_are_read_across_a_real_bus() {
    let Some(bus) = Bus::start(64) else { return };
    let counter = Arc::new(AtomicU32::new(0xf000_0000));
    let _service = Service::on_bus(&bus.socket(), Arc::clone(&counter));

    let seen = bus.facts("219-62.el7");
    assert_eq!(seen.host.bus.reach.value(), Some(&Reach::Connected));
    let serial = seen.host.bus.serial.value().expect("two answers");
    // The version is requested between the two pings.
    assert_eq!((serial.first, serial.later), (0xf000_0000, 0xf000_0002));
    let found = findings(&seen, Cause::SystemdCookieOverflow);
    assert_eq!(found[0].confidence, Confidence::Certain, "{found:?}");
    assert_eq!(findings(&seen, Cause::BusUnavailable), []);

    counter.store(40, Ordering::SeqCst);
    let young = bus.facts("219-62.el7");
    assert_eq!(findings(&young, Cause::SystemdCookieOverflow), []);
}

#[test]
fn the_restarts_of_the_kubelet_are_requested_and_no_unit_is_loaded_for_that() {
    let Some(bus) = Bus::start(64) else { return };
    let process = Command::new("sleep").arg("60").spawn().map(Running);
    let process = process.expect("a process");
    let unit = |restarts| {
        let kubelet = Unit {
            name: "kubelet.service",
            state: "running",
            main_pid: process.pid(),
            restarts,
        };
        Service::with_units(&bus.socket(), Arc::new(AtomicU32::new(40)), vec![kubelet])
    };

    let service = unit(Some(9));
    let seen = bus.facts("252");
    let services = seen.host.bus.services.value().expect("services");
    assert_eq!(services.len(), 1, "{services:?}");
    assert_eq!(services[0].restarts, Some(9));
    let found = findings(&seen, Cause::RepairLoop);
    assert_eq!(found[0].culprit.pid, Some(process.pid()), "{found:?}");
    assert!(found[0].said().contains("kubelet.service 9 times"));
    let asked = service.asked();
    // No call starts a service, and no property of a unit that is not loaded is requested.
    assert!(asked.iter().all(|call| call.flags & 2 != 0));
    let of = |what: &str| {
        asked
            .iter()
            .filter(|call| call.what.starts_with(what))
            .count()
    };
    assert!(of("GetUnit ") > 1);
    assert_eq!(of("Get org.freedesktop.systemd1.Unit "), 1);
    assert_eq!(of("Get org.freedesktop.systemd1.Service "), 2);
    drop(service);

    for restarts in [Some(2), None] {
        let _service = unit(restarts);
        let seen = bus.facts("252");
        let services = seen.host.bus.services.value().expect("services");
        assert_eq!(services[0].restarts, restarts);
        assert_eq!(findings(&seen, Cause::RepairLoop), []);
    }
}

#[test]
fn past_its_last_number_systemd_answers_on_its_own_socket_and_not_on_the_bus() {
    let Some(bus) = Bus::start(64) else { return };
    // Past the last number there is no answer.
    let counter = Arc::new(AtomicU32::new(u32::MAX));
    let _service = Service::on_bus(&bus.socket(), counter);
    std::fs::create_dir_all(bus.folder.path().join("run/systemd")).expect("a folder");
    let private = bus.folder.path().join("run/systemd/private");
    let _private = Service::private(&private, Arc::new(AtomicU32::new(1)));

    let seen = bus.facts("219-62.el7");
    assert!(matches!(
        seen.host.bus.ping.value(),
        Some(Ping::Silent { .. })
    ));
    assert!(matches!(
        seen.host.bus.private.value(),
        Some(Ping::Answered { .. })
    ));
    assert_eq!(
        seen.host.bus.systemd.value().map(String::as_str),
        Some("219")
    );
    let found = findings(&seen, Cause::SystemdCookieOverflow);
    assert_eq!(found[0].confidence, Confidence::High, "{found:?}");
    assert_eq!(findings(&seen, Cause::SystemdOverloaded), []);
}

#[test]
fn a_bus_without_systemd_without_room_or_without_a_daemon_is_distinguished() {
    let Some(mut bus) = Bus::start(1) else { return };
    let without_owner = bus.facts("252");
    assert_eq!(without_owner.host.bus.owner.value(), Some(&None));
    let found = findings(&without_owner, Cause::BusUnavailable);
    assert_eq!(found[0].confidence, Confidence::Certain, "{found:?}");

    let service = Service::on_bus(&bus.socket(), Arc::new(AtomicU32::new(40)));
    let full = bus.facts("252");
    let rejected = full.host.bus.reach.value();
    assert!(
        matches!(rejected, Some(Reach::Rejected { error, .. }) if error.ends_with("LimitsExceeded")),
        "{:?}",
        full.host.bus.reach
    );
    drop(service);

    drop(bus.daemon.take());
    let gone = bus.facts("252");
    let reach = gone.host.bus.reach.value();
    assert!(
        matches!(reach, Some(Reach::Refused | Reach::NoSocket)),
        "{reach:?}"
    );
    assert_eq!(findings(&gone, Cause::BusUnavailable).len(), 1);
}

#[test]
fn a_socket_whose_owner_never_answers_costs_a_deadline_and_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("dbus")).expect("a folder");
    let _listens =
        std::os::unix::net::UnixListener::bind(folder.path().join("dbus/system_bus_socket"))
            .expect("a socket");
    let host = Host {
        run: folder.path().to_owned(),
        ..Host::local()
    };
    let start = std::time::Instant::now();
    let seen = facts(&host);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    assert!(matches!(
        seen.host.bus.reach.value(),
        Some(Reach::Silent { .. })
    ));
    let mut ready = &b"ready\n"[..];
    await_ready(&mut ready);
}
