//! Files of processes whose read never returns: each costs one fact and nothing else.

use std::time::{Duration, Instant};

use causes::Cause;
use doctor::diagnosis::diagnose;
use doctor::facts::NodeFacts;
use doctor::facts::host::Process;

use crate::built::Machine;
use crate::task::Task;

/// The limit for a step of a real collection.
const STEP: Duration = Duration::from_secs(5);

/// The files that are read of a process.
const FILES: [&str; 6] = [
    "stat",
    "status",
    "wchan",
    "cgroup",
    "limits",
    "task/1000/stat",
];

/// A healthy machine with `count` more processes, whose PIDs begin at 1000.
fn with_tasks(count: u32) -> Machine {
    (1000..1000 + count).fold(Machine::healthy(), |machine, pid| {
        machine.task(&Task::new(pid, 1, "app").in_container())
    })
}

fn facts(machine: &Machine) -> NodeFacts {
    let begun = Instant::now();
    let facts = machine.facts();
    assert!(begun.elapsed() < STEP * 2, "{:?}", begun.elapsed());
    facts
}

fn process(facts: &NodeFacts, pid: u32) -> &Process {
    facts.host.process(pid).expect("it runs")
}

#[track_caller]
fn assert_gaps(facts: &NodeFacts, expected: &[String]) {
    let gaps = &facts.host.gaps;
    assert_eq!(gaps.files.len(), expected.len(), "{gaps:?}");
    assert_eq!(gaps.processes, 0);
    for path in expected {
        let mut files = gaps.files.iter();
        let gap = files.find(|gap| gap.file.ends_with(path));
        assert!(
            gap.is_some_and(|gap| gap.why.is_blocked()),
            "{path} in {gaps:?}"
        );
    }
}

#[test]
fn a_file_that_never_returns_costs_that_one_fact() {
    let all = with_tasks(5).facts().host.all_processes().len();
    for file in FILES {
        let path = format!("proc/1000/{file}");
        let seen = facts(&with_tasks(5).blocked(&path));
        assert_gaps(&seen, &[path]);
        let without = usize::from(file == "stat");
        assert_eq!(seen.host.all_processes().len(), all - without, "{file}");
        assert!(!process(&seen, 1001).cgroups.is_empty(), "{file}");
        assert!(process(&seen, 500).cpu_share.is_some(), "{file}");
    }
}

#[test]
fn twenty_files_that_never_return_cost_those_twenty_facts() {
    let blocked: Vec<_> = (1000..1040)
        .step_by(2)
        .map(|pid| format!("proc/{pid}/cgroup"))
        .collect();
    let machine = blocked
        .iter()
        .fold(with_tasks(40), |machine, path| machine.blocked(path));
    let seen = facts(&machine);
    assert_gaps(&seen, &blocked);
    for pid in (1001..1040).step_by(2) {
        assert!(!process(&seen, pid).cgroups.is_empty(), "{pid}");
        assert_eq!(process(&seen, pid - 1).comm, "app");
        assert!(process(&seen, pid - 1).fds.value().is_some());
    }
}

#[test]
fn if_all_files_of_a_kind_never_return_the_others_are_still_read() {
    let machine = (1000..1060).fold(with_tasks(60), |machine, pid| {
        machine.blocked(&format!("proc/{pid}/cgroup"))
    });
    let seen = facts(&machine);
    let gaps = &seen.host.gaps.files;
    assert!(gaps.len() >= 60, "{gaps:?}");
    assert!(gaps.iter().all(|gap| gap.file.ends_with("/cgroup")));
    assert_eq!(seen.host.gaps.processes, 0);
    assert_eq!(process(&seen, 1059).thread_count, 1);
    // A judge that needs the control groups of processes cannot rule out its cause.
    let diagnosis = diagnose(&seen, |cause| cause == Cause::RuncInitFrozen);
    let why = &diagnosis.not_checked[0].why;
    assert!(why.contains("/cgroup: the kernel did not return"), "{why}");
}

#[test]
fn what_was_read_until_the_deadline_is_kept_and_marked_as_incomplete() {
    let machine = with_tasks(1000);
    let seen = machine.facts_within(Duration::from_millis(20));
    let host = &seen.host;
    let read = host.all_processes().len();
    assert!(read > 0 && read < 1000, "{read}");
    assert!(read + host.gaps.processes >= 1000, "{read} {:?}", host.gaps);
    assert!(!host.shows_all_processes());
    let diagnosis = diagnose(&seen, |cause| cause == Cause::StorageUnresponsive);
    let why = &diagnosis.not_checked[0].why;
    assert!(why.contains("could not be read in time"), "{why}");
}
