//! What runs out: descriptors, instances of inotify, processes, control groups.

use causes::Cause;
use causes::finding::{Confidence, Finding};

use crate::built::{Machine, advises, shows};
use crate::task::{POD, Task};

#[test]
fn a_daemon_at_its_limit_of_descriptors_is_named_with_both_numbers() {
    let mut containerd = Task::new(500, 1, "containerd");
    containerd.fds = vec!["socket:[1]"; 64];
    containerd.fd_limit = 64;
    let finding = Machine::healthy()
        .task(&containerd)
        .finding(Cause::FdOrInotifyExhausted);
    assert_eq!(finding.confidence, Confidence::Certain);
    assert_eq!(finding.culprit.pid, Some(500));
    shows(&finding, "containerd (500) has 64 of 64");
    advises(&finding, "`prlimit --pid 500 --nofile=128:`");
    assert_eq!(finding.culprit.unit.as_deref(), Some("containerd.service"));
    containerd.fd_limit = 128;
    Machine::healthy()
        .task(&containerd)
        .has_no_finding(Cause::FdOrInotifyExhausted);
}

#[test]
fn instances_of_inotify_are_counted_by_user_and_the_largest_holder_is_named() {
    let mut leaking = Task::new(720, 1, "leaky");
    leaking.fds = vec!["anon_inode:inotify"; 100];
    let mut other = Task::new(721, 1, "other");
    other.fds = vec!["anon_inode:inotify"; 28];
    let machine = Machine::healthy().task(&leaking).task(&other);
    let finding = machine.finding(Cause::FdOrInotifyExhausted);
    assert_eq!(finding.culprit.process.as_deref(), Some("leaky"));
    shows(&finding, "128 of 128 inotify instances");
    let raised = "`sysctl -w fs.inotify.max_user_instances=8192`";
    advises(&finding, raised);
    Machine::healthy()
        .task(&other)
        .has_no_finding(Cause::FdOrInotifyExhausted);
}

#[test]
fn a_machine_without_free_process_ids_is_certain() {
    let machine = Machine::healthy().file("proc/loadavg", "9.0 9.0 9.0 9/32700 1\n");
    let finding = machine.finding(Cause::PidsExhausted);
    assert_eq!(finding.confidence, Confidence::Certain);
    shows(
        &finding,
        "there are 32700 tasks; kernel.pid_max allows 32768",
    );
    advises(&finding, "`sysctl -w kernel.pid_max=65536`");
    Machine::healthy().has_no_finding(Cause::PidsExhausted);
}

#[test]
fn a_limit_at_its_maximum_is_not_raised_and_process_1_is_not_restarted() {
    let machine = Machine::healthy()
        .file("proc/loadavg", "9.0 9.0 9.0 9/4194000 1\n")
        .file("proc/sys/kernel/pid_max", "4194304\n")
        .file("proc/sys/kernel/threads-max", "9999999\n");
    // A zombie has little besides its state, and writing its other files would take a minute.
    let with_zombies = |machine: Machine, parent: u32| {
        (10_000..11_000).fold(machine, |machine, pid| {
            let stat = format!(
                "{pid} (defunct) Z {parent} 1 1 0 -1 4194560 1 2 3 4 5 0 0 0 20 0 1 0 99500000 0 0\n"
            );
            machine.file(&format!("proc/{pid}/stat"), &stat)
        })
    };
    let shows_parent = |finding: &Finding, parent| {
        assert_eq!(finding.culprit.pid, Some(parent));
        shows(finding, "1000 of them are zombies of ");
    };
    let machine = with_zombies(machine, 1);
    let finding = machine.finding(Cause::PidsExhausted);
    shows_parent(&finding, 1);
    advises(&finding, "compare the number of tasks with kernel.pid_max");
    // A shim is not restarted, because its pod would be lost.
    let machine = with_zombies(machine, 700);
    let finding = machine.finding(Cause::PidsExhausted);
    shows_parent(&finding, 700);
    advises(&finding, "compare the number of tasks with kernel.pid_max");
    let finding = with_zombies(machine, 710).finding(Cause::PidsExhausted);
    shows_parent(&finding, 710);
    advises(&finding, "restart app (710)");
}

#[test]
fn a_runtime_at_its_limit_of_tasks_is_a_problem_and_a_pod_at_its_limit_is_not() {
    let at_limit = |path: &str| {
        Machine::healthy()
            .file(&format!("sys/fs/cgroup/pids{path}/pids.current"), "4915\n")
            .file(&format!("sys/fs/cgroup/pids{path}/pids.max"), "4915\n")
            .file(&format!("sys/fs/cgroup/pids{path}/pids.events"), "max 33\n")
            .finding(Cause::PidsExhausted)
    };
    let runtime = at_limit("/system.slice/containerd.service");
    assert_eq!(runtime.confidence, Confidence::Certain);
    assert_eq!(runtime.culprit.pid, Some(500));
    shows(&runtime, "refused 33 times");
    let raised = "set-property --runtime containerd.service TasksMax=9830";
    advises(&runtime, raised);
    let pod = at_limit(POD);
    assert_eq!(pod.confidence, Confidence::Low);
    assert!(pod.culprit.pod.is_some());
}

#[test]
fn leaked_control_groups_are_those_without_a_directory() {
    let counted = |release: &str, counted: u64| {
        let table = format!("#subsys_name hierarchy num_cgroups enabled\nmemory 4 {counted} 1\n");
        Machine::healthy()
            .file("proc/cgroups", &table)
            .file("proc/sys/kernel/osrelease", release)
    };
    let leaking = "3.10.0-957.el7.x86_64\n";
    let finding = counted(leaking, 55_000).finding(Cause::MemoryCgroupLeak);
    assert_eq!(finding.confidence, Confidence::High);
    shows(
        &finding,
        "the kernel counts 55000 memory cgroups, 54998 of them leaked",
    );
    shows(&finding, "leaks memory cgroups with every container");
    let other = counted("5.10.0-8-amd64\n", 20_000).finding(Cause::MemoryCgroupLeak);
    assert_eq!(other.confidence, Confidence::Medium);
    counted(leaking, 300).has_no_finding(Cause::MemoryCgroupLeak);
}

#[test]
fn on_version_2_the_kernel_itself_says_how_many_are_dying() {
    let counted = |folders: u64, dying: u64| {
        let stat = format!("nr_descendants {folders}\nnr_dying_descendants {dying}\n");
        Machine::healthy()
            .without("sys/fs/cgroup/memory")
            .file("sys/fs/cgroup/cgroup.controllers", "memory pids")
            .file("sys/fs/cgroup/cgroup.stat", &stat)
    };
    // A cgroup that was removed holds no id: many of them only slow down the statistics.
    let finding = counted(400, 64_000).finding(Cause::MemoryCgroupLeak);
    shows(&finding, "64000 cgroups were removed and are not freed");
    assert_eq!(finding.confidence, Confidence::Medium);
    assert!(!finding.advice.join("").contains("65535"), "{finding:?}");
    counted(400, 40).has_no_finding(Cause::MemoryCgroupLeak);
    counted(64_000, 40).has_no_finding(Cause::MemoryCgroupLeak);
}

#[test]
fn a_runtime_near_the_memory_limit_of_its_slice_is_about_to_be_killed() {
    let page_kib = rustix::param::page_size() as u64 / 1024;
    let pages = (500 << 10) / page_kib;
    let stat = format!(
        "500 (containerd) S 1 1 1 0 -1 4194560 1 2 3 4 100 0 0 0 20 0 1 0 99500000 0 {pages}\n"
    );
    let unlimited = "9223372036854771712\n";
    let machine = |of_slice: &str| {
        let of_slice = format!("{of_slice}\n");
        let groups = "sys/fs/cgroup/memory/system.slice";
        Machine::healthy()
            .file("proc/500/stat", &stat)
            .file(&format!("{groups}/memory.limit_in_bytes"), &of_slice)
            .file(
                &format!("{groups}/containerd.service/memory.limit_in_bytes"),
                unlimited,
            )
    };
    let finding = machine("536870912").finding(Cause::RuntimeLeak);
    assert_eq!(finding.culprit.pid, Some(500));
    shows(&finding, "500 MiB of memory, and is killed at 512 MiB");
    machine(unlimited.trim()).has_no_finding(Cause::RuntimeLeak);
    // The machine has 8,000,000 KiB.
    let large = stat.replace(&pages.to_string(), &(pages * 5).to_string());
    let finding = Machine::healthy().file("proc/500/stat", &large);
    let finding = finding.finding(Cause::RuntimeLeak);
    shows(&finding, "2500 MiB of the 7812 MiB of memory");
}
