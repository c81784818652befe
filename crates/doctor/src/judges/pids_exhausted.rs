//! No process or thread can be created: on the whole machine, or in one cgroup.

use std::collections::BTreeMap;

use causes::Cause;
use causes::facts::facts;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack;
use crate::evidence::owner::{culprit, of_cgroup};
use crate::evidence::remedy::raise_sysctl;
use crate::evidence::runc::restart;
use crate::evidence::waits::kernel_says;
use crate::facts::NodeFacts;
use crate::facts::host::process::is_within;
use crate::facts::host::{HostFacts, PidsUse, Process};

/// The largest `kernel.pid_max` of a 64-bit machine.
const MAX_TASKS: u64 = 4_194_304;
/// From this number of zombies on, their parent process is reported.
const MIN_ZOMBIES: usize = 1000;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(whole_machine(facts));
    let groups = host.cgroups.pids.value().map_or(&[][..], Vec::as_slice);
    findings.extend(groups.iter().filter_map(|group| full(host, group)));
    if findings.is_empty()
        && let Some((confidence, lines)) = kernel_says(facts, Cause::PidsExhausted)
    {
        let cause = Cause::PidsExhausted;
        findings.push(finding(cause, confidence, Culprit::default(), lines));
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
    let known = maxima
        .into_iter()
        .filter_map(|(max, name)| Some((*max?, name)));
    let (max, name) = known.min_by_key(|(max, _)| *max)?;
    if (tasks as f64) < max as f64 * facts().limits["usedUpPercent"] / 100.0 {
        return None;
    }
    let mut evidence = vec![format!("there are {tasks} tasks; {name} allows {max}")];
    let zombies = zombies(host);
    evidence.extend(zombies.as_ref().map(|(_, says)| says.clone()));
    let parent = zombies.map(|(parent, _)| parent);
    let who = parent.map_or_else(Culprit::default, culprit);
    let found = finding(Cause::PidsExhausted, Confidence::Certain, who, evidence);
    // Restarting a shim costs its pod, and process 1 cannot be restarted.
    let may_restart = |parent: &&Process| parent.pid != 1 && !parent.is_shim();
    let found = match parent.filter(may_restart) {
        Some(parent) if parent.is_runtime() => found.advising(format!(
            "{} is to be restarted to remove its zombies: {}",
            parent.label(),
            restart(node, "the restart")
        )),
        Some(parent) => found.advising(format!("restart {} to remove its zombies", parent.label())),
        None => found,
    };
    let more = max.saturating_mul(2).min(MAX_TASKS);
    Some(match more > max {
        true => found.advising(raise_sysctl(name, max, more)),
        false => found,
    })
}

/// The process with the most zombies.
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
    if (group.current as f64) < group.max as f64 * facts().limits["usedUpPercent"] / 100.0 {
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
    let (confidence, sentence) = match (daemon, is_a_workload) {
        (Some(_), _) => (Confidence::Certain, None),
        (None, true) => {
            let sentence = "no more processes or threads can be created in one pod";
            (Confidence::Low, Some(sentence))
        }
        (None, false) if is_of_all_pods => {
            let sentence = "no more processes or threads can be created in any pod";
            (Confidence::High, Some(sentence))
        }
        // Of another program on this machine.
        (None, false) => return None,
    };
    let who = daemon.map_or(found, culprit);
    let (max, double) = (group.max, group.max.saturating_mul(2));
    let advice = match &who.unit {
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
    let mut found = finding(Cause::PidsExhausted, confidence, who, evidence);
    if let Some(sentence) = sentence {
        found.sentence = sentence.to_owned();
    }
    Some(found.advising(advice))
}
