//! A daemon of the node has far more memory, threads or file descriptors than it needs. Goroutines are not
//! visible from outside: a leak of goroutines is found as a leak of memory.

use causes::Cause;
use causes::finding::{Confidence, Finding};

use super::Opinion;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::host::process::is_within;
use crate::facts::host::{HostFacts, Process};
use crate::limits::{
    MANY_DESCRIPTORS, MANY_THREADS, MAX_LEAK_KIB, MEMORY_SHARE, MIN_LEAK_KIB, NEAR_SHARE,
};

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let processes = host.all_processes().iter();
    let daemons = processes.filter(|process| process.is_runtime() || process.comm == "kubelet");
    let found = daemons.filter_map(|daemon| leaks(host, daemon));
    Opinion::of(found, [lack_of_processes(host), lack(&host.memory)])
}

fn leaks(host: &HostFacts, daemon: &Process) -> Option<Finding> {
    let used = [memory(host, daemon), threads(daemon), descriptors(daemon)];
    let used = used.into_iter().flatten();
    let used: Vec<String> = used
        .map(|used| format!("{} has {used}", daemon.label()))
        .collect();
    let first = used.first()?;
    Some(Finding {
        sentence: first.clone(),
        culprit: culprit::of_process(daemon),
        evidence: used,
        ..Finding::new(Cause::RuntimeLeak, Confidence::Medium)
    })
}

fn memory(host: &HostFacts, daemon: &Process) -> Option<String> {
    let resident = daemon.resident_kib?;
    let own = daemon.cgroup("memory").unwrap_or_default();
    let limits = known(&host.cgroups.memory_limits).iter();
    let limits = limits.filter(|limit| is_within(own, &limit.path));
    let limit = limits.map(|limit| limit.max_kib).min();
    if let Some(limit) = limit.filter(|limit| resident as f64 >= *limit as f64 * NEAR_SHARE) {
        let (resident, limit) = (mib(resident), mib(limit));
        return Some(format!(
            "{resident} of memory, and is killed at {limit}, the limit of its control group"
        ));
    }
    let total = host.memory.value()?.total_kib;
    let share = (total as f64 * MEMORY_SHARE) as u64;
    (resident >= share.clamp(MIN_LEAK_KIB, MAX_LEAK_KIB))
        .then(|| format!("{} of the {} of memory", mib(resident), mib(total)))
}

fn mib(kib: u64) -> String {
    format!("{} MiB", kib / 1024)
}

fn threads(daemon: &Process) -> Option<String> {
    let count = daemon.thread_count;
    (count >= MANY_THREADS).then(|| format!("{count} threads"))
}

fn descriptors(daemon: &Process) -> Option<String> {
    let open = daemon.fds.value()?.open;
    (open >= MANY_DESCRIPTORS).then(|| format!("{open} file descriptors open"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::{FdUse, Memory, MemoryLimit};
    use crate::node::{found, node};

    const GIB: u64 = 1 << 20;

    /// A machine with `total_kib` of memory, of which containerd uses `resident_kib`.
    fn using(resident_kib: u64, total_kib: u64) -> NodeFacts {
        let node =
            node("containerd", "1.7.24").in_group(10, "", "/system.slice/containerd.service");
        let mut facts = node.facts();
        let memory = Memory {
            total_kib,
            ..Memory::default()
        };
        facts.host.memory = Fact::known(memory, "meminfo");
        containerd(&mut facts).resident_kib = Some(resident_kib);
        facts
    }

    fn containerd(facts: &mut NodeFacts) -> &mut Process {
        match &mut facts.host.processes {
            Fact::Known { value, .. } => &mut value[0],
            Fact::Missing { .. } => panic!("no process"),
        }
    }

    #[test]
    fn a_runtime_that_uses_a_large_part_of_the_memory_is_suspected_of_a_leak() {
        for (resident, total, is_leak) in [
            (300 << 10, 4 * GIB, false),
            (GIB - 1, 2 * GIB, false),
            (GIB, 2 * GIB, true),
            (3 * GIB, 16 * GIB, false),
            (4 * GIB, 16 * GIB, true),
            (7 * GIB, 512 * GIB, false),
            (41 * GIB, 512 * GIB, true),
        ] {
            let opinion = judge(&using(resident, total));
            assert_eq!(opinion != Opinion::Clear, is_leak, "{resident} {total}");
        }
        let found = found(judge(&using(41 * GIB, 64 * GIB)));
        assert_eq!(found[0].confidence, Confidence::Medium);
        let said = "containerd (10) has 41984 MiB of the 65536 MiB of memory";
        assert_eq!(found[0].sentence, said);
        assert_eq!(found[0].culprit.pid, Some(10));
    }

    #[test]
    fn a_runtime_near_the_limit_of_a_control_group_above_it_is_about_to_be_killed() {
        let with_limit = |max_kib| {
            let mut facts = using(500 << 10, 64 * GIB);
            let path = "/system.slice".to_owned();
            let limits = vec![MemoryLimit { path, max_kib }];
            facts.host.cgroups.memory_limits = Fact::known(limits, "cgroups");
            facts
        };
        assert_eq!(judge(&with_limit(GIB)), Opinion::Clear);
        let found = found(judge(&with_limit(512 << 10)));
        assert_eq!(
            found[0].sentence,
            "containerd (10) has 500 MiB of memory, and is killed at 512 MiB, the limit of its \
             control group"
        );
    }

    #[test]
    fn threads_and_descriptors_are_counted_too() {
        let mut facts = using(300 << 10, 64 * GIB);
        containerd(&mut facts).thread_count = 200;
        containerd(&mut facts).fds = Fact::known(
            FdUse {
                open: 9_000,
                limit: Some(1_048_576),
                ..FdUse::default()
            },
            "fd",
        );
        assert_eq!(judge(&facts), Opinion::Clear);
        containerd(&mut facts).thread_count = 7_412;
        if let Fact::Known { value, .. } = &mut containerd(&mut facts).fds {
            value.open = 61_000;
        }
        let found = &found(judge(&facts))[0];
        assert_eq!(found.sentence, "containerd (10) has 7412 threads");
        let said = "containerd (10) has 61000 file descriptors open";
        assert_eq!(found.evidence[1], said);
    }

    #[test]
    fn a_program_that_contains_more_than_a_kubelet_and_unknown_memory_are_not_judged() {
        let mut k3s = using(4 * GIB, 4 * GIB);
        containerd(&mut k3s).comm = "k3s-server".to_owned();
        assert_eq!(judge(&k3s), Opinion::Clear);
        let mut unknown = using(300 << 10, 4 * GIB);
        unknown.host.memory = Fact::missing("denied", "meminfo");
        assert!(matches!(judge(&unknown), Opinion::Unknown(_)));
    }
}
