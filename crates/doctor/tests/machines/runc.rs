//! runc processes that are frozen or do not return.

use causes::Cause;
use causes::finding::Confidence;

use crate::built::{Machine, advises, shows};
use crate::task::{ID, POD, Task};

fn version(version: &str) -> Machine {
    let program = format!("\u{7f}ELF -X main.version={version} -s");
    Machine::healthy().file("usr/sbin/runc", &program)
}

fn init(state: char, wchan: &'static str) -> Task {
    let mut init = Task::new(910, 900, "runc:[2:INIT]")
        .in_container()
        .aged(120);
    init.state = state;
    init.wchan = wchan;
    init
}

#[test]
fn a_frozen_init_is_named_with_the_file_that_thaws_it() {
    let state = format!("sys/fs/cgroup/freezer{POD}/{ID}/freezer.state");
    let machine = Machine::healthy()
        .file(&state, "FROZEN\n")
        .task(&init('D', "__refrigerator"));
    let finding = machine.finding(Cause::RuncInitFrozen);
    assert_eq!(finding.confidence, Confidence::Certain);
    assert_eq!(finding.culprit.pid, Some(910));
    assert_eq!(finding.culprit.id.as_deref(), Some(ID));
    advises(&finding, "`echo THAWED > ");
    advises(&finding, &format!("{state}`"));
    Machine::healthy()
        .file(&state, "THAWED\n")
        .task(&init('S', "ep_poll"))
        .has_no_finding(Cause::RuncInitFrozen);
}

#[test]
fn on_version_2_a_frozen_init_is_found_by_its_control_group() {
    let freeze = format!("sys/fs/cgroup/unified{POD}/{ID}/cgroup.freeze");
    let machine = Machine::healthy()
        .without("sys/fs/cgroup/freezer")
        .file("sys/fs/cgroup/unified/cgroup.controllers", "")
        .file(&freeze, "1\n")
        .task(&init('S', "do_freezer_trap"));
    let finding = machine.finding(Cause::RuncInitFrozen);
    assert_eq!(finding.confidence, Confidence::High);
    advises(&finding, "`echo 0 > ");
    advises(&finding, &freeze);
}

#[test]
fn the_kernel_is_blamed_only_if_the_control_group_could_be_read() {
    let refrigerated = || Machine::healthy().task(&init('D', "__refrigerator"));
    let finding = refrigerated()
        .without("sys/fs/cgroup/freezer")
        .finding(Cause::RuncInitFrozen);
    assert_eq!(finding.confidence, Confidence::High);
    shows(
        &finding,
        "the freezer state of its cgroup could not be read",
    );
    let file = format!("/sys/fs/cgroup/freezer{POD}/{ID}/freezer.state");
    advises(
        &finding,
        &format!("check whether it is frozen with `cat {file}`"),
    );
    advises(&finding, &format!("thaw it with `echo THAWED > {file}`"));

    let finding = refrigerated().finding(Cause::RuncInitFrozen);
    shows(&finding, "a kernel bug");
    advises(&finding, "echo 910 > /sys/fs/cgroup/freezer/tasks");
}

#[test]
fn a_frozen_pod_without_a_process_of_runc_is_only_suspected() {
    let state = format!("sys/fs/cgroup/freezer{POD}/{ID}/freezer.state");
    let machine = Machine::healthy().file(&state, "FROZEN\n");
    let finding = machine.finding(Cause::RuncInitFrozen);
    assert_eq!(finding.confidence, Confidence::Low);
    shows(&finding, "with 1 process in the cgroup");
    advises(
        &finding,
        "unless it was paused on purpose, thaw it with `echo THAWED > ",
    );
}

#[test]
fn a_blocked_runc_init_of_the_faulty_release_candidate_is_certain() {
    let stuck = version("1.0.0-rc93").task(&init('S', "pipe_write"));
    let finding = stuck.finding(Cause::RuncSeccompPipe);
    assert_eq!(finding.confidence, Confidence::Certain);
    shows(&finding, "version of runc: 1.0.0-rc93");
    advises(&finding, "`kill -KILL 910`");
    version("1.0.0-rc94")
        .task(&init('S', "pipe_write"))
        .has_no_finding(Cause::RuncSeccompPipe);
    version("1.0.0-rc93").has_no_finding(Cause::RuncSeccompPipe);
}

#[test]
fn pipes_near_their_limit_are_reported_before_that_release_candidate_hangs() {
    let limit = "proc/sys/fs/pipe-user-pages-soft";
    let machine = version("1.0.0-rc93").file(limit, "50\n");
    let finding = machine.finding(Cause::RuncSeccompPipe);
    shows(&finding, "of 50 pages");
    advises(&finding, "`sysctl -w fs.pipe-user-pages-soft=200`");
    version("1.1.12")
        .file(limit, "50\n")
        .has_no_finding(Cause::RuncSeccompPipe);
}

#[test]
fn an_exec_that_never_returns_is_recognized_by_version_and_by_its_lack_of_children() {
    let left = |machine: Machine| machine.task(&Task::new(900, 700, "runc").aged(300));
    let finding = left(version("1.3.2")).finding(Cause::RuncShortExecStuck);
    assert_eq!(finding.confidence, Confidence::High);
    assert_eq!(finding.culprit.pid, Some(900));
    shows(&finding, "version of runc: 1.3.2");
    advises(&finding, "`kill -KILL 900`");

    left(version("1.3.6")).has_no_finding(Cause::RuncShortExecStuck);
    version("1.3.2").has_no_finding(Cause::RuncShortExecStuck);
    // This runc still has a child process to wait for.
    left(version("1.3.2"))
        .task(&Task::new(901, 900, "runc:[2:INIT]"))
        .has_no_finding(Cause::RuncShortExecStuck);
    // A runc that was started by hand in a terminal may run for days.
    version("1.3.2")
        .task(&Task::new(900, 1, "runc").aged(300))
        .has_no_finding(Cause::RuncShortExecStuck);
}
