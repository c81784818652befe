//! systemd and the bus.

use causes::Cause;
use causes::finding::Confidence;
use doctor::diagnosis::diagnose;
use doctor::facts::Fact;
use doctor::facts::host::{Ping, Reach, Serial};

use crate::built::{Machine, advises, kubelet, shows};
use crate::task::{Task, UPTIME};

fn rhel(package: &str) -> Machine {
    let status = format!("Package: systemd\nStatus: install ok installed\nVersion: {package}\n");
    Machine::healthy()
        .file("var/lib/dpkg/status", &status)
        .bus(|bus| bus.systemd = Fact::known("219".to_owned(), "bus"))
}

fn counted(machine: Machine, serial: u32) -> Machine {
    machine.bus(|bus| {
        let seconds = 0.001;
        bus.ping = Fact::known(Ping::Answered { serial, seconds }, "ping");
        let later = serial.saturating_add(1000);
        let serial = Serial {
            first: serial,
            later,
            seconds: 1.0,
        };
        bus.serial = Fact::known(serial, "ping");
    })
}

fn overdue(machine: Machine) -> Machine {
    machine.bus(|bus| {
        bus.ping = Fact::known(Ping::Silent { seconds: 5.0 }, "ping");
        let answered = Ping::Answered {
            serial: 7,
            seconds: 0.001,
        };
        bus.private = Fact::known(answered, "private");
    })
}

#[test]
fn serial_numbers_that_run_out_are_reported_with_the_remaining_time() {
    let machine = counted(rhel("219-62.el7"), 0xf000_0000);
    let finding = machine.finding(Cause::SystemdCookieOverflow);
    assert_eq!(finding.confidence, Confidence::Certain);
    assert_eq!(finding.culprit.pid, Some(1));
    shows(&finding, "93.8 % of all numbers are used");
    // 4026531840 since a start 1000000 s ago, and 268 million left.
    shows(
        &finding,
        "4026.5 messages per second (since the machine started): 19 hours left",
    );
    shows(&finding, "which stops at the last serial number");
}

#[test]
fn the_remaining_time_is_known_long_before_there_is_a_finding() {
    let machine = counted(rhel("219-62.el7"), 0x7000_0000);
    // 1879049192 since a start 1000000 s ago, and 2415918103 left.
    let left = |machine: Machine| {
        let diagnosis = serde_json::to_value(diagnose(&machine.facts(), |_| true)).expect("JSON");
        diagnosis.get("systemdCookieLeftSeconds").cloned()
    };
    let seconds = left(machine).expect("a number");
    let seconds = seconds.as_f64().expect("a number");
    assert!((1.28e6..1.29e6).contains(&seconds), "{seconds}");
    let repaired = counted(rhel("219-78.el7_9.3"), 0x7000_0000);
    assert_eq!(left(repaired), Some(serde_json::Value::Null));
    // Without an answer of the bus, nothing is known.
    for reach in [Reach::NoSocket, Reach::Refused] {
        let unreachable = rhel("219-62.el7").bus(|bus| {
            bus.reach = Fact::known(reach, "bus");
            bus.ping = Fact::missing("the bus cannot be reached", "bus");
        });
        assert_eq!(left(unreachable), None);
    }
    assert_eq!(left(overdue(rhel("219-62.el7"))), None);
}

#[test]
fn a_large_serial_number_is_harmless_for_a_systemd_with_the_fix() {
    for machine in [rhel("219-78.el7_9.3"), Machine::healthy()] {
        counted(machine, 0xf000_0000).has_no_finding(Cause::SystemdCookieOverflow);
    }
    counted(rhel("219-62.el7"), 0x7000_0000).has_no_finding(Cause::SystemdCookieOverflow);
}

#[test]
fn an_update_of_systemd_that_is_not_running_yet_does_not_help() {
    let machine = counted(rhel("219-78.el7_9.3"), 0xf000_0000);
    std::os::unix::fs::symlink(
        "/usr/lib/systemd/systemd (deleted)",
        machine.path("proc/1/exe"),
    )
    .expect("a link");
    let finding = machine.finding(Cause::SystemdCookieOverflow);
    shows(
        &finding,
        "still runs an executable that has since been replaced",
    );
}

#[test]
fn after_the_last_serial_number_only_the_private_socket_answers() {
    let finding = overdue(rhel("219-62.el7")).finding(Cause::SystemdCookieOverflow);
    assert_eq!(finding.confidence, Confidence::High);
    shows(&finding, "private socket");
    // If a repaired systemd does not answer, there is another cause.
    overdue(Machine::healthy()).has_no_finding(Cause::SystemdCookieOverflow);
}

fn busy(machine: Machine) -> Machine {
    let mounts = "22 1 8:0 / / rw - ext4 /dev/sda rw\n".repeat(1500);
    let mut systemd = Task::new(1, 0, "systemd").aged(UPTIME);
    systemd.ticks += 95;
    machine
        .file("proc/1/mountinfo", &mounts)
        .task_later(systemd)
}

#[test]
fn a_systemd_that_is_busy_with_mounts_is_reported_with_the_runc_that_makes_them() {
    let slow = |machine: Machine| {
        machine.bus(|bus| {
            let answered = Ping::Answered {
                serial: 9,
                seconds: 2.5,
            };
            bus.ping = Fact::known(answered, "ping");
        })
    };
    let finding = slow(busy(Machine::healthy())).finding(Cause::SystemdOverloaded);
    assert_eq!(finding.confidence, Confidence::High);
    shows(&finding, "95 % of a CPU while tracking 1500 mounts");
    shows(&finding, "runc 1.1.12 mounts and unmounts its own binary");
    let quick = busy(Machine::healthy()).suffering();
    let quick = quick.finding(Cause::SystemdOverloaded);
    assert_eq!(quick.confidence, Confidence::Medium);
    busy(Machine::healthy()).has_no_finding(Cause::SystemdOverloaded);
    // If systemd is slow but idle, there is another cause.
    slow(Machine::healthy()).has_no_finding(Cause::SystemdOverloaded);
}

#[test]
fn a_bus_without_systemd_or_without_free_connections_is_unavailable() {
    let without_owner = Machine::healthy().bus(|bus| bus.owner = Fact::known(None, "bus"));
    let finding = without_owner.finding(Cause::BusUnavailable);
    assert_eq!(finding.confidence, Confidence::Certain);
    assert_eq!(finding.culprit.pid, Some(400));

    let full = Machine::healthy().bus(|bus| {
        let rejected = Reach::Rejected {
            error: "org.freedesktop.DBus.Error.LimitsExceeded".to_owned(),
            message: "The maximum number of active connections for UID 0 has been reached".into(),
        };
        bus.reach = Fact::known(rejected, "bus");
    });
    shows(&full.finding(Cause::BusUnavailable), "LimitsExceeded");

    let refused = Machine::healthy()
        .without("proc/400")
        .bus(|bus| bus.reach = Fact::known(Reach::Refused, "/run/dbus/system_bus_socket"));
    let finding = refused.finding(Cause::BusUnavailable);
    shows(&finding, "no bus daemon is running");
    advises(&finding, "`systemctl start dbus`");
}

#[test]
fn the_bus_is_not_needed_if_process_1_is_not_systemd() {
    Machine::healthy()
        .task(&Task::new(1, 0, "machined"))
        .bus(|bus| bus.reach = Fact::known(Reach::NoSocket, "bus"))
        .has_no_finding(Cause::BusUnavailable);
}

#[test]
fn a_repair_loop_of_the_kubelet_is_reported_after_its_root_cause() {
    let restarted = |restarts: u32, age: u64| {
        Machine::healthy()
            .task(&Task::new(600, 1, "kubelet").aged(age))
            .bus(|bus| bus.services = Fact::known(vec![kubelet(restarts)], "bus"))
    };
    let machine = restarted(4000, 100);
    let finding = machine.finding(Cause::RepairLoop);
    assert_eq!(finding.confidence, Confidence::High);
    shows(
        &finding,
        "its main process, kubelet (600), has been running for 1m40s",
    );
    restarted(4000, 5000).has_no_finding(Cause::RepairLoop);

    let both = machine.bus(|bus| bus.owner = Fact::known(None, "bus"));
    let found = doctor::diagnosis::diagnose(&both.facts(), |_| true).findings;
    let causes: Vec<_> = found.iter().map(|finding| finding.cause).collect();
    assert_eq!(causes, [Cause::BusUnavailable, Cause::RepairLoop]);
}
