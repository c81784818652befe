//! Faults of the kernel itself.

use causes::Cause;
use causes::finding::Confidence;

use crate::built::{Machine, advises, shows};
use crate::task::Task;

const RELEASE: &str = "proc/sys/kernel/osrelease";

#[test]
fn a_network_lock_that_many_tasks_wait_for_is_reported_with_the_line_of_the_kernel() {
    let piled = || {
        (0..7).fold(Machine::healthy(), |machine, at| {
            machine.task(&Task::new(930 + at, 500, "bridge").blocked_in("rtnl_lock"))
        })
    };
    let finding = piled().finding(Cause::RtnlStuck);
    assert_eq!(finding.confidence, Confidence::High);
    shows(&finding, "7 blocked threads in total");

    let line = "4,9,999990000000,-;unregister_netdevice: waiting for lo to become free. \
                Usage count = 1\n";
    let finding = piled().file("dev/kmsg", line).finding(Cause::RtnlStuck);
    assert_eq!(finding.confidence, Confidence::Certain);
    shows(&finding, "waiting for lo to become free");
    Machine::healthy().has_no_finding(Cause::RtnlStuck);
}

fn pair_in(machine: Machine, place: &'static str) -> Machine {
    let asleep = |mut task: Task| {
        task.wchan = place;
        task.aged(600)
    };
    machine
        .task(&asleep(Task::new(900, 700, "runc")))
        .task(&asleep(Task::new(910, 900, "runc:[2:INIT]")))
}

fn pair(machine: Machine) -> Machine {
    pair_in(machine, "ep_poll")
}

#[test]
fn two_idle_processes_on_a_kernel_that_loses_wake_ups_are_named_with_the_fixed_release() {
    let finding = pair(Machine::healthy().file(RELEASE, "5.4.0-132-generic\n"))
        .finding(Cause::KernelRegression);
    assert_eq!(finding.confidence, Confidence::High);
    assert_eq!(finding.culprit.pid, Some(910));
    shows(&finding, "fixed in 5.4.0-135");
    advises(&finding, "boot kernel 5.4.0-135");
}

#[test]
fn neither_a_faulty_release_nor_idle_processes_alone_are_a_finding() {
    let bad = || Machine::healthy().file(RELEASE, "5.4.0-132-generic\n");
    bad().has_no_finding(Cause::KernelRegression);
    pair(Machine::healthy()).has_no_finding(Cause::KernelRegression);
    // Processes that wait for something else, and tasks that are blocked elsewhere.
    pair_in(bad(), "unix_stream_read_generic").has_no_finding(Cause::KernelRegression);
    Machine::healthy()
        .file(RELEASE, "6.1.115-126.197.amzn2023.x86_64\n")
        .task(
            &Task::new(710, 700, "node")
                .in_container()
                .blocked_in("rpc_wait_bit_killable"),
        )
        .has_no_finding(Cause::KernelRegression);
    // A thread that is blocked in the kernel waits for something else.
    pair(bad())
        .task(
            &Task::new(910, 900, "runc:[2:INIT]")
                .aged(600)
                .blocked_in("rpc_wait_bit_killable"),
        )
        .has_no_finding(Cause::KernelRegression);
}

#[test]
fn threads_that_are_blocked_by_a_known_fault_of_the_kernel_are_reported() {
    let release = "6.1.115-126.197.amzn2023.x86_64\n";
    let machine = Machine::healthy().file(RELEASE, release).task(
        &Task::new(710, 700, "node")
            .in_container()
            .blocked_in("io_ring_exit_work"),
    );
    let finding = machine.finding(Cause::KernelRegression);
    assert_eq!(finding.confidence, Confidence::Medium);
    assert!(
        finding
            .sentence
            .starts_with("this kernel release has a known fault")
    );
    shows(&finding, "io_uring");
    shows(&finding, "6.1.119-129.201");
}
