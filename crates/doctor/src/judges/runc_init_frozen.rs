//! runc freezes a cgroup while it changes it; if runc is killed meanwhile, the cgroup stays
//! frozen.

use causes::Cause;
use causes::finding::{Confidence, Finding};
use pleg::out::words::counted;

use super::Opinion;
use super::opinion::{advised, finding};
use crate::evidence::ending::{Held, endings};
use crate::evidence::lack::{lack, lack_of_groups};
use crate::evidence::owner::of_cgroup;
use crate::evidence::phrases::name_of_task;
use crate::evidence::remedy::thaw;
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::host::process::{is_of_freezer, is_within};
use crate::facts::host::{FrozenCgroup, HostFacts, Process};
use crate::facts::tasks::Task;

/// runc takes less than a second, and waits for systemd for at most 30 s.
const STUCK_SECONDS: f64 = 30.0;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let mut findings: Vec<Finding> = host
        .all_processes()
        .iter()
        .filter(|process| process.is_runc_init() || process.is_runc())
        .filter_map(|process| stuck(process, host))
        .collect();
    // A frozen container that is to end, but cannot, is a separate finding.
    let ending = endings(facts);
    let is_reported = |group: &FrozenCgroup| {
        let mut ending = ending.iter();
        ending.any(|ending| matches!(ending.held, Held::Frozen(held) if held == group))
    };
    if findings.is_empty() {
        let frozen = known(&host.cgroups.frozen).iter();
        let others = frozen.filter(|group| !is_reported(group));
        findings.extend(others.filter_map(|group| left_frozen(facts, group)));
    }
    Opinion::of(findings, [lack_of_groups(host), lack(&host.cgroups.frozen)])
}

fn stuck(process: &Process, host: &HostFacts) -> Option<Finding> {
    let is_read = host.cgroups.frozen.value().is_some() && process.cgroup("freezer").is_some();
    let group = host.frozen_group(process);
    let mut threads = process.threads.iter();
    let refrigerated = threads.find(|thread| thread.still && thread.functions().any(is_of_freezer));
    if group.is_none() && refrigerated.is_none() {
        return None;
    }
    let mut evidence = vec![format!(
        "{} was started {:.0} s ago and is in state {}",
        process.label(),
        process.age_seconds,
        process.state
    )];
    evidence.push(match group {
        Some(group) => format!("{} contains {}", group.file, group.state),
        None if is_read => "its cgroup is not reported as frozen, which is a kernel bug".to_owned(),
        None => "the freezer state of its cgroup could not be read".to_owned(),
    });
    evidence.extend(refrigerated.and_then(|thread| {
        let function = thread.functions().next()?;
        Some(format!("it waits in {function}"))
    }));
    let confidence = match process.age_seconds >= STUCK_SECONDS {
        true if group.is_some() && refrigerated.is_some() => Confidence::Certain,
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let culprit = culprit::of_process(process);
    let found = finding(Cause::RuncInitFrozen, confidence, culprit, evidence);
    let advice = match group {
        Some(group) => Some(thaw(group)),
        None if is_read => Some(format!(
            "thaw {} by moving it to another freezer cgroup: `echo {} > \
             /sys/fs/cgroup/freezer/tasks`",
            process.label(),
            process.pid
        )),
        None => read_state(process),
    };
    Some(advised(found, advice))
}

/// How to read the state of the cgroup by hand, if it could not be read.
fn read_state(process: &Process) -> Option<String> {
    let path = process.cgroup("freezer").filter(|path| *path != "/")?;
    let (file, frozen, thaw) = match process.freezer_v1().is_some() {
        true => (format!("freezer{path}/freezer.state"), "FROZEN", "THAWED"),
        false => (
            format!("{}/cgroup.freeze", path.trim_start_matches('/')),
            "1",
            "0",
        ),
    };
    Some(format!(
        "check whether it is frozen with `cat /sys/fs/cgroup/{file}`; if that prints {frozen}, \
         thaw it with `echo {thaw} > /sys/fs/cgroup/{file}`"
    ))
}

/// A frozen cgroup of a pod without a runc process in it: paused on purpose, or left frozen.
fn left_frozen(facts: &NodeFacts, group: &FrozenCgroup) -> Option<Finding> {
    let host = &facts.host;
    let is_held = |process: &Process| {
        let path = process.cgroup("freezer");
        path.is_some_and(|path| is_within(path, &group.path))
    };
    let first = |task: &Task| task.init.and_then(|init| host.process(init));
    let tasks = known(&facts.probes.tasks).iter();
    let tasks: Vec<&Task> = tasks
        .filter(|task| first(task).is_some_and(is_held))
        .collect();
    if tasks.is_empty() && !is_of_a_pod(&group.path) {
        return None;
    }
    let processes = host.all_processes().iter();
    let held = processes.filter(|process| is_held(process)).count();
    let evidence = vec![format!(
        "{} contains {}, with {} in the cgroup",
        group.file,
        group.state,
        counted(held, "process")
    )];
    let mut culprit = of_cgroup(&group.path);
    let frozen = match &tasks[..] {
        [] => format!("the cgroup {} of a pod is", group.path),
        [task] => {
            culprit.pod = task.pod.clone();
            culprit.container = task.container.clone();
            culprit.id = Some(task.id.clone());
            format!("{} is", name_of_task(task))
        }
        [task, others @ ..] => format!("{} and {} more are", name_of_task(task), others.len()),
    };
    // The process already waited there in the first sample, so this is not the short freeze of an update.
    let mut firsts = tasks.iter().filter_map(|task| first(task));
    let confidence = match firsts.any(|first| first.waits().any(is_of_freezer)) {
        true => Confidence::High,
        false => Confidence::Low,
    };
    Some(Finding {
        sentence: format!(
            "{frozen} frozen: no process in it runs, and commands and probes in it fail or hang"
        ),
        culprit,
        evidence,
        // The advice of the page is about `runc init`.
        advice: vec![format!("unless it was paused on purpose, {}", thaw(group)).into()],
        ..Finding::new(Cause::RuncInitFrozen, confidence)
    })
}

fn is_of_a_pod(path: &str) -> bool {
    path.contains("kubepods") || path.contains("/pod")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::host::EndSignal;
    use crate::node::{found, node};

    #[test]
    fn a_container_that_is_frozen_is_named_wherever_its_cgroup_is() {
        let file = "/sys/fs/cgroup/freezer/pods/c1/freezer.state";
        let frozen = || {
            let node = node("containerd", "2.3.4").conmon(80, "c1", Some("s1"));
            let node = node.in_group(81, "freezer", "/pods/c1");
            node.frozen("/pods/c1", file, "THAWED")
        };
        let finding = &found(judge(&frozen().facts()))[0];
        assert!(
            finding
                .sentence
                .starts_with("container app of pod shop/web is frozen"),
            "{}",
            finding.sentence
        );
        assert_eq!(finding.confidence, Confidence::Low);
        assert_eq!(finding.culprit.id.as_deref(), Some("c1"));
        assert!(finding.advice[0].contains(&format!("`echo THAWED > {file}`")));
        // Its first process has waited there since the first sample.
        let lasting = frozen().waiting(81, "__refrigerator");
        let finding = &found(judge(&lasting.facts()))[0];
        assert_eq!(finding.confidence, Confidence::High);
        // The container is reported as one that does not end.
        let killed = frozen().pending(81, EndSignal::Kill);
        assert_eq!(judge(&killed.facts()), Opinion::Clear);
        let other = node("containerd", "2.3.4").frozen("/user/vm", file, "THAWED");
        assert_eq!(judge(&other.facts()), Opinion::Clear);
    }
}
