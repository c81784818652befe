//! CPU and memory.

use causes::Cause;
use causes::finding::Confidence;

use crate::built::{Machine, advises, shows};
use crate::task::Task;

#[test]
fn a_kubelet_that_waits_for_a_cpu_is_named_with_its_delay() {
    let mut kubelet = Task::new(600, 1, "kubelet");
    kubelet.delay += 1_500_000_000;
    let machine = || {
        Machine::healthy()
            .file(
                "proc/pressure/cpu",
                "some avg10=90.00 avg60=85.00 avg300=60.00 total=1\n",
            )
            .later("proc/stat", "cpu  1100 0 1090 8010 0 0 0 0 0 0\n")
            .task_later(kubelet.clone())
    };
    let finding = machine().suffering().finding(Cause::CpuStarved);
    assert_eq!(finding.confidence, Confidence::High);
    assert_eq!(finding.culprit.pid, Some(600));
    shows(&finding, "kubelet (600) waited for a CPU for 1.5 s");
    shows(&finding, "85 % of the last minute");
    shows(&finding, "95 % busy");
    shows(&finding, "ListContainers took 3.2s");
    advises(
        &finding,
        "set-property --runtime containerd.service CPUWeight=1000",
    );
    // The same pressure, but every call is answered in time.
    machine().has_no_finding(Cause::CpuStarved);
}

#[test]
fn a_busy_second_is_no_starvation() {
    let mut kubelet = Task::new(600, 1, "kubelet");
    kubelet.delay += 1_500_000_000;
    Machine::healthy()
        .suffering()
        .file(
            "proc/pressure/cpu",
            "some avg10=60.00 avg60=22.00 avg300=5.00 total=1\n",
        )
        .later("proc/stat", "cpu  1100 0 1090 8010 0 0 0 0 0 0\n")
        .task_later(kubelet)
        .has_no_finding(Cause::CpuStarved);
}

#[test]
fn a_busy_machine_whose_daemons_do_not_wait_is_healthy() {
    Machine::healthy()
        .suffering()
        .file(
            "proc/pressure/cpu",
            "some avg10=90.00 avg60=85.00 avg300=60.00 total=1\n",
        )
        .later("proc/stat", "cpu  1100 0 1090 8010 0 0 0 0 0 0\n")
        .has_no_finding(Cause::CpuStarved);
}

#[test]
fn time_that_the_hypervisor_takes_is_reported() {
    let machine = || Machine::healthy().later("proc/stat", "cpu  1050 0 1000 8050 0 0 0 100 0 0\n");
    let finding = machine().suffering().finding(Cause::CpuStarved);
    shows(&finding, "hypervisor took 50 %");
    machine().has_no_finding(Cause::CpuStarved);
}

#[test]
fn evicted_memory_that_is_read_again_is_thrashing() {
    let full = "some avg10=60.00 avg60=50.00 avg300=9.00 total=1\n\
                full avg10=35.00 avg60=30.00 avg300=9.00 total=1\n";
    let machine = || Machine::healthy().file("proc/pressure/memory", full);
    let finding = machine().suffering().finding(Cause::MemoryThrash);
    assert_eq!(finding.confidence, Confidence::High);
    shows(&finding, "35 % of the last 10 s");
    machine().has_no_finding(Cause::MemoryThrash);

    let short = "MemTotal: 8000000 kB\nMemAvailable: 100000 kB\n";
    let old = || {
        Machine::healthy()
            .without("proc/pressure")
            .file("proc/meminfo", short)
    };
    let read_again = || old().later("proc/vmstat", "workingset_refault 20100\n");
    let finding = read_again().suffering().finding(Cause::MemoryThrash);
    assert_eq!(finding.confidence, Confidence::Medium);
    read_again().has_no_finding(Cause::MemoryThrash);
    // The memory is full, but nothing is read again.
    old().suffering().has_no_finding(Cause::MemoryThrash);
}

#[test]
fn a_runtime_that_the_kernel_killed_is_reported_while_the_kill_is_recent() {
    let killed = |seconds: u64, name: &str| {
        let line = format!("3,7,{seconds}000000,-;Out of memory: Killed process 500 ({name})\n");
        Machine::healthy().file("dev/kmsg", &line)
    };
    let finding = killed(999_900, "containerd").finding(Cause::MemoryThrash);
    shows(&finding, "(containerd)");
    assert_eq!(finding.culprit.process.as_deref(), Some("containerd"));
    killed(500_000, "containerd").has_no_finding(Cause::MemoryThrash);
    // The loss of a workload is a finding only if the node has a victim.
    killed(999_900, "java").has_no_finding(Cause::MemoryThrash);
    let finding = killed(999_900, "java").suffering();
    shows(&finding.finding(Cause::MemoryThrash), "(java)");
}

#[test]
fn a_process_that_is_killed_at_the_limit_of_its_cgroup_affects_only_its_pod() {
    let said = |text: &str| {
        let line = format!("3,7,999900000000,-;{text}\n");
        Machine::healthy().file("dev/kmsg", &line)
    };
    for text in [
        "Memory cgroup out of memory: Killed process 900 (runc:[2:INIT])",
        "Memory cgroup out of memory: Killed process 900 (containerd)",
        "Out of memory: Killed process 900 (containerd-shim)",
    ] {
        said(text).has_no_finding(Cause::MemoryThrash);
        let finding = said(text).suffering().finding(Cause::MemoryThrash);
        assert_eq!(finding.culprit.pid, None, "{text}");
        advises(&finding, "check /proc/pressure/memory");
    }
}

#[test]
fn a_runtime_that_was_killed_among_many_others_is_named_before_them() {
    let kill = |(at, name): (usize, &str)| {
        format!("3,{at},9999{at:02}000000,-;Out of memory: Killed process {at} ({name})\n")
    };
    let names = ["java"; 8].into_iter().chain(["containerd"]);
    let log: String = names.enumerate().map(kill).collect();
    let finding = Machine::healthy()
        .file("dev/kmsg", &log)
        .finding(Cause::MemoryThrash);
    assert_eq!(finding.culprit.pid, Some(8));
    shows(&finding, "Killed process 8 (containerd)");
    advises(&finding, "check whether containerd is running again");
}
