//! No process or thread can be created: on the whole machine, or in one cgroup.

use std::collections::BTreeMap;

use causes::Cause;
use causes::facts::facts;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::{advised, finding, of_kernel_log};
use crate::evidence::lack::lack;
use crate::evidence::owner::of_cgroup;
use crate::evidence::remedy::raise_sysctl;
use crate::evidence::runc::restart;
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::host::process::is_within;
use crate::facts::host::{HostFacts, PidsUse, Process};

/// The largest `kernel.pid_max` of a 64-bit machine.
const MAX_TASKS: u64 = 4_194_304;
/// From this number of zombies on, their parent process is reported.
const MIN_ZOMBIES: usize = 1000;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let groups = known(&host.cgroups.pids).iter();
    let groups = groups.filter_map(|group| full(host, group));
    let mut findings: Vec<Finding> = whole_machine(facts).into_iter().chain(groups).collect();
    if findings.is_empty() {
        findings.extend(of_kernel_log(facts, Cause::PidsExhausted));
    }
    Opinion::of(
        findings,
        [
            lack(&host.limits.tasks),
            lack(&host.limits.pid_max),
            lack(&host.cgroups.pids),
        ],
    )
}

fn whole_machine(node: &NodeFacts) -> Option<Finding> {
    let host = &node.host;
    let tasks = *host.limits.tasks.value()?;
    let maxima = [
        (host.limits.pid_max.value(), "kernel.pid_max"),
        (host.limits.threads_max.value(), "kernel.threads-max"),
    ];
    let maxima = maxima.into_iter();
    let known = maxima.filter_map(|(max, name)| Some((*max?, name)));
    let (max, name) = known.min_by_key(|(max, _)| *max)?;
    if !is_used_up(tasks, max) {
        return None;
    }
    let mut evidence = vec![format!("there are {tasks} tasks; {name} allows {max}")];
    let (parent, says) = zombies(host).unzip();
    evidence.extend(says);
    let culprit = parent.map_or_else(Culprit::default, culprit::of_process);
    let found = finding(Cause::PidsExhausted, Confidence::Certain, culprit, evidence);
    // Restarting a shim costs its pod, and process 1 cannot be restarted.
    let may_restart = |parent: &&Process| parent.pid != 1 && !parent.is_shim();
    let remove_zombies = parent.filter(may_restart).map(|parent| {
        let label = parent.label();
        match parent.is_runtime() {
            true => format!(
                "{label} is to be restarted to remove its zombies: {}",
                restart(node, "the restart")
            ),
            false => format!("restart {label} to remove its zombies"),
        }
    });
    let found = advised(found, remove_zombies);
    let more = max.saturating_mul(2).min(MAX_TASKS);
    let raise = (more > max).then(|| raise_sysctl(name, max, more));
    Some(advised(found, raise))
}

fn is_used_up(tasks: u64, max: u64) -> bool {
    tasks as f64 >= max as f64 * facts().limits["usedUpPercent"] / 100.0
}

/// The parent of the most zombies, and the evidence; `None` if these are few.
fn zombies(host: &HostFacts) -> Option<(&Process, String)> {
    let mut parents: BTreeMap<u32, usize> = BTreeMap::new();
    for process in host.all_processes() {
        if process.state == 'Z' {
            *parents.entry(process.ppid).or_default() += 1;
        }
    }
    let (pid, count) = parents.into_iter().max_by_key(|(_, count)| *count)?;
    let parent = host.process(pid).filter(|_| count >= MIN_ZOMBIES)?;
    let says = format!("{count} of them are zombies of {}", parent.label());
    Some((parent, says))
}

fn full(host: &HostFacts, group: &PidsUse) -> Option<Finding> {
    if !is_used_up(group.current, group.max) {
        return None;
    }
    let mut evidence = vec![format!(
        "{} has {} of at most {} tasks",
        group.path, group.current, group.max
    )];
    if let Some(refused) = group.refused.filter(|refused| *refused > 0) {
        evidence.push(format!("a new task was refused {refused} times"));
    }
    let daemon = host.all_processes().iter().find(|process| {
        let inside = process
            .cgroup("pids")
            .is_some_and(|path| is_within(path, &group.path));
        inside && (process.is_daemon() || process.is_shim())
    });
    let found = of_cgroup(&group.path);
    let is_a_workload = found.pod.is_some() || found.id.is_some();
    let is_of_all_pods = ["/kubepods", "/kubepods.slice"].contains(&group.path.as_str());
    // A workload at its own limit affects only itself; a daemon affects the node.
    let (confidence, sentence) = match daemon {
        Some(_) => (Confidence::Certain, ""),
        None if is_a_workload => (
            Confidence::Low,
            "no more processes or threads can be created in one pod",
        ),
        None if is_of_all_pods => (
            Confidence::High,
            "no more processes or threads can be created in any pod",
        ),
        // The control group belongs to another program on this machine.
        None => return None,
    };
    let culprit = daemon.map_or(found, culprit::of_process);
    let (max, double) = (group.max, group.max.saturating_mul(2));
    let advice = match &culprit.unit {
        Some(unit) => format!(
            "raise the limit (now {max}) with `systemctl set-property --runtime {unit} \
             TasksMax={double}`"
        ),
        None => format!(
            "find what creates so many tasks in {}, whose limit is {max}; for a pod, the limit is \
             the kubelet's podPidsLimit",
            group.path
        ),
    };
    let mut found = finding(Cause::PidsExhausted, confidence, culprit, evidence);
    found.sentence = sentence.to_owned();
    Some(found.advising(advice))
}
